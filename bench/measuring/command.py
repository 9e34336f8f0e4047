"""A command that measures figures by name: progress on stderr, the table on stdout."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence

from bench.measuring.machine import describe
from bench.measuring.table import Row, render

Figures = Mapping[str, Callable[[], list[Row]]]


def run_figures(command: str, figures: Figures, words: Sequence[str]) -> int:
    """Measure the named figures, or all. Return 1 if a bound was missed, and 2 for an unknown name."""
    unknown = [word for word in words if word not in figures]
    if unknown:
        print(f"no figure {', '.join(unknown)}; there are: {', '.join(figures)}", file=sys.stderr)
        return 2
    load = os.getloadavg()[0]
    rows: list[Row] = []
    for name in words or figures:
        print(f"{name} …", end="", file=sys.stderr, flush=True)
        began = time.monotonic()
        rows += _measure(name, figures[name])
        print(f" {time.monotonic() - began:.0f} s", file=sys.stderr)
    print(render(rows, f"{describe()}, load {load:.1f} before", " ".join([command, *words])))
    return 0 if all(row.holds for row in rows) else 1


def _measure(name: str, figure: Callable[[], list[Row]]) -> list[Row]:
    """Measure one figure. One that breaks is missed; the others are still measured."""
    try:
        return figure()
    except Exception as error:  # noqa: BLE001 - the table shows any error
        traceback.print_exc()
        return [Row(name, 0, 0, "", lost=f"broke: {type(error).__name__}: {error}")]
