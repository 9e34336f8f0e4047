"""Writes Markdown as Discord reads it, from Markdown as engines write it.

Discord knows one fence: three backticks, ended by the next three anywhere. So every fence becomes that one, backticks in a
block are held apart, an open block is closed, and outside a block there are never three backticks. Discord knows no
tables: they become blocks of code, or lists where they are too wide.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from msgspec import Struct

from pilothouse.channels.text import (
    Align,
    Fence,
    Piece,
    is_visible,
    literals,
    phrases,
    scan_lines,
    split_pieces,
    table_lines,
    table_width,
)

_LEAD = re.compile(r"[ \t]*(?:>[ \t]?)*")
_RULE = re.compile(r"\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")
_ITEM = re.compile(r" *(?:[-*+]|[0-9]{1,9}[.)]) +")
_BAR = re.compile(r"(?<!\\)\|")
_LOOK = re.compile(r"\*\*(?P<bold>[^*]+)\*\*|`(?P<code>[^`]+)`")
_LINK = re.compile(r"\]\([^)\s]+\)|https?://")
MAX_COLUMNS = 40


class Shown(Struct, frozen=True):
    """Lines to be shown as they are, or, if `is_code`, as a block of code after `lead`."""

    lines: tuple[str, ...]
    lead: str = ""
    is_code: bool = False


class Table(Struct, frozen=True):
    lead: str
    aligns: tuple[Align, ...]
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def render_tables(lines: Sequence[str], width: int, column: int = 0) -> Iterator[Shown]:
    """Set the tables of these lines. `column` is where the text of the list item before them begins."""
    at = 0
    while at < len(lines):
        column = _item_column(lines[at], column)
        is_code = _indent(lines[at]) >= column + 4
        table = None if is_code else parse_table(lines, at)
        if table is None:
            yield Shown((lines[at],))
            at += 1
        else:
            yield _show(table, width)
            at += 2 + len(table.rows)


def parse_table(lines: Sequence[str], at: int) -> Table | None:
    """The table that begins in that line, if one does. The last cell of an over-full row is all that is left of the row."""
    if at + 1 >= len(lines) or "|" not in lines[at] or "|" not in lines[at + 1]:
        return None
    lead = _lead(lines[at])
    head, rule = _cells(lines[at]), lines[at + 1][len(_lead(lines[at + 1])) :]
    if not _RULE.fullmatch(rule) or len(_split(rule)) != len(head) or len(head) > MAX_COLUMNS:
        return None
    rows: list[tuple[str, ...]] = []
    for line in lines[at + 2 :]:
        if "|" not in line or _lead(line).count(">") != lead.count(">"):
            break
        cells = _cells(line, len(head))
        rows.append((*cells, *[""] * (len(head) - len(cells))))
    return Table(lead, tuple(_align(mark) for mark in _split(rule)), head, tuple(rows))


def _show(table: Table, width: int) -> Shown:
    """A table with links becomes a list too, since links do not work in a block of code."""
    cells = [[_bare(cell) for cell in row] for row in (table.head, *table.rows)]
    linked = any(_LINK.search(cell) for row in table.rows for cell in row)
    if table_width(cells) <= width and not linked:
        return Shown(tuple(table_lines(cells, table.aligns)), table.lead, is_code=True)
    return Shown(tuple(f"{table.lead}{line}" for line in _told(table)))


def _told(table: Table) -> Iterator[str]:
    """Write a table as a list: each row is an item with its first cell in bold. Empty cells are left out, empty columns are not."""
    empty = [not any(column) for column in zip(*table.rows, strict=True)] or [True] * len(table.head)
    for row in table.rows or (table.head,):
        lines = [
            (f"{name}: " if name and cell != name else "") + (_bold(cell) if not number else cell or "–")
            for number, (name, cell) in enumerate(zip(table.head, row, strict=True))
            if cell or (name and empty[number])
        ]
        yield from (f"{'  ' if number else '- '}{line}" for number, line in enumerate(lines))


def _bold(cell: str) -> str:
    return f"**{cell}**" if cell and "*" not in cell else cell or "–"


def _cells(line: str, most: int = 0) -> tuple[str, ...]:
    inner = line[len(_lead(line)) :]
    return tuple(cell.strip().replace("\\|", "|") for cell in _split(inner, most))


def _split(row: str, most: int = 0) -> list[str]:
    row = row.strip()
    row = row.removeprefix("|")
    if row.endswith("|") and not row.endswith("\\|"):
        row = row[:-1]
    return [row] if most == 1 else _BAR.split(row, max(most - 1, 0))


def _bare(cell: str) -> str:
    """Remove marks that a block of code would show."""
    return " ".join(_LOOK.sub(lambda found: found["bold"] or found["code"], cell).split())


def _align(mark: str) -> Align:
    mark = mark.strip()
    left, right = mark.startswith(":"), mark.endswith(":")
    return "center" if left and right else "right" if right else "left" if left else ""


def _lead(line: str) -> str:
    found = _LEAD.match(line)
    return found[0] if found else ""


def _indent(line: str) -> int:
    line = line.expandtabs(4)
    return len(line) - len(line.lstrip())


def _item_column(line: str, column: int) -> int:
    """Return where the text of the list item around that line begins; 0 outside a list."""
    if item := _ITEM.match(line.expandtabs(4)):
        return len(item[0])
    return min(column, _indent(line)) if line.strip() else column


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
    """Convert Markdown to Discord's; tables are at most `width` columns wide."""
    return "\n".join(_lines(text.replace("\r\n", "\n"), width))


def cut(text: str, limit: int) -> list[str]:
    """Cut Discord's Markdown into messages; a block that a cut leaves empty is dropped."""
    parts = (_tidied(piece).strip("\n") for piece in split_pieces(text, limit))
    return [part for part in parts if is_visible(part)]


def fenced(text: str, language: str = "") -> str:
    """Write a block of code that nothing in it can end."""
    return f"{MARKS}{language}\n{hold_apart(text) if text.strip() else ' '}\n{MARKS}"


def escaped(text: str) -> str:
    """Escape markup and links."""
    return _SPECIAL.sub(lambda found: f"{found[0][:-1]}\\{found[0][-1]}", text)


def app_text(text: str) -> str:
    """Write a text of our own: only code in it is markup."""
    return "\n".join(
        "".join(code(one.text) if one.is_code else escaped(one.text) for one in phrases(found.text))
        if found.language is None
        else fenced(found.text, found.language)
        for found in literals(text)
    )


def code(text: str) -> str:
    """Write one line as inline code."""
    text = hold_apart(text, 2)
    return f"`` {text} ``" if "`" in text else f"`{text}`"


def hold_apart(text: str, most: int = 3) -> str:
    """Separate runs of this many backticks with zero-width spaces, so that they end nothing."""
    pattern = _MANY_TICKS if most == 3 else _TICKS
    return pattern.sub(lambda found: APART.join(found[0]) if len(found[0]) >= most else found[0], text)


def _lines(text: str, width: int) -> Iterator[str]:
    fence: Fence | None = None
    prose: list[str] = []
    empty, column = True, 0
    for line in scan_lines(text):
        content = text[line.start : line.end].removesuffix("\n")
        if fence and line.fence is not fence:
            yield from _closing(fence, empty)
            column, fence = _indent(fence.lead), None
            if line.edge == "closes":
                continue
        if line.edge == "opens" and line.fence:
            yield from _prose(prose, width, column)
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
    yield from _prose(prose, width, column)


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


def _prose(lines: list[str], width: int, column: int) -> Iterator[str]:
    paragraph: list[str] = []
    for block in render_tables(lines, width, column):
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
