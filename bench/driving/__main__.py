"""`bench/claude [NAME…]`: progress on stderr, the table on stdout, exit code 1 if a bound was missed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping

from bench.driving import line, warm
from bench.measuring.machine import describe
from bench.measuring.table import Row, render

FIGURES: Mapping[str, Callable[[], list[Row]]] = {"warm": warm.measure, "line": line.measure}


def main(words: list[str]) -> int:
    unknown = [word for word in words if word not in FIGURES]
    if unknown:
        print(f"no figure {', '.join(unknown)}; there are: {', '.join(FIGURES)}", file=sys.stderr)
        return 2
    load = os.getloadavg()[0]
    rows: list[Row] = []
    for name in words or FIGURES:
        print(f"{name} …", file=sys.stderr)
        rows += FIGURES[name]()
    print(render(rows, f"{describe()}, load {load:.1f} before", " ".join(["bench/claude", *words])))
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
