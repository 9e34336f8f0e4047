"""`bench/crash`: every point of every phase, a table, and the closing line. Exit 1 if anything does not hold."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.crashing.report import SLOWEST_RECOVERY_S, closing_line, machine, passed, table
from bench.crashing.sweep import Point, Result, clock_points, count_points, try_all, try_point

BY_THE_CLOCK = 40


def plan() -> Iterator[Point]:
    """Both answers to the ask; then the restart itself is killed, after a first kill in the thick of it; then kills
    by the clock, which fall between the points, too."""
    for verdict in ("allow", "deny"):
        points = count_points(verdict)
        yield from points
        yield from count_points(verdict, after=len(points) // 2)
        yield from clock_points(verdict, BY_THE_CLOCK)


def sweep(points: list[Point], at_once: int, keep: Path | None) -> list[Result]:
    results: list[Result] = []
    for result in try_all(points, at_once, keep):
        results.append(result)
        for fault in result.faults:
            _say(f"\r{result.point.phase}, {result.kind} {result.point.number}: {fault.kind}: {fault.text}\n")
        _say(f"\r{len(results)} of {len(points)} points")
    _say("\n")
    return [_alone(result, keep) if result.recovery_s >= SLOWEST_RECOVERY_S else result for result in results]


def _alone(slow: Result, keep: Path | None) -> Result:
    """Tried side by side, points slow each other down: a slow one is tried once more alone, and that time counts."""
    _say(f"{slow.point.phase}, {slow.kind} {slow.point.number}: {slow.recovery_s:.2f} s; once more, alone\n")
    again = try_point(slow.point, keep)
    return again._replace(faults=slow.faults + again.faults)


def _say(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/crash", description=__doc__)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every N-th point")
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="points tried side by side")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the files of what failed")
    given = parser.parse_args()
    print(f"crash sweep · {machine()}", flush=True)
    _say("counting the points …")
    results = sweep(list(plan())[:: given.every], given.at_once, given.keep)
    print(*table(results), "", closing_line(results), sep="\n")
    return 0 if passed(results) else 1


if __name__ == "__main__":
    sys.exit(main())
