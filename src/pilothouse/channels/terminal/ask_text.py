"""An ask as terminal text: who wants what, shown once, then the keys that answer it. Pure.

Nothing that a yes would cover is left out or cut, except long values, which say how much is missing; `d` shows
everything. The narrow answers come first, the lasting ones below them, each with what it would allow.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import PurePosixPath

from pilothouse.channels.terminal.receive import ENTER_KEEPS, Choice, choices, chosen, explain_key
from pilothouse.channels.terminal.style import Palette, cells, fold_line, indent
from pilothouse.core.ask import Ask
from pilothouse.core.ask_view import AskLine, ask_lines, head_and_rest, object_of, reason
from pilothouse.core.text import reveal_hidden


def ask_text(ask: Ask, palette: Palette, width: int, folder: str = "", *, enter: bool = False) -> str:
    """Renders the question, exactly what is asked, and how to answer it; `enter` says that each key needs Enter.

    `folder` is the workspace, which is not named."""
    line, rest = head_and_rest(ask)
    head = f"{line}\n{rest}" if rest and not object_of(ask) else line
    first, *more = [
        row for line in reveal_hidden(head).split("\n") for row in indent(line, width).split("\n")
    ]
    lines = [palette.yellow("? ") + palette.bold(first[2:]), *(palette.bold(row) for row in more)]
    lines += ask_body(_details(ask, folder, told="" if rest else object_of(ask)), palette, width)
    lines += _answers(choices(ask), palette, width)
    for number, option in enumerate(ask.options, 1):
        lines += _keyed(str(number), option.label, palette, width)
    return "\n".join([*lines, *filter(None, [_how(ask, palette, enter=enter)])])


def keep_warning(ask: Ask, typed: str, width: int) -> str:
    """Shows the exact rule that Enter would keep after `typed`; empty if none."""
    choice = chosen(ask, typed)
    if choice is None or not choice.rule:
        return ""
    first, *rest = fold_line(reveal_hidden(f"Enter saves the rule: {choice.rule}"), width - 2)
    return "\n".join([f"  {first}", *(f"    {more}" for more in rest), indent(ENTER_KEEPS, width)])


def ask_help(ask: Ask, palette: Palette, width: int) -> str:
    """Lists what each key does."""
    found = choices(ask)
    if not found:
        return palette.dim(indent("Type the number of an option, or an answer in words, then Enter.", width))
    rows = (textwrap.wrap(explain_key(ask, choice), width - 5) for choice in found)
    lines = (
        "\n".join(
            [
                f"  {palette.bold(choice.key)}  {palette.dim(first)}",
                *(f"     {palette.dim(more)}" for more in rest),
            ]
        )
        for choice, (first, *rest) in zip(found, rows, strict=True)
    )
    return "\n".join(lines)


def ask_body(found: Iterable[AskLine], palette: Palette, width: int) -> Iterator[str]:
    """Wraps and never cuts: the person who answers must see all of it."""
    for line in found:
        goes_on = "  " if line.sort in ("value", "more") else ""
        name = f"{reveal_hidden(line.name)}: " if line.name else goes_on
        paint = _paint(line, palette)
        first, *rest = fold_line(name + reveal_hidden(line.text), width - 2)
        yield "  " + (palette.dim(name) + paint(first[len(name) :]) if line.name else paint(first))
        yield from (f"    {paint(more)}" for more in rest)


def _details(ask: Ask, folder: str, told: str) -> Iterator[AskLine]:
    """Yields what the headline lacks: the engine's own words, the diff, further input, another folder, the reason.

    `told` is what the headline names in full."""
    if ask.kind != "approval" and not ask.of_house:
        return
    if about := object_of(ask):
        yield from (AskLine("where", line) for line in _own_words(ask.title, about))
    named = {told, *(ask.call.paths[:1] if ask.call and told else ())} - {""}
    lines = ask_lines(ask)
    for line, after in zip_longest(lines, lines[1:], fillvalue=AskLine("where", "")):
        goes_on = after.sort == "value" and not after.name
        repeats = line.sort == "value" and line.text in named and bool(line.name) and not goes_on
        is_here = (line.sort, line.name, line.text) == ("where", "in", folder)
        is_tool = bool(about) and (line.name, line.text) == ("tool", ask.payload.get("tool"))
        if line.sort == "why":
            yield AskLine("why", reason(ask))
        elif not (repeats or is_here or is_tool):
            yield line


def _own_words(title: str, subject: str) -> list[str]:
    """Returns the lines of the title that say more than the headline."""
    first, *rest = title.split("\n")
    told = " ".join(first.split())
    about = " ".join(subject.split())
    is_told = about[:60] in told or PurePosixPath(about).name in told or told.rstrip("…") in about
    return [line for line in ([] if is_told else [first]) + rest if line.strip()]


def _answers(found: Sequence[Choice], palette: Palette, width: int) -> Iterator[str]:
    narrow = [choice for choice in found if choice.at_once]
    others = [choice for choice in found if not choice.at_once and not choice.rule]
    yield from _key_rows(narrow, palette, width, str)
    for choice in (choice for choice in found if choice.rule):
        yield from map(palette.dim, _keyed(choice.key, choice.label, Palette(color=False), width))
    yield from _key_rows(others, palette, width, palette.dim)


def _how(ask: Ask, palette: Palette, *, enter: bool) -> str:
    """Says what to type if the keys do not."""
    words = ", or your own words" if ask.free_text else ""
    if ask.many and ask.options:
        return palette.dim(f"  Type one or several numbers, as in 1,3{words}; then Enter.")
    if ask.options:
        return palette.dim(f"  Type a number{words}; then Enter.")
    if ask.free_text or not (choices(ask) or ask.options):
        return palette.dim("  Type your answer, then Enter.")
    return palette.dim("  Type one of these, then Enter.") if enter else ""


def _paint(line: AskLine, palette: Palette) -> Callable[[str], str]:
    if line.sort == "diff":
        marks = {"+": palette.green, "-": palette.red, "@": palette.dim, "…": palette.yellow}
        return palette.dim if line.text.startswith(("---", "+++")) else marks.get(line.text[:1], str)
    return {"more": palette.yellow, "why": palette.dim, "where": palette.dim}.get(line.sort, str)


def _keyed(key: str, label: str, palette: Palette, width: int) -> list[str]:
    first, *rest = fold_line(" ".join(reveal_hidden(label).split()), width - 5 - len(key))
    return [f"  {palette.bold(key)} {first}", *(f"    {more}" for more in rest)]


def _key_rows(keys: Sequence[Choice], palette: Palette, width: int, paint: Callable[[str], str]) -> list[str]:
    """Puts as many keys on a row as fit."""
    rows: list[list[Choice]] = []
    used = width
    for choice in keys:
        room = cells(f"{choice.key} {choice.label}") + 3
        if used + room > width - 1:
            used = 0
            rows.append([])
        rows[-1].append(choice)
        used += room
    dot = palette.dim(" · ")
    return ["  " + dot.join(f"{palette.bold(c.key)} {paint(c.label)}" for c in row) for row in rows]
