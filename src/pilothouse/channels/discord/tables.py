"""A table of Markdown, found in its lines: in columns of one width if they fit, else told row by row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from pilothouse.channels.tables import Align, table_lines, table_width

_LEAD = re.compile(r"[ \t]*(?:>[ \t]?)*")
_RULE = re.compile(r"\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*")
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


def render_tables(lines: Sequence[str], width: int) -> Iterator[Shown]:
    at = 0
    while at < len(lines):
        table = parse_table(lines, at)
        if table is None:
            yield Shown((lines[at],))
            at += 1
        else:
            yield _show(table, width)
            at += 2 + len(table.rows)


def parse_table(lines: Sequence[str], at: int) -> Table | None:
    """The table that begins in that line, if one does."""
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
        cells = _cells(line)
        if len(cells) > len(head):
            break  # a row of another table, or none: no cell is lost
        rows.append((*cells, *[""] * len(head))[: len(head)])
    return Table(lead, tuple(_align(mark) for mark in _split(rule)), head, tuple(rows))


def _show(table: Table, width: int) -> Shown:
    """Links cannot stand in a block of code, so a table that has some is told row by row too."""
    cells = [[_bare(cell) for cell in row] for row in (table.head, *table.rows)]
    linked = any(_LINK.search(cell) for row in table.rows for cell in row)
    if table_width(cells) <= width and not linked:
        return Shown(tuple(table_lines(cells, table.aligns)), table.lead, is_code=True)
    return Shown(tuple(f"{table.lead}{line}" for line in _told(table)))


def _told(table: Table) -> Iterator[str]:
    """Each row is an item that begins with its first cell, in bold. An empty cell is left out, an empty column not."""
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


def _cells(line: str) -> tuple[str, ...]:
    inner = line[len(_lead(line)) :]
    return tuple(cell.strip().replace("\\|", "|") for cell in _split(inner))


def _split(row: str) -> list[str]:
    row = row.strip()
    row = row.removeprefix("|")
    if row.endswith("|") and not row.endswith("\\|"):
        row = row[:-1]
    return _BAR.split(row)


def _bare(cell: str) -> str:
    """Without marks that a block of code would show."""
    return " ".join(_LOOK.sub(lambda found: found["bold"] or found["code"], cell).split())


def _align(mark: str) -> Align:
    mark = mark.strip()
    left, right = mark.startswith(":"), mark.endswith(":")
    return "center" if left and right else "right" if right else "left" if left else ""


def _lead(line: str) -> str:
    found = _LEAD.match(line)
    return found[0] if found else ""
