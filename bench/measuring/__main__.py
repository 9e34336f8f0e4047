"""`bench/figures [NAME…]`: progress on stderr, the table on stdout, exit code 1 if a bound was missed."""

from __future__ import annotations

import sys

from bench.measuring.command import run_figures
from bench.measuring.figures import FIGURES


def main(words: list[str]) -> int:
    if "--list" in words:
        print("\n".join(FIGURES))
        return 0
    return run_figures("bench/figures", FIGURES, words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
