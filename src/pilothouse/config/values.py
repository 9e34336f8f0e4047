"""Checks values that have the right type and may still be wrong: rules, engines, time zones, people.

Each leaf is checked, also next to other errors, so that all problems are reported at once.
"""

from __future__ import annotations

from datetime import UTC, tzinfo

from pilothouse.config.decode import Reader
from pilothouse.config.model import AUTO, Models
from pilothouse.config.problems import Problem, show
from pilothouse.config.sources import Key, Leaf, dotted
from pilothouse.core.errors import ConfigError
from pilothouse.core.policy import parse_rule


def find_zone(name: str) -> tzinfo:
    """Return a time zone by name; UTC needs no database. Raises `LookupError` for an unknown one."""
    if name.upper() == "UTC":
        return UTC
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (ValueError, OSError) as error:  # a path or a folder
        raise LookupError(name) from error


def check_values(reader: Reader, models: Models) -> None:
    for key, leaf in reader.leaves.items():
        match key:
            case ("policy", "rules") | ("workspaces", _, "rules"):
                check_rules(reader, key)
            case ("budget", "time_zone"):
                _check_zone(reader, leaf)
            case ("gateway", "default_engine") | ("workspaces", _, "engine"):
                _check_engine(reader, models, key)
            case ("people" | "workspaces", *_, "owners" | "admins" | "members"):
                _warn_of_impossible_people(reader, models, key)
            case _:
                pass


def check_rules(reader: Reader, key: Key) -> None:
    """Report rules that cannot be parsed: a deny rule must never be skipped."""
    leaf = reader.leaves.get(key)
    lines = leaf.value if leaf and isinstance(leaf.value, list) else []
    for line in lines if all(isinstance(line, str) for line in lines) else ():
        try:
            parse_rule(line)
        except ConfigError as error:
            reader.problems.append(Problem(reader.leaves[key].source, dotted(key), str(error)))


def _check_zone(reader: Reader, leaf: Leaf) -> None:
    said = _text(leaf)
    try:
        if said is not None:
            find_zone(said)
    except LookupError:
        text = f'{show(leaf.shown)} is not a known time zone; use a name like "UTC" or "Europe/Berlin"'
        reader.problems.append(Problem(leaf.source, "budget.time_zone", text))


def _check_engine(reader: Reader, models: Models, key: Key) -> None:
    said = _text(reader.leaves[key])
    if models.engines is None or not said or said == AUTO:
        return
    enabled = [
        name
        for name in models.engines
        if reader.leaves.get(("engines", name, "enabled"), Leaf(True, "")).value
    ]
    if models.engine_aliases.get(said, said) not in enabled:
        reader.refuse(key, (AUTO, *enabled) if key[0] == "gateway" else enabled)


def _warn_of_impossible_people(reader: Reader, models: Models, key: Key) -> None:
    """Warn of ids that no channel can produce. Not an error: the rest of the list works, and a plugin may return."""
    leaf = reader.leaves[key]
    if models.person_problem is None or not isinstance(leaf.value, list):
        return
    for person, written in zip(leaf.value, leaf.shown, strict=True):
        if isinstance(person, str) and (why := models.person_problem(person)):
            reader.warnings.append(
                Problem(leaf.source, dotted(key), f"{show(written)} is not a user id: {why}")
            )


def _text(leaf: Leaf) -> str | None:
    """Return the text of a leaf. A variable that looks like a number may be a name; other types were reported."""
    return leaf.value if isinstance(leaf.value, str) else leaf.raw
