"""A table for a phone: columns of one width if they fit, else each row told as lines of "column: value"."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator

from pilothouse.channels.telegram.blocks import (
    Align,
    Block,
    Code,
    Item,
    Items,
    Mark,
    Paragraph,
    Span,
    Spans,
    Table,
    bare,
    words,
)

GAP = "  "
_BOLD: frozenset[Mark] = frozenset({"bold"})


def as_blocks(table: Table, width: int) -> tuple[Block, ...]:
    """Links cannot stand in a block of code, so a table that has some is told row by row too."""
    cells = [[" ".join(bare(cell).split()) for cell in row] for row in (table.head, *table.rows)]
    widths = [max(map(_columns, column)) for column in zip(*cells, strict=True)]
    fits = sum(widths) + len(GAP) * (len(widths) - 1) <= width
    linked = any(span.url for row in (table.head, *table.rows) for cell in row for span in cell)
    if fits and not linked:
        return (Code("\n".join(_lines(table, cells, widths))),)
    return _told(table)


def _lines(table: Table, cells: list[list[str]], widths: list[int]) -> Iterator[str]:
    for number, row in enumerate(cells):
        padded = (
            _pad(text, width, align) for text, width, align in zip(row, widths, table.aligns, strict=True)
        )
        yield GAP.join(padded).rstrip()
        if not number:
            yield GAP.join("─" * width for width in widths)


def _told(table: Table) -> tuple[Block, ...]:
    """Each row is an item that begins with its first cell, in bold. An empty cell is left out, an empty column not."""
    empty = [not any(column) for column in zip(*table.rows, strict=True)] or [True] * len(table.head)
    rows = table.rows or (table.head,)
    items = tuple(Item((Paragraph(_row(table.head, row, empty)),)) for row in rows if any(row))
    return (Items(items),) if items else ()


def _row(head: tuple[Spans, ...], row: tuple[Spans, ...], empty: list[bool]) -> Spans:
    spans: list[Span] = []
    for number, (name, cell) in enumerate(zip(head, row, strict=True)):
        if not cell and not (name and empty[number]):
            continue
        label = words(f"{bare(name)}: ") if name and cell != name else ()
        value = tuple(map(_bold, cell)) if not number else cell
        spans += [Span("\n" if spans else ""), *label, *(value or words("–"))]
    return tuple(span for span in spans if span.text)


def _bold(span: Span) -> Span:
    return Span(span.text, span.marks | _BOLD, span.url)


def _pad(text: str, width: int, align: Align) -> str:
    room = " " * (width - _columns(text))
    if align == "center":
        half = len(room) // 2
        return room[:half] + text + room[half:]
    return room + text if align == "right" else text + room


def _columns(text: str) -> int:
    """How many columns a text takes where every letter has the same width."""
    if text.isascii():
        return len(text)
    return sum(_char_columns(char) for char in text)


def _char_columns(char: str) -> int:
    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
