"""An ask as plain lines, in the order in which people need them. Pure.

Long values are shortened, and a `more` line says by how much; `/show`, or the channel's own view, gives the full text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec
from msgspec import Struct

from pilothouse.core.ask import Ask, input_of
from pilothouse.core.preview import beside_preview, shorten

VALUE_LINES = 20
VALUE_CHARS = 4000

_SHOWN_APART = ("tool", "input", "cwd")

Sort = Literal["value", "more", "diff", "where", "why"]


class AskLine(Struct, frozen=True):
    """One line. A line without a `name` continues the one before it."""

    sort: Sort
    text: str
    name: str = ""


def ask_lines(ask: Ask) -> list[AskLine]:
    """The lines between an ask's title and its answers."""
    lines = [AskLine("diff", line) for line in shorten(ask.preview).split("\n")] if ask.preview else []
    if not ask.of_house:
        lines += [line for name, value in _values(ask) for line in _value(name, value)]
    cwd = ask.payload.get("cwd")
    if isinstance(cwd, str) and cwd and input_of(ask) is not None:
        lines.append(AskLine("where", cwd, "in"))
    if ask.whose:
        lines.append(AskLine("where", ask.whose))
    if ask.why:
        lines.append(AskLine("why", " ".join(ask.why.split()), "why"))
    return lines


def whole_ask(ask: Ask) -> list[AskLine]:
    """The diff and the payload to the last character, and the hash that an answer is bound to."""
    diff = [AskLine("diff", line) for line in ask.preview.split("\n")] if ask.preview else []
    payload = msgspec.json.format(msgspec.json.encode(ask.payload), indent=2).decode()
    return [
        *diff,
        *(AskLine("value", line) for line in payload.split("\n")),
        AskLine("where", ask.payload_hash, "sha256"),
    ]


def command_of(ask: Ask) -> str | None:
    """The command line that would run, if the ask is about one."""
    given = input_of(ask)
    command = (ask.payload if given is None else given).get("command")
    return command if isinstance(command, str) and command.strip() else None


def rule_offered(ask: Ask, remember: str) -> str:
    """The rule that this allow would save; empty if none is offered."""
    return next((offer.rule for offer in ask.offers if offer.remember == remember), "")


def _values(ask: Ask) -> Iterator[tuple[str, Any]]:
    """Yield the values that the title does not already show. The title of a call is not shown."""
    given = input_of(ask)
    if given is not None:
        tool = ask.payload.get("tool")
        told = " ".join(ask.title.split())
        if isinstance(tool, str) and not told.startswith(tool) and command_of(ask) is None:
            yield "tool", tool
        yield from ((name, value) for name, value in ask.payload.items() if name not in _SHOWN_APART)
        shown = beside_preview(ask) if ask.preview else given
        is_told = ask.call is None
        yield from ((name, value) for name, value in shown.items() if not (is_told and _repeats(told, value)))
    elif not ask.payload.items() <= {"kind": ask.kind, "title": ask.title}.items():
        yield from ask.payload.items()


def _repeats(title: str, value: Any) -> bool:
    return isinstance(value, str) and "\n" not in value.strip() and " ".join(value.split()) == title


def _value(name: str, value: Any) -> Iterator[AskLine]:
    words = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    lines = words[:VALUE_CHARS].split("\n")
    shown = lines[:VALUE_LINES]
    yield AskLine("value", shown[0], name)
    yield from (AskLine("value", line) for line in shown[1:])
    missing = words.count("\n") + 1 - len(shown)
    if missing:
        yield AskLine("more", f"… and {missing} more lines")
    elif len(words) > VALUE_CHARS:
        yield AskLine("more", f"… and {len(words) - VALUE_CHARS:,} more characters")


def payload_text(ask: Ask) -> str:
    """Format the whole payload: each value under its name."""
    given = input_of(ask)
    return join_values(ask.payload.items() if given is None else [*beside_input(ask), *given.items()])


def beside_input(ask: Ask) -> list[tuple[str, Any]]:
    """Return the values beside the input, even if the input has the same names."""
    return [(key, value) for key, value in ask.payload.items() if key != "input"]


def join_values(values: Iterable[tuple[str, Any]]) -> str:
    return "\n".join(_named(key, value) for key, value in values)


def _named(key: str, value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return f"{key}:\n{text}" if "\n" in text else f"{key}: {text}"
