"""`bench/engines [NAME…]`: progress on stderr, the table on stdout, exit code 1 if a bound was missed.

`bench/engines --full [NAME…]` plays the scenarios of `bench/scenarios` instead.
"""

from __future__ import annotations

import sys

from bench.hosting import memory, start, warm
from bench.measuring.command import Figures, run_figures
from bench.scenarios.command import run_scenarios

FIGURES: Figures = {"warm": warm.measure, "memory": memory.measure, "start": start.measure}


def main(words: list[str]) -> int:
    if words[:1] == ["--full"]:
        return run_scenarios(words[1:])
    return run_figures("bench/engines", FIGURES, words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
