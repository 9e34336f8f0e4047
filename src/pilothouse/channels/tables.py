"""Tables as lines of monospaced text. Shared by every channel that shows tables this way."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from typing import Literal

Align = Literal["", "left", "center", "right"]
GAP = "  "


def table_width(cells: Sequence[Sequence[str]]) -> int:
    widths = _widths(cells)
    return sum(widths) + len(GAP) * (len(widths) - 1)


def table_lines(cells: Sequence[Sequence[str]], aligns: Sequence[Align]) -> Iterator[str]:
    """Yields the lines; the first row is the head, with a rule below it."""
    widths = _widths(cells)
    for number, row in enumerate(cells):
        padded = (_pad(text, width, align) for text, width, align in zip(row, widths, aligns, strict=True))
        yield GAP.join(padded).rstrip()
        if not number:
            yield GAP.join("─" * width for width in widths)


def columns(text: str) -> int:
    """Counts the columns of monospaced text."""
    if text.isascii():
        return len(text)
    return sum(_char_columns(char) for char in text)


def _widths(cells: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(columns, column)) for column in zip(*cells, strict=True)]


def _pad(text: str, width: int, align: Align) -> str:
    room = " " * (width - columns(text))
    if align == "center":
        half = len(room) // 2
        return room[:half] + text + room[half:]
    return room + text if align == "right" else text + room


def _char_columns(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
