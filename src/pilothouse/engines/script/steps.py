"""The script format: its steps and their options, and a check of a file.

Standard library only, because the player loads it. Rule: a script is played as a whole or not at all, and an error names
the file, the turn, the step, the bad key and the nearest good one.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

Table = dict[str, Any]

TOOL_KINDS = ("command", "file_change", "read", "search", "web", "subagent", "tool", "note")
FAILURE_KINDS = (
    "auth",
    "quota",
    "rate_limit",
    "overloaded",
    "transport",
    "context_overflow",
    "stale_session",
    "permission",
    "budget",
    "crash",
    "hang",
    "bad_request",
)
FLOODS = ("tool", "lines", "line", "stderr")


class Rule(NamedTuple):
    """A condition on a value. `words` describe it; `choices` also help to find the nearest good one."""

    words: str
    kinds: tuple[type, ...]
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    items: type | None = None

    def fits(self, value: Any) -> bool:
        if not isinstance(value, self.kinds) or (isinstance(value, bool) and bool not in self.kinds):
            return False
        if self.items is not None and not all(isinstance(item, self.items) for item in value):
            return False
        in_range = (self.least is None or value >= self.least) and (self.most is None or value <= self.most)
        return in_range and (not self.choices or value in self.choices)


def _one_of(*choices: str) -> Rule:
    return Rule(f"one of {', '.join(choices)}", (str,), choices=choices)


TEXT = Rule("a text", (str,))
TEXTS = Rule("a list of texts", (list,), items=str)
FLAG = Rule("true or false", (bool,))
YES = Rule("true", (bool,), least=1)
COUNT = Rule("a whole number, zero or more", (int,), least=0)
POSITIVE = Rule("a whole number above zero", (int,), least=1)
SECONDS = Rule("a number of seconds from 0 to 86400", (int, float), least=0, most=86400)
AMOUNT = Rule("an amount, zero or more", (int, float), least=0)
EXIT_CODE = Rule("an exit code from 0 to 255, or a signal as -1 to -64", (int,), least=-64, most=255)
TABLE = Rule("a table", (dict,))
NESTED = Rule("a list of steps", (list,))

STEPS: Mapping[str, Mapping[str, Rule]] = {
    "say": {"say": TEXT},
    "stream": {"stream": TEXT, "chunk": POSITIVE, "every_s": SECONDS},
    "think": {"think": TEXT},
    "tool": {"tool": _one_of(*TOOL_KINDS), "title": TEXT, "output": TEXT, "ok": FLAG, "for_s": SECONDS},
    "call": {"call": TEXT, "arguments": TABLE},
    "plan": {"plan": TEXTS, "active": COUNT, "done": COUNT},
    "ask": {
        "ask": TEXT,
        "kind": _one_of("approval", "question", "plan"),
        "options": TEXTS,
        "free_text": FLAG,
        "payload": TABLE,
        "call": TABLE,
        "on_allow": NESTED,
        "on_deny": NESTED,
        "on_answer": NESTED,
    },
    "image": {"image": TEXT},
    "notice": {"notice": TEXT, "level": _one_of("info", "warning", "error"), "kind": TEXT},
    "usage": {"usage": TABLE},
    "sleep": {"sleep": SECONDS},
    "fail": {"fail": _one_of(*FAILURE_KINDS), "text": TEXT, "retry_in_s": SECONDS, "detail": TEXT},
    "crash": {"crash": EXIT_CODE, "mid_line": FLAG, "stderr": TEXT},
    "hang": {"hang": YES, "after_result": FLAG},
    "flood": {"flood": COUNT, "into": _one_of(*FLOODS)},
    "garbage": {"garbage": COUNT},
    "spawn": {"spawn": TEXT},
    "ignore_sigterm": {"ignore_sigterm": YES},
}
CALL: Mapping[str, Rule] = {
    "kind": _one_of("command", "read", "change", "web", "mcp", "skill", "notes", "tool", "unreadable"),
    **dict.fromkeys(("tool", "cwd", "command", "host", "url", "server", "server_tool", "skill"), TEXT),
    "paths": TEXTS,
    "deep": FLAG,
    "change": TABLE,
    "input": TABLE,
}
USAGE: Mapping[str, Rule] = {
    "cost_usd": AMOUNT,
    "input_tokens": COUNT,
    "output_tokens": COUNT,
    "cache_read_tokens": COUNT,
    "cache_write_tokens": COUNT,
    "context_tokens": COUNT,
    "context_window": COUNT,
}
TURN: Mapping[str, Rule] = {"match": TEXT, "steps": NESTED}


class Script(NamedTuple):
    """Checked turns, as in the file. Relative paths start at `folder`."""

    turns: tuple[Table, ...]
    folder: Path

    def pick(self, prompt: str, ended: int) -> list[Table] | None:
        """Return the steps for this prompt after `ended` turns of the session; None if no turn fits."""
        for turn in self.turns:
            if "match" in turn and turn["match"].casefold() in prompt.casefold():
                return turn["steps"]
        plain = [turn["steps"] for turn in self.turns if "match" not in turn]
        return plain[min(ended, len(plain) - 1)] if plain else None


class ScriptError(Exception):
    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


def load_script(path: str | Path) -> Script:
    """Return the script in the file. Raises `ScriptError` with every problem in it."""
    path = Path(path).expanduser()
    table = _read(path)
    if problems := [f"{path}: {problem}" for problem in _check(table, path.parent)]:
        raise ScriptError(problems)
    return Script(tuple(table["turn"]), path.parent)


def check_script(path: str | Path) -> list[str]:
    """Return the problems of the file, one line each; empty if it can be played."""
    try:
        load_script(path)
    except ScriptError as error:
        return error.problems
    return []


def _read(path: Path) -> Table:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ScriptError([f"{path}: there is no such file. Correct the path, or write the script"]) from None
    except OSError as error:
        raise ScriptError([f"{path}: it cannot be read: {error.strerror}"]) from None
    except ValueError as error:
        raise ScriptError([f"{path}: it is not valid TOML: {error}"]) from None


def _check(table: Table, folder: Path) -> Iterator[str]:
    turns = table.get("turn")
    for key in table.keys() - {"turn"}:
        yield unknown("key", key, ("turn",))
    if not isinstance(turns, list) or not turns or not all(isinstance(turn, dict) for turn in turns):
        yield 'a script needs at least one turn: begin it with "[[turn]]"'
        return
    for number, turn in enumerate(turns, 1):
        for problem in _check_keys(turn, TURN, ("steps",)):
            yield f"turn {number}: {problem}"
        yield from _check_steps(turn.get("steps"), f"turn {number}", folder)


def _check_steps(steps: Any, where: str, folder: Path) -> Iterator[str]:
    if not isinstance(steps, list):
        return
    for number, step in enumerate(steps, 1):
        place = f"{where}, step {number}"
        if not isinstance(step, dict):
            yield f'{place}: a step is a table like {{ say = "Hello" }}, not {step!r}'
            continue
        for problem in _check_step(step, folder):
            yield f"{place}: {problem}"
        for nested in ("on_allow", "on_deny", "on_answer"):
            yield from _check_steps(step.get(nested), f"{place}, {nested}", folder)


def _check_step(step: Table, folder: Path) -> Iterator[str]:
    name = step_name(step)
    if name is None:
        yield _nameless(step)
        return
    yield from _check_keys(step, STEPS[name])
    if name == "usage" and isinstance(step["usage"], dict):
        yield from _check_keys(step["usage"], USAGE)
    if name == "ask" and isinstance(step.get("call"), dict):
        yield from (f"call: {problem}" for problem in _check_keys(step["call"], CALL, ("kind",)))
    if name == "image" and isinstance(step["image"], str) and not (folder / step["image"]).is_file():
        yield f"image: there is no file {step['image']!r} in {folder}"


def step_name(step: Table) -> str | None:
    """Return the key that says what kind of step it is: the first one in the file, as options may share a name."""
    return next((key for key in step if key in STEPS), None)


def _nameless(step: Table) -> str:
    if not step:
        return f"it is empty; a step is one of {', '.join(STEPS)}"
    return unknown("step", next(iter(step)), tuple(STEPS))


def _check_keys(table: Table, rules: Mapping[str, Rule], needed: tuple[str, ...] = ()) -> Iterator[str]:
    for key in needed:
        if key not in table:
            yield f'"{key}" is missing: it is {rules[key].words}'
    for key, value in table.items():
        if key not in rules:
            yield unknown("key", key, tuple(rules))
        elif not rules[key].fits(value):
            yield f'"{key}" is {value!r}, but must be {rules[key].words}{_meant(value, rules[key].choices)}'


def unknown(kind: str, key: str, known: tuple[str, ...]) -> str:
    return f'unknown {kind} "{key}"' + (_meant(key, known) or f"; known are {', '.join(known)}")


def _meant(value: Any, known: tuple[str, ...]) -> str:
    from difflib import get_close_matches  # only for an error, so that the player starts faster

    near = get_close_matches(str(value), known, 1, 0.5) if isinstance(value, str) else []
    return f'; did you mean "{near[0]}"?' if near else ""
