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


def sweep(points: list[Point], at_once: int, keep: Path | None) -> tuple[list[Result], list[Result]]:
    """What counts, and of it those that were slow side by side, as they were first measured."""
    results: list[Result] = []
    for result in try_all(points, at_once, keep):
        results.append(result)
        for fault in result.faults:
            _say(f"\r{result.point.phase}, {result.kind} {result.point.number}: {fault.kind}: {fault.text}\n")
        _say(f"\r{len(results)} of {len(points)} points")
    _say("\n")
    slow = [result for result in results if result.recovery_s >= SLOWEST_RECOVERY_S]
    return [_alone(result, keep) if result in slow else result for result in results], slow


def _alone(slow: Result, keep: Path | None) -> Result:
    """Side by side, points slow each other down: a slow one is tried alone, and the best of three times counts."""
    result = slow
    for _ in range(3):
        if result.recovery_s < SLOWEST_RECOVERY_S:
            break
        _say(
            f"{slow.point.phase}, {slow.kind} {slow.point.number}: {result.recovery_s:.2f} s; again, alone\n"
        )
        again = try_point(slow.point, keep)
        best_s = min(result.recovery_s, again.recovery_s or result.recovery_s)
        result = again._replace(faults=result.faults + again.faults, recovery_s=best_s)
    return result


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
    results, slow = sweep(list(plan())[:: given.every], given.at_once, given.keep)
    print(*table(results), "", sep="\n")
    if slow:
        slowest_s = max(result.recovery_s for result in slow)
        print(
            f"{len(slow)} took {SLOWEST_RECOVERY_S:g} s or more side by side, {slowest_s:.2f} s the slowest;"
        )
        print("each was timed again alone, and the best of up to three more times is what counts above.\n")
    print(closing_line(results))
    return 0 if passed(results) else 1


if __name__ == "__main__":
    sys.exit(main())
