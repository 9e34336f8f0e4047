"""Runs the scenario once for every point at which it may die, starts it again, and checks what is left."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from bench.crashing.checking import Fault, check
from bench.crashing.house import Home, patient

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 60.0
KILLED = -9
SCENARIO = "bench.crashing.scenario"
MEMORY = "memory"
TRIES = 3


class Point(NamedTuple):
    """Where to kill. `kind` is as it was when the points were counted; two runs are never quite the same.

    Where the platform stands outside, the gateway counts its commits, and the platform whatever it sees.
    """

    verdict: str
    number: int
    kind: str
    after: int | None = None
    """Another kill before this one: the restart is what is killed here."""
    near_ask: bool = False
    """An approval was asked or answered within a few points."""
    at_s: float | None = None
    """Killed from outside, so long after its start: between two points, or before the first."""
    channel: str = MEMORY

    @property
    def phase(self) -> str:
        return self.verdict if self.after is None else f"{self.verdict}, restarting"

    @property
    def name(self) -> str:
        words = (self.channel, self.verdict, self.after, self.kind.replace(" ", "-"), self.number)
        return "-".join(str(word) for word in words if word is not None)


class Result(NamedTuple):
    point: Point
    killed: bool
    kind: str
    recovery_s: float
    faults: tuple[Fault, ...]


Try = Callable[[Home, Point], Result]
Run = Callable[[Sequence[str], float], tuple[int, str]]
"""Runs the scenario with these words; raises `TimeoutExpired` after so long. Returns its exit code and last words."""


def run_new(words: Sequence[str], limit_s: float) -> tuple[int, str]:
    """In a new Python, whose start counts."""
    argv = [sys.executable, "-m", SCENARIO, *words]
    ended = subprocess.run(
        argv, env=environment(), cwd=ROOT, capture_output=True, timeout=limit_s, check=False
    )
    return ended.returncode, ended.stderr.decode(errors="replace")[-2000:]


def count_points(verdict: str, after: int | None = None, run: Run = run_new) -> list[Point]:
    """All points of one run that nobody kills. Raises if even that one does not end well."""
    with tempfile.TemporaryDirectory(prefix="pilothouse-crash-") as folder:
        home = Home(Path(folder))
        if after is not None:
            _run(run, home, verdict, after)
        code, words = _run(run, home, verdict)
        faults = check(home, verdict) if code == 0 else []
        if code or faults:
            raise RuntimeError(f"the scenario failed where nobody killed it: {words} {faults}")
        told = json.loads(home.report.read_text())
    near = {number + step for number in told["approvals"] for step in range(-1, 3)}
    return [
        Point(verdict, number, kind, after, number in near) for number, kind in enumerate(told["points"], 1)
    ]


def clock_points(verdict: str, count: int, longest_s: float = 1.2, *, channel: str = MEMORY) -> list[Point]:
    """Kills by the clock, spread over the whole life of the scenario, its start included."""
    return [
        Point(verdict, n, "clock", at_s=longest_s * n / count, channel=channel) for n in range(1, count + 1)
    ]


def try_all(
    points: Iterable[Point], at_once: int = 2, keep: Path | None = None, how: Try | None = None
) -> Iterator[Result]:
    """`how` tries one point; without it the scenario runs in one process, with the channel in memory."""
    with ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(partial(try_point, keep=keep, how=how), points)


def try_point(point: Point, keep: Path | None = None, how: Try | None = None) -> Result:
    """Kill, restart, check; again if it ended before the point came. What went wrong is kept in `keep`."""
    result = _try_once(point, keep, how or try_in)
    for _ in range(TRIES - 1):
        if result.killed or result.faults or point.at_s is not None:
            break
        result = _try_once(point, keep, how or try_in)
    return result


def _try_once(point: Point, keep: Path | None, how: Try) -> Result:
    folder = Path(tempfile.mkdtemp(prefix="pilothouse-crash-"))
    try:
        result = how(Home(folder), point)
        if result.faults and keep is not None:
            sockets = shutil.ignore_patterns("*.sock")
            shutil.copytree(folder, keep / point.name, dirs_exist_ok=True, ignore=sockets)
            (keep / point.name / "faults.txt").write_text("\n".join(map(str, result.faults)))
        return result
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def try_in(home: Home, point: Point, run: Run = run_new) -> Result:
    if point.after is not None:
        _run(run, home, point.verdict, point.after)
        home.last_words.unlink(missing_ok=True)
    code, words = _run(run, home, point.verdict, point.number if point.at_s is None else None, point.at_s)
    if code not in (0, KILLED):
        return Result(point, False, point.kind, 0.0, (Fault("broken", f"it ended with {code}: {words}"),))
    killed = code == KILLED
    kind = home.last_words.read_text() if killed and point.at_s is None else point.kind
    code, words = _run(run, home, point.verdict)
    if code:
        fault = Fault("broken", f"the restart ended with {code}: {words}")
        return Result(point, killed, kind, 0.0, (fault, *check(home, point.verdict)))
    times = json.loads(home.report.read_text())["times"]
    recovery_s = max(times["ready"], times["swept"])
    return Result(point, killed, kind, recovery_s, tuple(check(home, point.verdict)))


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}


def _run(
    run: Run, home: Home, verdict: str, kill_at: int | None = None, kill_after_s: float | None = None
) -> tuple[int, str]:
    words = [str(home.folder), "--verdict", verdict]
    if kill_at is not None:
        words += ["--kill-at", str(kill_at)]
    words += ["--since", str(time.monotonic())]
    try:
        return run(words, kill_after_s or patient(LIMIT_S))
    except subprocess.TimeoutExpired:
        return KILLED, f"it was killed after {kill_after_s or LIMIT_S:g} s"
