"""Health: a connection that does not hold, or never becomes ready, is reported and begun anew after pauses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import discord
import pytest
from tests.channels.discord.line import Line, open_line
from tests.channels.discord.server.gateway import IDENTIFY, INVALID, RESUME, Session, Socket
from tests.channels.discord.server.running import Server

from pilothouse.channels.discord.connection import SETTLED_S
from pilothouse.testing.clock import FakeClock

pytestmark = pytest.mark.anyio


def refuse(server: Server, socket: Socket) -> None:
    """Op 9, before anything else."""
    socket.tell(INVALID, False)


def greet_and_refuse(server: Server, socket: Socket) -> None:
    """READY, and then op 9."""
    server.gateway.greet(socket, discord.Intents.default())
    server.gateway.forget()
    socket.session = None
    socket.tell(INVALID, False)


def greet_badly(server: Server, socket: Socket) -> None:
    """A READY that discord.py cannot read."""
    Session("odd", discord.Intents.none(), server.wire, socket).tell("READY", {"v": 10})


async def pass_time(line: Line, clock: FakeClock, seen: Any, *, step_s: float = 5.0) -> None:
    """Time passes in small steps, and the network has its own between them, until it is seen."""
    with anyio.fail_after(60):
        while not seen():
            await clock.advance(step_s)
            await anyio.sleep(0.02)


async def test_a_gateway_that_answers_heartbeats_and_never_says_ready_is_told_and_begun_anew(
    server: Server, tmp_path: Path
) -> None:
    server.gateway.answer_identify(lambda socket: None)
    server.gateway.heartbeat_ms = 50
    clock = FakeClock()
    async with open_line(server, tmp_path, clock=clock, connected=False) as line:
        await line.until(lambda: server.gateway.received[IDENTIFY])
        await pass_time(line, clock, lambda: line.channel.health().trouble)
        assert line.channel.health().heard_at is None
        assert server.gateway.received[IDENTIFY] == 1
        server.gateway.answer_identify(None)
        await pass_time(line, clock, lambda: server.gateway.received[IDENTIFY] > 1)
        await line.until(lambda: server.gateway.connected)
        await line.until(lambda: not line.channel.health().trouble)
    assert "nothing comes from its gateway" in line.told("discord.trouble")[0]["text"]


@pytest.mark.parametrize("answer", [refuse, greet_and_refuse, greet_badly])
async def test_sessions_that_do_not_hold_are_told_and_begun_ever_less_often(
    server: Server, tmp_path: Path, answer: Any
) -> None:
    """A bot may begin a thousand a day; then Discord takes its token away."""
    clock = FakeClock()
    begun: list[float] = []

    def note(socket: Socket) -> None:
        begun.append(clock.monotonic())
        answer(server, socket)

    server.gateway.answer_identify(note)
    async with open_line(server, tmp_path, clock=clock, connected=False) as line:
        await pass_time(line, clock, lambda: len(begun) == 11, step_s=10)
        assert line.channel.health().trouble
        assert len(line.told("discord.trouble")) == 1
        assert min(b - a for a, b in zip(begun[-3:], begun[-2:], strict=False)) >= 150
        server.gateway.answer_identify(None)
        await pass_time(line, clock, lambda: server.gateway.connected)
        await pass_time(line, clock, lambda: not line.channel.health().trouble)
        server.person("ada").say("at last")
        await line.until(lambda: line.texts)
    assert line.texts == ["at last"]


async def test_a_line_that_closes_at_once_is_resumed_a_few_times_and_then_begun_anew(
    server: Server, tmp_path: Path
) -> None:
    clock = FakeClock()
    async with open_line(server, tmp_path, clock=clock) as line:
        await hear_one(server, line)
        server.gateway.answer_resume(lambda socket: socket.close(4000))
        begun = server.gateway.received[IDENTIFY]
        server.gateway.drop()
        await pass_time(line, clock, lambda: server.gateway.received[IDENTIFY] > begun, step_s=1)
        assert 0 < server.gateway.received[RESUME] < 10
        assert "broke 6 times" in line.told("discord.not_connected")[-1]["why"]
        await line.until(lambda: server.gateway.connected)
        server.person("bob").say("at last")
        await line.until(lambda: "at last" in line.texts)


async def test_a_line_that_breaks_after_it_held_is_resumed_at_once_and_is_no_trouble(
    server: Server, tmp_path: Path
) -> None:
    """Discord itself wants a new connection every few hours."""
    clock = FakeClock()
    ada = server.person("ada")
    async with open_line(server, tmp_path, clock=clock) as line:
        await hear_one(server, line)
        for number in range(9):
            await clock.advance(SETTLED_S + 1)
            server.gateway.ask_to_reconnect()
            await line.until(lambda number=number: server.gateway.received[RESUME] == number + 1)
            await line.until(lambda: server.gateway.connected)
            ada.say(f"message {number}")
            await line.until(lambda number=number: f"message {number}" in line.texts)
        assert line.channel.health().trouble == ""
        assert line.told("discord.trouble") == []


async def hear_one(server: Server, line: Line) -> None:
    """So that a session surely stands."""
    server.person("ada").say("hello")
    await line.until(lambda: line.texts)


async def test_a_gateway_that_cannot_be_reached_any_more_is_left_for_the_one_that_all_begin_at(
    server: Server, tmp_path: Path
) -> None:
    """READY names the host to resume at; Discord may take that one away."""
    clock = FakeClock()
    async with open_line(server, tmp_path, clock=clock) as line:
        await hear_one(server, line)
        server.gateway.down = True
        server.gateway.drop()
        await pass_time(line, clock, lambda: len(line.told("discord.not_connected")) > 3, step_s=1)
        resumed = server.gateway.received[RESUME]
        server.gateway.down = False
        await pass_time(line, clock, lambda: server.gateway.received[IDENTIFY] > 1)
        assert server.gateway.received[RESUME] == resumed
