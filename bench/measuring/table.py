"""Rows with bounds, and the table that they make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Row(NamedTuple):
    """One figure. `bound` is None for what is told and not promised; `lost` is a reason to miss it anyway."""

    what: str
    measured: float
    bound: float | None
    unit: str
    detail: str = ""
    lost: str = ""
    least: bool = False
    """The bound is the least that it may be."""

    @property
    def holds(self) -> bool:
        if self.lost or self.bound is None:
            return not self.lost
        return self.measured >= self.bound if self.least else self.measured <= self.bound

    @property
    def promise(self) -> str:
        """What stands in the column of bounds."""
        if self.bound is None:
            return ""
        return (
            f"{'at least ' if self.least else ''}{self.bound:g}{'' if self.unit == '×' else ' '}{self.unit}"
        )


def amount(value: float, unit: str) -> str:
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{digits}f}{'' if unit == '×' else ' '}{unit}"


def render(rows: Sequence[Row], machine: str, command: str) -> str:
    head = ["", "figure", "measured", "at most", "detail"]
    cells = [
        [
            "·" if row.bound is None else "✓" if row.holds else "✗",
            row.what,
            amount(row.measured, row.unit),
            row.promise,
            "; ".join(filter(None, [row.lost, row.detail])),
        ]
        for row in rows
    ]
    return f"`{command}` on {machine}\n\n{render_cells(head, cells)}"


def render_cells(head: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[column]) for line in [head, *cells]) for column in range(len(head))]
    lines = [_line(head, widths), "|" + "|".join("-" * (width + 2) for width in widths) + "|"]
    return "\n".join([*lines, *(_line(line, widths) for line in cells)])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"
