"""A table for a phone: columns of one width if they fit, else each row told as lines of "column: value"."""

from __future__ import annotations

from pilothouse.channels.columns import table_lines, table_width
from pilothouse.channels.telegram.blocks import (
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

_BOLD: frozenset[Mark] = frozenset({"bold"})


def as_blocks(table: Table, width: int) -> tuple[Block, ...]:
    """Links cannot stand in a block of code, so a table that has some is told row by row too."""
    cells = [[" ".join(bare(cell).split()) for cell in row] for row in (table.head, *table.rows)]
    linked = any(span.url for row in (table.head, *table.rows) for cell in row for span in cell)
    if table_width(cells) <= width and not linked:
        return (Code("\n".join(table_lines(cells, table.aligns))),)
    return _told(table)


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
