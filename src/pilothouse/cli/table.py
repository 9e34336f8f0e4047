"""Aligned tables and plain words for the terminal: the standard library is enough."""

from __future__ import annotations

import json
import shutil
import sys
import unicodedata
from collections.abc import Sequence
from typing import Any

NARROWEST = 40
GAP = "  "


def plain(text: object) -> str:
    """One printable line: what came from a model or a chat must not drive the terminal."""
    return " ".join("".join(c if c.isprintable() else " " for c in str(text)).split())


def width(text: str) -> int:
    """Columns on a terminal: wide characters take two, marks on a letter none."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def cut(text: str, room: int) -> str:
    """At most `room` columns, with a mark where something is missing."""
    if width(text) <= room:
        return text
    kept = ""
    for c in text:
        if width(kept + c) > room - 1:
            break
        kept += c
    return kept + "…"


def render_table(heads: Sequence[str], rows: Sequence[Sequence[object]], columns: int | None = None) -> str:
    """Every column as wide as it needs; if that is too much, the widest give way first."""
    room = max(NARROWEST, columns or shutil.get_terminal_size((100, 24)).columns)
    cells = [[plain(cell) for cell in row] for row in rows]
    widths = [max(width(row[i]) for row in [list(heads), *cells]) for i in range(len(heads))]
    while sum(widths) + len(GAP) * (len(widths) - 1) > room and max(widths) > 4:
        widths[widths.index(max(widths))] -= 1
    return "\n".join(_line(row, widths) for row in [list(heads), *cells])


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    cells = [cut(cell, room) for cell, room in zip(row, widths, strict=True)]
    return GAP.join(
        cell + " " * (room - width(cell)) for cell, room in zip(cells, widths, strict=True)
    ).rstrip()


def print_json(document: Any) -> None:
    """One JSON document, made of plain values."""
    sys.stdout.write(json.dumps(document, ensure_ascii=False, indent=2) + "\n")


def print_table(heads: Sequence[str], rows: Sequence[Sequence[object]], empty: str) -> None:
    print(render_table(heads, rows) if rows else empty)


def ago(seconds: float) -> str:
    """A span in one unit: `5s`, `12m`, `3h`, `9d`."""
    if seconds < 0:
        return f"in {ago(-seconds)}" if seconds < -1 else "now"
    for limit, unit, size in ((60, "s", 1), (3600, "m", 60), (86_400, "h", 3600)):
        if seconds < limit:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds // 86_400)}d"


def money(cost: float | None) -> str:
    return "-" if cost is None else f"${cost:.2f}" if cost >= 0.01 or cost == 0 else f"${cost:.4f}"
