"""`up` says which channels are really connected, and every change of that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import anyio
import pytest

from pilothouse.bootstrap.connections import LOOK_EVERY_S, NO_ANSWER, SLOW_S, Connections
from pilothouse.bootstrap.up import is_for_operators
from pilothouse.core.channel import Channel, ChannelHealth
from pilothouse.core.ids import ChannelId
from pilothouse.testing.clock import FakeClock

pytestmark = pytest.mark.anyio
TELEGRAM, DISCORD, PLAIN = map(ChannelId, ("telegram", "discord", "plain"))
REFUSED = "Telegram refuses the bot token (Unauthorized)."


class Line:
    """A channel whose health a test sets."""

    def __init__(self) -> None:
        self.now = ChannelHealth()
        self.on_look: Callable[[], None] = lambda: None

    def health(self) -> ChannelHealth:
        self.on_look()
        return self.now


class Scene:
    def __init__(self, *names: ChannelId) -> None:
        self.clock, self.said, self.crashed = FakeClock(), list[str](), dict[ChannelId, str]()
        self.lines = {name: Line() for name in names}
        channels: dict[ChannelId, Any] = {**self.lines, PLAIN: object()} if PLAIN in names else {**self.lines}
        self.connections = Connections(
            cast("dict[ChannelId, Channel]", channels),
            lambda id: ChannelHealth(None, self.crashed.get(id, "")),
            self.clock,
            self.said.append,
        )
        self.settled: tuple[ChannelId, ...] | None = None

    async def settle(self) -> None:
        self.settled = await self.connections.settle()
        await self.connections.report()


async def test_a_channel_is_connected_only_after_its_platform_answered() -> None:
    scene = Scene(TELEGRAM, PLAIN)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(scene.settle)
        await scene.clock.advance(1.0)
        assert scene.settled is None, "the other one is connected, but this one has not answered"
        scene.lines[TELEGRAM].now = ChannelHealth(scene.clock.now())
        await scene.clock.advance(1.0)
        assert scene.settled == (TELEGRAM, PLAIN)
        assert scene.said == [], "the line that says it is ready names them"
        tasks.cancel_scope.cancel()


async def test_a_refused_token_is_said_at_once_and_so_is_its_end() -> None:
    scene = Scene(TELEGRAM, DISCORD)
    scene.lines[TELEGRAM].now = ChannelHealth(None, REFUSED)
    scene.lines[DISCORD].now = ChannelHealth(1.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(scene.settle)
        await scene.clock.advance(0.0)
        assert scene.settled == (DISCORD,)
        assert scene.said == [f"telegram is not connected: {REFUSED}"]
        scene.lines[TELEGRAM].now = ChannelHealth(2.0)
        await scene.clock.advance(LOOK_EVERY_S)
        scene.lines[DISCORD].now = ChannelHealth(2.0, "Discord could not be reached for 60 s.")
        await scene.clock.advance(3 * LOOK_EVERY_S)
        assert scene.said[1:] == [
            "telegram is connected.",
            "discord is not connected: Discord could not be reached for 60 s.",
        ]
        tasks.cancel_scope.cancel()


async def test_a_platform_that_does_not_answer_holds_nothing_up_for_long() -> None:
    scene = Scene(TELEGRAM, DISCORD)
    scene.crashed[DISCORD] = "It failed (no route) and restarts automatically within a minute."
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(scene.settle)
        await scene.clock.advance(SLOW_S + 1)
        assert scene.settled == ()
        assert scene.said == [
            f"telegram is not connected: {NO_ANSWER}",
            f"discord is not connected: {scene.crashed[DISCORD]}",
        ]
        tasks.cancel_scope.cancel()


async def test_it_looks_when_the_other_periodic_tasks_look_so_that_an_idle_process_wakes_once() -> None:
    scene = Scene(TELEGRAM)
    looked_at: list[float] = []
    scene.lines[TELEGRAM].on_look = lambda: looked_at.append(scene.clock.monotonic())
    await scene.clock.advance(1.3)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(scene.connections.report)
        await scene.clock.advance(2 * LOOK_EVERY_S)
        tasks.cancel_scope.cancel()
    assert looked_at == pytest.approx([1.3, LOOK_EVERY_S, 2 * LOOK_EVERY_S])


def test_the_terminal_shows_warnings_and_no_machine_talk() -> None:
    shown = {
        event: is_for_operators({"event": event, "level": level})
        for event, level in (
            ("engines.taken", "info"),
            ("audit.head", "info"),
            ("telegram.menu_failed", "warning"),
            ("turn.broke", "error"),
            ("telegram.trouble", "error"),
            ("channel.in_trouble", "error"),
        )
    }
    assert [event for event, is_shown in shown.items() if is_shown] == ["telegram.menu_failed", "turn.broke"]
