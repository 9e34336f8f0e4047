"""Tables, JSON and plain text for the terminal.

The first column, which people copy, and a last column that wraps are never cut, at any width.
"""

from __future__ import annotations

import json
import re
import sys
import textwrap
import unicodedata
from collections.abc import Sequence
from typing import Any

from pilothouse.bootstrap.terminal_text import as_typed, columns_of
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
    """Returns one printable line: text from a model or a chat must not control the terminal."""
    return " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())


def width(text: str) -> int:
    """Counts columns on a terminal: wide characters take two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def cut(text: str, room: int) -> str:
    """Cuts to `room` columns, marked with an ellipsis: a path at its beginning, other text at its end."""
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
    """Renders a table within `columns`: drops the `optional` columns first, then narrows the widest. None is no limit.

    The first column is never cut. With `wrap` the last one is not cut either: it wraps in place if that is wide enough,
    else on its own lines below. Columns in `whole` are narrowed only when nothing else can be.
    """
    cells = [list(heads), *([plain(cell) for cell in row] for row in rows)]
    room = _total(_widths(cells)) if columns is None else max(NARROWEST, columns)
    for name in optional:
        if _total([min(w, ENOUGH) if i else w for i, w in enumerate(_widths(cells))]) > room:
            dropped = cells[0].index(name)
            cells = [row[:dropped] + row[dropped + 1 :] for row in cells]
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
    """Returns minimum widths for each column in three passes, each narrower than the one before.

    `last` is the wanted width of a last column that wraps, or 0 if it is cut like the others.
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
    """Puts the last cell on its own lines. Never breaks a word: what the terminal itself breaks is copied whole."""
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
    """Prints one JSON document."""
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
    table = render_table(heads, rows, columns, optional=optional, wrap=wrap, whole=whole) if rows else ""
    print(table or as_typed(empty))


def ago(seconds: float) -> str:
    """Renders an age; a negative one, in the future, as `in 5m`."""
    if seconds < 0:
        return f"in {span(-seconds)}" if seconds < -1 else "now"
    return span(seconds)


def money(cost: float | None) -> str:
    return "-" if cost is None else dollars(cost)
