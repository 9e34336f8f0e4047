"""Turns that a puppet engine plays in the tests of every platform."""

from __future__ import annotations

from tests.runtime.puppet import Play, Strings

from pilothouse.core.ask import Ask, Decision
from pilothouse.core.event import ToolCall, ToolStarted
from pilothouse.core.ids import CallId


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
