"""Waiting for one's turn, on a clock that is moved by hand."""

from __future__ import annotations

import anyio
import pytest
from anyio.abc import TaskGroup

from pilothouse.channels.telegram.pace import Gate, Kind, Request
from pilothouse.core.errors import TryLater
from pilothouse.testing.clock import FakeClock

pytestmark = pytest.mark.anyio


class Sender:
    """Sends through a gate, and keeps when each message went."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.gate = Gate(self.clock)
        self.went: list[tuple[float, object]] = []
        self.stayed: list[object] = []

    async def send(self, kind: Kind, body: object, chat: str = "p1", *, takes_s: float = 0.0) -> None:
        async with self.gate.slot(Request(chat, kind, key=f"{chat}:view", body=body)) as slot:
            if not slot.may_send:
                self.stayed.append(body)
                return
            self.went.append((self.clock.monotonic(), body))
            if takes_s:
                await self.clock.sleep(takes_s)

    def start(
        self, group: TaskGroup, kind: Kind, body: object, chat: str = "p1", takes_s: float = 0.0
    ) -> None:
        async def run() -> None:
            await self.send(kind, body, chat, takes_s=takes_s)

        group.start_soon(run)


async def test_messages_of_one_chat_go_a_second_apart_and_those_of_others_at_once() -> None:
    sender = Sender()
    async with anyio.create_task_group() as group:
        for body in ("a", "b", "c"):
            sender.start(group, "final", body)
        sender.start(group, "final", "elsewhere", "p2")
        await sender.clock.advance(5.0)
    assert sender.went == [(0.0, "a"), (0.0, "elsewhere"), (1.0, "b"), (2.0, "c")]


async def test_the_pause_begins_when_the_answer_came() -> None:
    sender = Sender()
    async with anyio.create_task_group() as group:
        sender.start(group, "final", "a", takes_s=3.0)
        sender.start(group, "final", "b")
        await sender.clock.advance(10.0)
    assert sender.went == [(0.0, "a"), (4.0, "b")]


async def test_a_final_overtakes_a_view_and_the_newest_view_alone_goes() -> None:
    sender = Sender()
    async with anyio.create_task_group() as group:
        sender.start(group, "final", "first")
        await sender.clock.advance(0.1)
        for body in ("old view", "new view", "final"):
            sender.start(group, "view" if "view" in body else "final", body)
            await sender.clock.advance(0.1)
        await sender.clock.advance(5.0)
    assert [body for _, body in sender.went] == ["first", "final", "new view"]
    assert sender.stayed == ["old view"]


async def test_a_view_of_a_message_that_goes_away_does_not_go() -> None:
    sender = Sender()
    async with anyio.create_task_group() as group:
        sender.start(group, "final", "first")
        await sender.clock.advance(0.1)
        sender.start(group, "view", "view")
        await sender.clock.advance(0.1)
        sender.gate.forget("p1:view")
        await sender.clock.advance(5.0)
    assert sender.stayed == ["view"]


async def test_a_refusal_is_obeyed_and_a_long_one_is_told_at_once() -> None:
    sender = Sender()
    async with sender.gate.slot(Request("p1", "final")) as slot:
        slot.refused(30.0)
    with pytest.raises(TryLater) as told:
        await sender.send("final", "a")
    assert told.value.after_s == 30.0
    await sender.clock.advance(27.0)
    async with anyio.create_task_group() as group:
        sender.start(group, "final", "b")
        await sender.clock.advance(5.0)
    assert sender.went == [(30.0, "b")]


async def test_whoever_gives_up_waiting_holds_nobody_up() -> None:
    sender = Sender()
    async with anyio.create_task_group() as group:
        sender.start(group, "final", "a")
        await sender.clock.advance(0.1)
        async with anyio.create_task_group() as impatient:
            sender.start(impatient, "final", "b")
            await sender.clock.advance(0.1)
            impatient.cancel_scope.cancel()
        sender.start(group, "final", "c")
        await sender.clock.advance(5.0)
    assert sender.went == [(0.0, "a"), (1.0, "c")]


async def test_one_that_breaks_while_it_sends_lets_the_next_go() -> None:
    sender = Sender()
    with pytest.raises(RuntimeError):
        async with sender.gate.slot(Request("p1", "view", key="v", body="x")):
            raise RuntimeError
    async with anyio.create_task_group() as group:
        sender.start(group, "view", "a")
        await sender.clock.advance(5.0)
    assert sender.went == [(1.0, "a")]
