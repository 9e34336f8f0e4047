"""The sweep where the platform stands outside: it and its people live here, and gateways come and go before them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, suppress
from pathlib import Path
from typing import NamedTuple, Protocol

import anyio
from bench.crashing.chats import Book, Chats
from bench.crashing.checking import Fault, check
from bench.crashing.house import Home
from bench.crashing.platform import Platform, open_platform
from bench.crashing.points import Kind
from bench.crashing.sweep import KILLED, LIMIT_S, ROOT, Point, Result, environment


class Running(Protocol):
    """A gateway's process; several tasks may wait for its end."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    async def wait(self) -> int: ...


Start = Callable[[Sequence[str], Path], AbstractAsyncContextManager[Running]]
"""Starts `GATEWAY` with these words; its errors go to the end of this file. It has ended when the context is left."""
GATEWAY = "bench.crashing.gateway"


@asynccontextmanager
async def start_new(words: Sequence[str], errors: Path) -> AsyncIterator[Running]:
    """In a new Python, whose start counts."""
    with errors.open("ab") as stderr:
        process = await anyio.open_process(
            [sys.executable, "-m", GATEWAY, *words],
            env=environment(),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )
    async with process:
        try:
            yield process
        finally:
            _signal(process, signal.SIGKILL)


class Kill(NamedTuple):
    """At the gateway's commit, at the platform's point, or by the clock; nowhere if all are None."""

    commit: int | None = None
    point: int | None = None
    at_s: float | None = None


class Life(NamedTuple):
    """Of one gateway, from its start to its end."""

    code: int | None
    kinds: list[Kind]
    """What the platform saw of it."""
    heard_s: float
    killed_at: Kind | None = None


def kill_of(point: Point) -> Kill:
    if point.at_s is not None:
        return Kill(at_s=point.at_s)
    return Kill(commit=point.number) if point.kind == "commit" else Kill(point=point.number)


def count_outside(
    channel: str, shared: Path, verdict: str, after: int | None = None, start: Start = start_new
) -> list[Point]:
    """All points of one run that nobody kills. Raises if even that one does not end well."""
    with tempfile.TemporaryDirectory(prefix="pilothouse-crash-") as folder:
        home = Home(Path(folder))
        kills = [] if after is None else [Kill(commit=after)]
        lives, faults = anyio.run(play, home, channel, verdict, shared, kills, start)
        if faults:
            raise RuntimeError(f"the scenario failed where nobody killed it: {faults}")
        told = json.loads(home.report.read_text())
    near = {number + step for number in told["approvals"] for step in range(-1, 3)}
    counted = [
        *((number, "commit", number in near) for number in range(1, len(told["points"]) + 1)),
        *((number, kind, False) for number, kind in enumerate(lives[-1].kinds, 1)),
    ]
    return [
        Point(verdict, number, kind, after, is_near, channel=channel) for number, kind, is_near in counted
    ]


def try_outside(home: Home, point: Point, *, shared: Path, start: Start = start_new) -> Result:
    kills = [kill_of(point)] if point.after is None else [Kill(commit=point.after), kill_of(point)]
    lives, faults = anyio.run(play, home, point.channel, point.verdict, shared, kills, start)
    killed = len(lives) > len(kills) and lives[len(kills) - 1].code == KILLED
    recovery_s = 0.0
    if home.report.exists():
        times = json.loads(home.report.read_text())["times"]
        recovery_s = max(times["ready"], times["swept"], lives[-1].heard_s)
    kind = (lives[len(kills) - 1].killed_at or point.kind) if killed else point.kind
    return Result(point, killed, kind, recovery_s, tuple(faults))


async def play(
    home: Home, channel: str, verdict: str, shared: Path, kills: list[Kill], start: Start
) -> tuple[list[Life], list[Fault]]:
    """One gateway for each kill, as far as it goes, and one that nobody kills; then what was wrong."""
    async with open_platform(channel, verdict, shared) as platform:
        told = {"channel": channel, "settings": platform.settings, "owners": platform.owners}
        home.platform.write_text(json.dumps(told))
        await platform.furnish(home.folder)
        lives: list[Life] = []
        settled = anyio.Event()
        with anyio.move_on_after(LIMIT_S):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_talk, home, platform, verdict, settled)
                for kill in (*kills, Kill()):
                    if not settled.is_set() or lives[-1].code == KILLED:  # it may die while it says goodbye
                        home.report.unlink(missing_ok=True)
                        words = _words(home, kill.commit)
                        lives.append(await _live(start(words, home.stderr), platform, kill, settled))
                tasks.cancel_scope.cancel()
        return lives, list(_faults(home, platform, verdict, lives, settled.is_set()))


async def _talk(home: Home, platform: Platform, verdict: str, settled: anyio.Event) -> None:
    with closing(Book(home.database)) as book:
        await Chats(platform, book, home.people, verdict).play()
        settled.set()


async def _live(
    gateway: AbstractAsyncContextManager[Running], platform: Platform, kill: Kill, settled: anyio.Event
) -> Life:
    """Until it is killed, or everything has settled and it was asked to stop."""
    began = time.monotonic()
    async with gateway as process:
        reaper = Reaper(process, kill.point)
        platform.watch = reaper.watch
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_see_it_through, platform, reaper, settled)
            if kill.at_s is not None:
                tasks.start_soon(reaper.strike_after, kill.at_s)
            code = await process.wait()
            tasks.cancel_scope.cancel()
        return Life(code, reaper.kinds, reaper.heard_at - began, reaper.struck_at)


class Reaper:
    """Kills the gateway at the point that it is sent for."""

    def __init__(self, process: Running, point: int | None) -> None:
        self.process = process
        self._point = point
        self.kinds: list[Kind] = []
        self.struck_at: Kind | None = None
        self.heard_at = float("inf")

    async def watch(self, kind: Kind) -> bool:
        self.kinds.append(kind)
        if len(self.kinds) != self._point:
            return False
        self.struck_at = kind
        await self._strike()
        return True

    async def strike_after(self, seconds: float) -> None:
        await anyio.sleep(seconds)
        await self._strike()

    async def _strike(self) -> None:
        """Nothing goes on here before it is dead."""
        _signal(self.process, signal.SIGKILL)
        await self.process.wait()


async def _see_it_through(platform: Platform, reaper: Reaper, settled: anyio.Event) -> None:
    """Asks it to stop, once it listens and everything has settled."""
    await platform.until_heard()
    reaper.heard_at = time.monotonic()
    await settled.wait()
    _signal(reaper.process, signal.SIGTERM)


def _words(home: Home, kill_at: int | None) -> list[str]:
    words = [str(home.folder), "--since", str(time.monotonic())]
    return words if kill_at is None else [*words, "--kill-at", str(kill_at)]


def _signal(process: Running, number: signal.Signals) -> None:
    """Not by `send_signal`: that looks whether it has ended, and takes its exit code away from whoever waits for it."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.kill(process.pid, number)


def _faults(
    home: Home, platform: Platform, verdict: str, lives: list[Life], settled: bool
) -> Iterator[Fault]:
    """What people saw is written down first: the checks read it from there."""
    for place, _, text, answers in platform.shown():
        line = {"effect": "send", "kind": "", "turn_id": "", "answers": answers}
        home.seen.add({**line, "conversation": place, "text": text})
    words = home.stderr.read_text()[-2000:]
    for life in lives:
        if life.code not in (0, KILLED):
            yield Fault("broken", f"a gateway ended with {life.code}: {words}")
    if not settled:
        yield Fault("broken", f"nothing had settled after {LIMIT_S:g} s: {words}")
    for button in platform.buttons():
        yield Fault("broken", f"a button was left: {button}")
    for complaint in platform.complaints():
        yield Fault("broken", f"the platform does not take it: {complaint}")
    if home.database.exists():
        yield from check(home, verdict, scheduled=False)
