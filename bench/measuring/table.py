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

    @property
    def holds(self) -> bool:
        return not self.lost and (self.bound is None or self.measured <= self.bound)


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
            "" if row.bound is None else f"{row.bound:g}{'' if row.unit == '×' else ' '}{row.unit}",
            "; ".join(filter(None, [row.lost, row.detail])),
        ]
        for row in rows
    ]
    widths = [max(len(line[column]) for line in [head, *cells]) for column in range(len(head))]
    lines = [_line(head, widths), "|" + "|".join("-" * (width + 2) for width in widths) + "|"]
    lines += [_line(line, widths) for line in cells]
    return "\n".join([f"`{command}` on {machine}", "", *lines])


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"
