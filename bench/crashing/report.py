"""The table of a sweep and its closing line."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bench.crashing.points import KINDS
from bench.crashing.sweep import Result

SLOWEST_RECOVERY_S = 2.0


class Sums(NamedTuple):
    points: int
    killed: int
    lost: int
    doubled: int
    left: int
    recovery_p50_s: float
    recovery_max_s: float


def sum_up(results: Sequence[Result]) -> Sums:
    """One fault of a kind counts once per point; whatever is broken counts as lost."""
    kinds = [{fault.kind for fault in result.faults} for result in results]
    times = [result.recovery_s for result in results] or [0.0]
    return Sums(
        len(results),
        sum(result.killed for result in results),
        sum(bool(kind & {"lost", "broken"}) for kind in kinds),
        sum("doubled" in kind for kind in kinds),
        sum("left" in kind for kind in kinds),
        statistics.median(times),
        max(times),
    )


def machine() -> str:
    return (
        f"{platform.node()} · {os.cpu_count()} CPUs · {platform.system()} {platform.release()} "
        f"{platform.machine()} · Python {platform.python_version()}"
    )


def table(results: Sequence[Result]) -> Iterator[str]:
    yield f"{'phase':<34}{'points':>8}{'killed':>8}{'lost':>6}{'doubled':>9}{'left':>6}{'p50 s':>8}{'max s':>8}"
    for phase in dict.fromkeys(result.point.phase for result in results):
        for kind in KINDS:
            rows = [r for r in results if r.point.phase == phase and r.kind == kind]
            if rows:
                yield _line(f"{phase}: {_words(kind)}", sum_up(rows))
    yield _line("all", sum_up(results))


def closing_line(results: Sequence[Result]) -> str:
    sums = sum_up(results)
    return (
        f"points {sums.points} lost {sums.lost} doubled {sums.doubled} left {sums.left} "
        f"recovery_max_s {sums.recovery_max_s:.2f}"
    )


def passed(results: Sequence[Result]) -> bool:
    sums = sum_up(results)
    return not (sums.lost or sums.doubled or sums.left) and sums.recovery_max_s < SLOWEST_RECOVERY_S


def _words(kind: str) -> str:
    return {"commit": "after commit", "ack": "after ack", "clock": "by the clock"}.get(kind, kind)


def _line(name: str, sums: Sums) -> str:
    return (
        f"{name:<34}{sums.points:>8}{sums.killed:>8}{sums.lost:>6}{sums.doubled:>9}{sums.left:>6}"
        f"{sums.recovery_p50_s:>8.2f}{sums.recovery_max_s:>8.2f}"
    )
