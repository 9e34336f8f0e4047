"""Names of time zones to time zones. UTC needs no database, and is there on every machine.

Values that are of the right type and still mean nothing: a rule, an engine, a time zone, a person.

They are looked at leaf by leaf, also where something beside them is wrong, so that every problem is told at once.
"""

from __future__ import annotations

from datetime import UTC, tzinfo

from pilothouse.config.decode import Reader
from pilothouse.config.model import AUTO, Models
from pilothouse.config.problems import Problem, show
from pilothouse.config.sources import Key, Leaf, dotted
from pilothouse.core.errors import ConfigError
from pilothouse.core.rules import parse_rule


def find_zone(name: str) -> tzinfo:
    """Raises `LookupError` for a name that nobody knows here."""
    if name.upper() == "UTC":
        return UTC
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (ValueError, OSError) as error:  # a path, a folder: no name at all
        raise LookupError(name) from error


def check_meanings(reader: Reader, models: Models) -> None:
    for key, leaf in reader.leaves.items():
        match key:
            case ("policy", "rules") | ("workspaces", _, "rules"):
                check_rules(reader, key)
            case ("budget", "time_zone"):
                _check_zone(reader, leaf)
            case ("gateway", "default_engine") | ("workspaces", _, "engine"):
                _check_engine(reader, models, key)
            case ("people" | "workspaces", *_, "owners" | "admins" | "members"):
                _warn_of_nobody(reader, models, key)
            case _:
                pass


def check_rules(reader: Reader, key: Key) -> None:
    """A rule that cannot be read is an error: one that was meant to forbid must never be passed over."""
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
        text = f'{show(leaf.shown)} is no time zone that is known here; say "UTC" or "Europe/Berlin"'
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


def _warn_of_nobody(reader: Reader, models: Models, key: Key) -> None:
    """A warning: the others in the list are let in all the same, and a plugin may come back."""
    leaf = reader.leaves[key]
    if models.person_problem is None or not isinstance(leaf.value, list):
        return
    for person, written in zip(leaf.value, leaf.shown, strict=True):
        if isinstance(person, str) and (why := models.person_problem(person)):
            reader.warnings.append(Problem(leaf.source, dotted(key), f"{show(written)} is nobody: {why}"))


def _text(leaf: Leaf) -> str | None:
    """A variable's value may look like a number, and be a name. What is no text at all was complained of already."""
    return leaf.value if isinstance(leaf.value, str) else leaf.raw
