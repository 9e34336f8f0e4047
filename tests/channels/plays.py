"""Turns that a puppet engine plays in the tests of every platform, and the time that passes meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import anyio
from tests.runtime.puppet import Play, Strings

from pilothouse.core.ask import Ask, Decision
from pilothouse.core.event import ToolCall, ToolStarted
from pilothouse.core.ids import CallId
from pilothouse.testing.clock import FakeClock


def asks(ask: Ask, heard: list[Decision]) -> Play:
    async def play(strings: Strings) -> None:
        await strings.start()
        heard.append(await strings.ask(ask))
        await strings.say("Went on.")
        await strings.end("Went on.")

    return play


async def slow(strings: Strings) -> None:
    await strings.start()
    await strings.emit(ToolStarted(ToolCall(CallId("c"), "command", "make")))
    await strings.interrupted.wait()
    await strings.fail("crash", "stopped")


def works_until(may_end: anyio.Event, answer: str) -> Play:
    async def play(strings: Strings) -> None:
        await strings.start()
        await strings.emit(ToolStarted(ToolCall(CallId("c"), "command", "make")))
        await may_end.wait()
        await strings.end(answer)

    return play


async def pass_until(clock: FakeClock, seen: Callable[[], object], step_s: float = 0.5) -> None:
    """Waits for it, while time passes."""
    with anyio.fail_after(60):
        while not seen():
            await clock.advance(step_s)
            await anyio.sleep(0.005)
