"""Aligned tables and plain words for the terminal: the standard library is enough.

What people copy (the first column) and what they read (the last one, where it wraps) is whole at every width.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
import unicodedata
from collections.abc import Sequence
from typing import Any

from pilothouse.bootstrap.terminal_text import columns_of
from pilothouse.core.text import dollars, span

NARROWEST = 40
GAP = "  "
LEAST = 4
LITTLE = 8
ENOUGH = 16
"""A column that may be cut is readable from here on."""
BELOW = "    "
_PATH = re.compile(r"~?/[^ ]*/")


def plain(text: object) -> str:
    """One printable line: what came from a model or a chat must not drive the terminal."""
    return " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())


def width(text: str) -> int:
    """Columns on a terminal: wide characters take two, marks on a letter none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def cut(text: str, room: int) -> str:
    """At most `room` columns, with a mark where something is missing: of a path, whose end tells most, the beginning."""
    if width(text) <= room:
        return text
    if _PATH.match(text):
        return "…" + _beginning(text[::-1], room - 1)[::-1]
    return _beginning(text, room - 1) + "…"


def _beginning(text: str, room: int) -> str:
    used = 0
    for at, c in enumerate(text):
        used += width(c)
        if used > room:
            return text[:at]
    return text


def render_table(
    heads: Sequence[str],
    rows: Sequence[Sequence[object]],
    columns: int | None = None,
    *,
    optional: Sequence[str] = (),
    wrap: bool = False,
    whole: Sequence[str] = (),
) -> str:
    """Every column as wide as it needs. Where that is too much for `columns`, the `optional` ones go, then the widest
    give way. Without `columns` nothing is cut: whoever reads a pipe has all the room that there is.

    The first column is never cut; with `wrap`, neither is the last: it goes on in its place where that is wide enough,
    and else on lines of its own below. Those in `whole` give way only when nothing else can.
    """
    cells = [list(heads), *([plain(cell) for cell in row] for row in rows)]
    room = _total(_widths(cells)) if columns is None else max(NARROWEST, columns)
    for name in optional:
        if _total([min(w, ENOUGH) if i else w for i, w in enumerate(_widths(cells))]) > room:
            gone = cells[0].index(name)
            cells = [row[:gone] + row[gone + 1 :] for row in cells]
    wide = room * 2 // 5
    widths = _narrow(_widths(cells), room, _floors(cells[0], room, whole, wide if wrap else 0))
    if wrap and widths[-1] < min(wide, _widths(cells)[-1]):
        return "\n".join(line for row in cells for line in _with_below(row, widths, room))
    return "\n".join(line for row in cells for line in _lines(row, widths, wrap))


def _widths(cells: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(width, column)) for column in zip(*cells, strict=True)]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _floors(heads: Sequence[str], room: int, whole: Sequence[str], last: int) -> list[list[int]]:
    """How narrow each column gets before others must give way: first of all, then if that is not enough, and so on.

    `last` is what a column that wraps wants, and 0 for one that is cut like the others.
    """
    others = [room if head in whole else LITTLE if last else LEAST for head in heads[:-1]]
    return [[*others, last or LEAST], [*others, 0 if last else LEAST], [LEAST] * len(heads)]


def _narrow(widths: list[int], room: int, floors: Sequence[Sequence[int]]) -> list[int]:
    for least in floors:
        while _total(widths) > room and (able := [i for i, w in enumerate(widths) if i and w > least[i]]):
            widths[max(able, key=widths.__getitem__)] -= 1
    return widths


def _lines(row: Sequence[str], widths: Sequence[int], wrap: bool) -> list[str]:
    rest = (
        textwrap.wrap(row[-1], widths[-1], break_on_hyphens=False)
        if wrap and width(row[-1]) > widths[-1]
        else [row[-1]]
    )
    indent = " " * _total([*widths[:-1], 0])
    return [_line((*row[:-1], rest[0]), widths), *(indent + line for line in rest[1:])]


def _with_below(row: Sequence[str], widths: Sequence[int], room: int) -> list[str]:
    """No word is broken there: a terminal breaks what is longer than it, and gives it back whole to who copies it."""
    if width(row[-1]) <= widths[-1]:
        return [_line(row, widths)]
    below = textwrap.wrap(
        row[-1],
        room,
        initial_indent=BELOW,
        subsequent_indent=BELOW,
        break_long_words=False,
        break_on_hyphens=False,
    )
    *others, before_last, last = widths
    return [_line(row[:-1], [*others, before_last + len(GAP) + last]), *below]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [cut(cell, room) for cell, room in zip(row, widths, strict=True)]
    return GAP.join(
        cell + " " * (room - width(cell)) for cell, room in zip(cells, widths, strict=True)
    ).rstrip()


def print_json(document: Any) -> None:
    """One JSON document, made of plain values."""
    sys.stdout.write(json.dumps(document, ensure_ascii=False, indent=2) + "\n")


def print_table(
    heads: Sequence[str],
    rows: Sequence[Sequence[object]],
    empty: str = "",
    *,
    optional: Sequence[str] = (),
    wrap: bool = False,
    whole: Sequence[str] = (),
) -> None:
    columns = columns_of(sys.stdout)
    print(render_table(heads, rows, columns, optional=optional, wrap=wrap, whole=whole) if rows else empty)


def ago(seconds: float) -> str:
    """How long since; what is still to come is `in 5m`."""
    if seconds < 0:
        return f"in {span(-seconds)}" if seconds < -1 else "now"
    return span(seconds)


def money(cost: float | None) -> str:
    return "-" if cost is None else dollars(cost)
