"""`bench/claude [NAME…]`: progress on stderr, the table on stdout, exit code 1 if a bound was missed."""

from __future__ import annotations

import sys

from bench.driving import crowd, line, warm
from bench.measuring.command import Figures, run_figures

FIGURES: Figures = {"warm": warm.measure, "line": line.measure, "crowd": crowd.measure}

if __name__ == "__main__":
    sys.exit(run_figures("bench/claude", FIGURES, sys.argv[1:]))
