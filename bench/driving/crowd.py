"""20 chats at once, each with a warm process, on a model that takes a second.

From handing the messages to the channel, all in one moment, until each answer was delivered. Two gateways alternate: one as it
comes, whose pool is sized by the machine's memory, and one that keeps 5 processes and runs 8 turns at once, as it was before.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
from bench.driving import api
from bench.driving.warm import Place, Side
from bench.measuring.machine import children_cpu_s
from bench.measuring.statistics import median
from bench.measuring.table import Row

CHATS, ROUNDS, OLD_ROUNDS = 20, 5, 1
MODEL_S = 1.0
WARM_AT_ONCE = 2


def measure() -> list[Row]:
    with TemporaryDirectory(prefix="pilothouse-claude-") as folder, api.serving(MODEL_S) as url:
        return anyio.run(_measure, Path(folder), url)


async def _measure(folder: Path, url: str) -> list[Row]:
    place = Place(folder, url)
    ours: list[list[float]] = []
    before: list[list[float]] = []
    cpu: list[tuple[float, float]] = []
    async with AsyncExitStack() as stack:
        new = await stack.enter_async_context(place.side("by-memory"))
        old = await stack.enter_async_context(place.side("five", {"max_turns_at_once": 8}, max_processes=5))
        for side in (new, old):
            await _all_speak(side, "warm", at_once=WARM_AT_ONCE)
        for number in range(ROUNDS):
            began, theirs = time.process_time(), children_cpu_s()
            ours.append(await _all_speak(new, f"message {number}"))
            cpu.append((time.process_time() - began, children_cpu_s() - theirs))
            if number < OLD_ROUNDS:
                before.append(await _all_speak(old, f"message {number}"))
    return _rows(ours, before, cpu)


def _rows(
    ours: Sequence[Sequence[float]], before: Sequence[Sequence[float]], cpu: Sequence[tuple[float, float]]
) -> list[Row]:
    best, old = min(ours, key=median), min(before, key=median)
    mine, theirs = (median([pair[n] for pair in cpu]) for n in range(2))
    told = f"CPU of a round: {mine:.2f} s in the gateway, {theirs:.2f} s in Claude Code and the scripted API"
    figure = f"{CHATS} warm chats at once, a model of {MODEL_S:g} s, p50"
    return [
        Row(figure, median(best), 1.8, "s", _told(ours)),
        Row("the slowest of them", max(best), 2.5, "s", told),
        Row("the same with 5 processes and 8 turns at once, p50", median(old), None, "s", _told(before)),
    ]


def _told(rounds: Sequence[Sequence[float]]) -> str:
    return "p50/slowest " + ", ".join(f"{median(one):.2f}/{max(one):.2f}" for one in rounds) + " s"


async def _all_speak(side: Side, text: str, *, at_once: int = CHATS) -> list[float]:
    times: list[float] = []
    limiter = anyio.CapacityLimiter(at_once)

    async def one(number: int) -> None:
        async with limiter:
            times.append(await side.speak(number, text))

    async with anyio.create_task_group() as tasks:
        for number in range(CHATS):
            tasks.start_soon(one, number)
    return times
