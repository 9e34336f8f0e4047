"""Chooses the rule that "for this session" and "always" save. Pure, so that people can read it before they answer.

One word of a command, two for programs whose second word says what they do, three for launchers; for what could run
anything (`programs.py`) the very command alone, and for a wrapper, or a text given to an interpreter, nothing.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from pilothouse.core.errors import ConfigError
from pilothouse.core.rules import MAX_CHARS, Rule, RuleKind, parse_rule
from pilothouse.policy.programs import BY_TWO, INTERPRETERS, MODULES, OPEN, WRAPPERS, is_open, plain_name
from pilothouse.policy.reader_table import TWO, word_set

THREE: dict[str, frozenset[str]] = {
    "npx": frozenset(),
    "bunx": frozenset(),
    "uvx": frozenset(),
    "bun": frozenset({"x", "run"}),
    "npm": frozenset({"exec", "run", "run-script"}),
    "pnpm": frozenset({"dlx", "exec", "run"}),
    "yarn": frozenset({"dlx", "exec", "run"}),
    "uv": frozenset({"run", "tool", "pip"}),
    "poetry": frozenset({"run"}),
    "hatch": frozenset({"run"}),
    "pipx": frozenset({"run"}),
    "bundle": frozenset({"exec"}),
    "docker": frozenset({"compose", "image", "container"}),
    "gh": frozenset({"pr", "issue", "run", "repo", "api", "release"}),
    "deno": frozenset({"task", "run"}),
}
"""Launchers whose third word names what runs, by their second word; an empty set means every second word."""
THREE_OPEN: dict[str, frozenset[str]] = {
    "uv pip": word_set("install sync"),
    "uv tool": word_set("run install"),
    "docker compose": word_set("run exec"),
    "docker container": word_set("run exec create start"),
    "docker image": word_set("load import"),
    "gh api": frozenset(),
    "gh issue": frozenset(),
    "gh pr": word_set("checkout"),
    "gh release": frozenset(),
    "gh repo": word_set("clone fork"),
    "gh run": frozenset(),
}
"""Launchers whose third word is a subcommand, and the subcommands that may run anything."""

_SUBJECT = re.compile(r"[A-Za-z0-9_@][A-Za-z0-9_@:./+\-]*|\./[A-Za-z0-9_@:./+\-]+")


def remember_command(texts: Sequence[str]) -> tuple[Rule, ...]:
    """Return the rule for a command; none if the command may only be allowed once."""
    name = plain_name(texts[0])
    if name in WRAPPERS or "=" in texts[0]:
        return ()
    if name in INTERPRETERS:
        return _script_rule(name, texts)
    if name in OPEN:
        return exact_rule(texts)
    if name in THREE and len(texts) > 2 and (not THREE[name] or texts[1] in THREE[name]):
        return _launched_rule(name, texts)
    if name in THREE and not THREE[name] and len(texts) == 2 and not is_open(texts[1]):
        return _command_rule(texts, 2)
    if name in TWO or name in THREE:
        if len(texts) == 1 or texts[1] not in BY_TWO.get(name, ()):
            return exact_rule(texts) if len(texts) == 1 or _SUBJECT.fullmatch(texts[1]) else ()
        return _command_rule(texts, 2)
    return _command_rule(texts, 1)


def _launched_rule(name: str, texts: Sequence[str]) -> tuple[Rule, ...]:
    """Name a launcher by what it runs, unless that may run anything itself."""
    if (told := THREE_OPEN.get(f"{name} {texts[1]}")) is not None:
        runs_anything = texts[2] in told
    else:
        runs_anything = is_open(texts[2] if THREE[name] else texts[1])
    if runs_anything:
        return exact_rule(texts)
    return _command_rule(texts, 3)


def _script_rule(name: str, texts: Sequence[str]) -> tuple[Rule, ...]:
    """Name an interpreter by the module or file that it runs, never by a text."""
    if len(texts) > 2 and texts[1] == "-m" and _SUBJECT.fullmatch(texts[2]):
        return exact_rule(texts) if texts[2] in MODULES else (Rule("allow", "command", tuple(texts[:3])),)
    if name == "deno":
        return _command_rule(texts, 3) if len(texts) > 2 and texts[1] in THREE["deno"] else ()
    if len(texts) == 1 or not _SUBJECT.fullmatch(texts[1]):
        return ()
    return _command_rule(texts, 2) if re.search(r"[./]", texts[1]) else exact_rule(texts)


def _command_rule(texts: Sequence[str], count: int) -> tuple[Rule, ...]:
    words = tuple(texts[:count])
    if not all(_SUBJECT.fullmatch(word) for word in words):
        return ()
    return (Rule("allow", "command", words),)


def exact_rule(texts: Sequence[str]) -> tuple[Rule, ...]:
    """Return a rule for this exact command; none if its text would be read as a pattern."""
    line = shlex.join(texts)
    return () if re.search(r"[*?]", line) else _checked("glob", line)


def path_rule(kind: RuleKind, path: str, *, deep: bool = False) -> tuple[Rule, ...]:
    if re.search(r"[*?]", path):
        return ()
    return _checked(kind, shlex.quote(path.rstrip("/") + "/**" if deep else path))


def name_rule(kind: RuleKind, *names: str) -> tuple[Rule, ...]:
    """Return a rule for a tool, server, skill or domain; none if its name would be read as a pattern."""
    if any(re.search(r"[*?]", name) or not name for name in names):
        return ()
    return _checked(kind, shlex.join(names))


def _checked(kind: RuleKind, what: str) -> tuple[Rule, ...]:
    """Return the rule only if it fits on a line and survives being read again."""
    line = f"allow {kind} {what}"
    if len(line) > MAX_CHARS or not line.isprintable():
        return ()
    try:
        rule = parse_rule(line)
    except ConfigError:
        return ()
    return (rule,) if str(parse_rule(str(rule))) == str(rule) else ()
