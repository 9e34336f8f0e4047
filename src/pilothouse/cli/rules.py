"""`pilothouse rules`: lists, adds and removes rules, and warns of a rule that allows more than it seems to."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
from msgspec import Struct

from pilothouse.bootstrap.terminal_text import say
from pilothouse.cli.options import ListGroup, json_option
from pilothouse.cli.store import load_plain, read_store, write_store
from pilothouse.cli.table import print_json, print_table
from pilothouse.config import Loaded, narrowing_of
from pilothouse.core.errors import ConfigError
from pilothouse.core.ids import RuleId
from pilothouse.core.policy import Rule, RuleRow, parse_rule

WIDE = {
    "glob": "It lets every command without variables or substitutions run unasked, `rm` and `git push` too.",
    "tool": "It lets every tool run unasked: every command, every change of a file in the workspace, every fetch.",
    "mcp": "It lets every tool of every MCP server run unasked.",
    "skill": "It lets every skill run unasked.",
}
FAR = {
    "path": "It lets files be read and changed unasked far outside the workspace: keys, settings, programs.",
    "read": "It lets files be read unasked far outside the workspace: keys and passwords too.",
}
FAR_FOLDERS = ("/**", "~/**")

EVERYWHERE = "everywhere"


def caution(rule: Rule) -> str:
    """Warns if the rule is wider, or narrower, than it looks; else empty."""
    if rule.kind == "command" and any(mark in word for word in rule.words for mark in "*?"):
        words = " ".join(rule.words)
        return (
            f"It matches these characters literally, so it fits hardly any command: a `command` rule has no "
            f"patterns. For a pattern, write `{rule.outcome} glob {words}`."
        )
    if rule.outcome != "allow":
        return ""
    if not rule.pattern.strip("*? "):
        return WIDE.get(rule.kind, "")
    return FAR.get(rule.kind, "") if rule.pattern in FAR_FOLDERS else ""


NO_RULES = (
    "No rules of your own. What an approval mode allows (reading in the folder, harmless commands such as ls or git diff) needs "
    "none. To add one: pilothouse rules add deny command git push"
)


class Line(Struct, frozen=True):
    """One rule. Only rules in the store have an id and can be removed here; `source` names the file of the others."""

    id: str
    rule: str
    workspace: str
    source: str
    by: str = ""
    session: str = ""
    lapsed: bool = False
    """True if another folder has replaced the one it was for: the rule no longer applies."""


@click.group("rules", cls=ListGroup, invoke_without_command=True)
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """List, add and remove rules: what is allowed, denied or asked. `docs/rules.md` has the grammar."""
    if context.invoked_subcommand is None:
        _print(as_json)


@command.command("add", context_settings={"ignore_unknown_options": True})
@click.argument("words", nargs=-1, required=True)
@click.option("--workspace", default=".", help="The folder it applies to; default: this one.")
@click.option("--everywhere", is_flag=True, help="For every folder.")
@json_option
def add(words: tuple[str, ...], workspace: str, everywhere: bool, as_json: bool) -> None:
    """Add a rule: `pilothouse rules add deny command git push`."""
    from pilothouse.bootstrap.people import terminal_user
    from pilothouse.runtime.asks.rules import find_folder, keep_rule
    from pilothouse.runtime.ports import new_id

    rule = parse_rule(words[0] if len(words) == 1 else _line(words))
    place = find_folder("" if everywhere else _folder(workspace))
    if rule.outcome == "allow" and place.path and not place.mark:
        raise ConfigError(
            f"Nothing can be allowed for {place.path} alone: its file system does not record when a folder was created, so "
            "the rule would also apply to a folder that replaces it. Use --everywhere, or write it into the configuration."
        )
    by, at = terminal_user(), time.time()
    row = write_store(lambda tx: keep_rule(tx, new_id, place, rule, by, at))
    if row is not None and (words_of_caution := caution(rule)):
        say(f"Caution: {rule}\n{words_of_caution}")
    if as_json:
        print_json({"added": None if row is None else msgspec.to_builtins(_of_store(row))})
    elif row is None:
        print(f"This rule exists already: {rule}")
    else:
        say(
            f"Added {row.id}: {rule}\n{_place_words(row.workspace)} To undo: `pilothouse rules remove {row.id}`",
            sys.stdout,
        )


@command.command("remove")
@click.argument("id")
@json_option
def remove(id: str, as_json: bool) -> None:
    """Remove a rule by its id."""
    from pilothouse.bootstrap.people import terminal_user
    from pilothouse.runtime.asks.rules import drop_rule

    by, at = terminal_user(), time.time()
    row = write_store(lambda tx: drop_rule(tx, RuleId(id), by, at))
    if row is None:
        raise ConfigError(
            f"There is no rule {id!r} in the store. `pilothouse rules` lists them; remove a rule of a file in that file."
        )
    if as_json:
        print_json({"removed": msgspec.to_builtins(_of_store(row))})
    else:
        print(f"Removed: {row.rule}\nIt was for {row.workspace or EVERYWHERE}.")


def _print(as_json: bool) -> None:
    from pilothouse.runtime.asks.rules import lapsed_rules

    rows = read_store(lambda tx: tx.rules.list()) or []
    lapsed = lapsed_rules(rows)
    lines = [*_configured(load_plain()), *(_of_store(row, lapsed=row.id in lapsed) for row in rows)]
    if as_json:
        print_json({"rules": msgspec.to_builtins(lines)})
        return
    shown = [
        (
            line.id or "-",
            line.rule,
            f"{line.workspace} (lapsed: another folder is there)" if line.lapsed else line.workspace,
            line.session or line.source,
        )
        for line in lines
    ]
    print_table(
        ("ID", "RULE", "WHERE", "FROM"),
        shown,
        NO_RULES,
        optional=("FROM",),
        whole=("RULE",),
    )


def _configured(loaded: Loaded) -> Iterator[Line]:
    file = str(loaded.paths.config_file)
    for rule in loaded.config.policy.rules:
        yield Line("", rule, EVERYWHERE, file)
    places = {os.path.realpath(section.path): section for section in loaded.config.workspaces.values()}
    for place, section in places.items():
        for rule in section.rules:
            yield Line("", rule, place, file)
    for place in dict.fromkeys((*places, os.path.realpath("."))):
        for found in narrowing_of(Path(place)).rules:
            yield Line("", str(found), place, str(Path(place, ".pilothouse.toml")))


def _of_store(row: RuleRow, *, lapsed: bool = False) -> Line:
    where = row.workspace or EVERYWHERE
    return Line(row.id, row.rule, where, "remembered", row.by, row.session_id or "", lapsed)


def _line(words: tuple[str, ...]) -> str:
    """Joins words from the shell, quoted again where the grammar needs it."""
    import shlex

    outcome, *rest = words
    kind, what = (rest[0], rest[1:]) if rest else ("", [])
    return f"{outcome} {kind} {' '.join(what) if kind == 'glob' else shlex.join(what)}"


def _place_words(workspace: str) -> str:
    return f"In {workspace}." if workspace else "Everywhere."


def _folder(path: str) -> str:
    folder = os.path.realpath(os.path.expanduser(path))
    if not os.path.isdir(folder):
        raise ConfigError(f"There is no folder {folder}. Name an existing one, or use --everywhere.")
    return folder
