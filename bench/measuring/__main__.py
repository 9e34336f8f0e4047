"""`bench/figures [NAME…]`: progress on stderr, the table on stdout, exit code 1 if a bound was missed."""

from __future__ import annotations

import sys
import time

from bench.measuring.figures import FIGURES
from bench.measuring.machine import describe
from bench.measuring.table import Row, render


def main(words: list[str]) -> int:
    if "--list" in words:
        print("\n".join(FIGURES))
        return 0
    unknown = [word for word in words if word not in FIGURES]
    if unknown:
        print(f"no figure {', '.join(unknown)}; there are: {', '.join(FIGURES)}", file=sys.stderr)
        return 2
    rows: list[Row] = []
    for name in words or FIGURES:
        print(f"{name} …", end="", file=sys.stderr, flush=True)
        began = time.monotonic()
        rows += FIGURES[name]()
        print(f" {time.monotonic() - began:.0f} s", file=sys.stderr)
    print(render(rows, describe(), " ".join(["bench/figures", *words])))
    return 0 if all(row.holds for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
