"""Markdown as Discord reads it, from Markdown as engines write it.

Discord knows one fence: three backticks, which the next three end, wherever they stand. So every fence becomes that
one, backticks within a block are held apart, a block that nobody closes is closed, and outside a block there are no
three backticks at all. Tables, which Discord does not know, become blocks of code.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

from pilothouse.channels.discord.tables import render_tables
from pilothouse.channels.literal import literals, phrases
from pilothouse.channels.text import Fence, Piece, is_visible, scan_lines, split_pieces

APART = "\N{ZERO WIDTH SPACE}"
MARKS = "```"
_TICKS = re.compile("`+")
_MANY_TICKS = re.compile("`{3,}")
_LANGUAGE = re.compile(r"[A-Za-z0-9_+\-.#]{1,30}(?![^\s])")
_EMPTY = r"[^\n`]*```[^\n`]*\n(?:[ \t>]*\n)*[ \t>]*```[ \t]*"
_EMPTY_FIRST = re.compile(rf"\A{_EMPTY}(?:\n|\Z)")
_EMPTY_LAST = re.compile(rf"^{_EMPTY}\Z", re.M)
_BARE_QUOTE = re.compile(r"^((?:[ ]*>)+)$", re.M)
_DEEP_HEADING = re.compile(r"^#{4,6}(?=[ ])", re.M)
_REST_QUOTE = re.compile(r"^([ ]*)>>>(?=[ ])", re.M)
"""Quotes all that follows in the message; in an answer it is the prompt of a Python shell."""
_SPECIAL = re.compile(r"[\\*_~`|<>\[\]@#]|:(?=//)|^[ ]*[-+]", re.M)


def to_discord(text: str, width: int) -> str:
    """The same text; its tables are as wide as `width` at most."""
    return "\n".join(_lines(text.replace("\r\n", "\n"), width))


def cut(text: str, limit: int) -> list[str]:
    """Discord's Markdown as messages. Where a cut leaves nothing of a block on one side, that side has no block."""
    parts = (_tidied(piece).strip("\n") for piece in split_pieces(text, limit))
    return [part for part in parts if is_visible(part)]


def fenced(text: str, language: str = "") -> str:
    """A block of code that nothing in it can end."""
    return f"{MARKS}{language}\n{hold_apart(text) if text.strip() else ' '}\n{MARKS}"


def escaped(text: str) -> str:
    """Every letter as it is: nothing in it is markup, or a link."""
    return _SPECIAL.sub(lambda found: f"{found[0][:-1]}\\{found[0][-1]}", text)


def house_words(text: str) -> str:
    """What the house says: only code in it is markup."""
    return "\n".join(
        "".join(code(one.text) if one.is_code else escaped(one.text) for one in phrases(found.text))
        if found.language is None
        else fenced(found.text, found.language)
        for found in literals(text)
    )


def code(text: str) -> str:
    """One line, letter by letter, as code within a line."""
    text = hold_apart(text, 2)
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def hold_apart(text: str, most: int = 3) -> str:
    """With as many backticks in a row, or more, held apart: they look the same, and end nothing."""
    pattern = _MANY_TICKS if most == 3 else _TICKS
    return pattern.sub(lambda found: APART.join(found[0]) if len(found[0]) >= most else found[0], text)


def _lines(text: str, width: int) -> Iterator[str]:
    fence: Fence | None = None
    prose: list[str] = []
    empty = True
    for line in scan_lines(text):
        content = text[line.start : line.end].removesuffix("\n")
        if fence and line.fence is not fence:
            yield from _closing(fence, empty)
            fence = None
            if line.edge == "closes":
                continue
        if line.edge == "opens" and line.fence:
            yield from _prose(prose, width)
            prose.clear()
            fence = line.fence
            language, rest = _info(fence)
            empty = not rest
            yield f"{content[: len(fence.lead)]}{MARKS}{language}"
            if rest:
                yield f"{fence.lead}{hold_apart(rest)}"
        elif fence:
            empty = empty and not content.lstrip("> \t")
            yield hold_apart(content)
        else:
            prose.append(content)
    if fence:
        yield from _closing(fence, empty)
    yield from _prose(prose, width)


def _tidied(piece: Piece) -> str:
    text = piece.text
    if piece.before:
        text = _EMPTY_FIRST.sub("", text)
    return _EMPTY_LAST.sub("", text) if piece.after else text


def _closing(fence: Fence, empty: bool) -> Iterator[str]:
    if empty:
        yield f"{fence.lead} "  # else the closing marks would be taken for its text
    yield f"{fence.lead}{MARKS}"


def _info(fence: Fence) -> tuple[str, str]:
    """The language, and what else was said beside it: Discord knows no place for that, so it is a line of the block."""
    info = fence.info.strip()
    found = _LANGUAGE.match(info)
    return (found[0], info[found.end() :].strip()) if found else ("", info)


def _prose(lines: list[str], width: int) -> Iterator[str]:
    paragraph: list[str] = []
    for block in render_tables(lines, width):
        if block.is_code:
            yield from _paragraph(paragraph)
            paragraph = []
            yield block.lead + MARKS
            yield from (block.lead + hold_apart(line) for line in block.lines)
            yield block.lead + MARKS
            continue
        for line in block.lines:
            paragraph.append(line)
            if not line.strip():
                yield from _paragraph(paragraph)
                paragraph = []
    yield from _paragraph(paragraph)


def _paragraph(lines: list[str]) -> Iterator[str]:
    if not lines:
        return
    text = _ticks_paired("\n".join(lines))
    text = _DEEP_HEADING.sub("###", _REST_QUOTE.sub(r"\1\\>>>", text))
    yield _BARE_QUOTE.sub(r"\1 ", text)


def _ticks_paired(text: str) -> str:
    """Code within a line between one or two backticks; those without a partner are letters."""
    runs = list(_TICKS.finditer(text))
    by_size: dict[int, list[int]] = {}
    for number, run in enumerate(runs):
        by_size.setdefault(len(run[0]), []).append(number)
    pieces: list[str] = []
    at = number = 0
    while number < len(runs):
        run, same = runs[number], by_size[len(runs[number][0])]
        later = bisect_right(same, number)
        pieces.append(text[at : run.start()])
        # An escaped backtick opens nothing.
        opens = later < len(same) and text[run.start() - 1 : run.start()] != "\\"
        end = runs[same[later]] if opens else run
        pieces.append(_span(text[run.end() : end.start()], len(run[0])) if opens else _letters(run[0]))
        at, number = end.end(), (same[later] if opens else number) + 1
    return "".join((*pieces, text[at:]))


def _span(inner: str, size: int) -> str:
    marks = "`" if size == 1 or (size > 2 and "`" not in inner) else "``"
    return f"{marks}{hold_apart(inner, 3 if size <= 2 else 2)}{marks}"


def _letters(run: str) -> str:
    return "\\`" * len(run)
