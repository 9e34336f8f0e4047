"""The in-memory channel: what a person sees, and each of its faults."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from pilothouse.channels.memory import MemoryChannel
from pilothouse.core.ask import Ask, Option
from pilothouse.core.channel import CanDelete, CanEdit
from pilothouse.core.errors import Rejected, TryLater
from pilothouse.core.event import SessionStarted, TextDelta
from pilothouse.core.ids import AskId, BlobHash, TurnId
from pilothouse.core.message import AGAIN_MARK, Attachment, Content, Part
from pilothouse.core.view import TurnView, fold
from pilothouse.testing.desk import ScriptedDesk

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def running(channel: MemoryChannel, desk: ScriptedDesk) -> AsyncIterator[None]:
    async with anyio.create_task_group() as group:
        group.start_soon(channel.run, desk)
        yield
        group.cancel_scope.cancel()


async def test_what_a_person_says_is_accepted_under_its_own_id() -> None:
    channel, desk = MemoryChannel(), ScriptedDesk()
    async with running(channel, desk):
        first = await channel.say("hello")
        await channel.say("again", native_id="n1")
        await channel.say("again", native_id="n1")
    assert first.state == "queued"
    assert [(m.text, m.native_id) for m in desk.accepted] == [
        ("hello", "m1"),
        ("again", "n1"),
        ("again", "n1"),
    ]


async def test_a_line_with_a_slash_is_a_command() -> None:
    channel, desk = MemoryChannel(), ScriptedDesk()
    async with running(channel, desk):
        await channel.say("/stop")
    assert [command.line for command in desk.commands] == ["/stop"]
    assert desk.accepted == []


async def test_edits_deletions_and_answers_reach_the_desk() -> None:
    channel, desk = MemoryChannel(), ScriptedDesk()
    ask = Ask(AskId("a"), "approval", "Run it?", payload_hash="h")
    async with running(channel, desk):
        await channel.change("n1", "better")
        await channel.withdraw("n1")
        await channel.answer(ask, "allow", remember="session")
    assert (desk.edits[0].text, desk.deletions[0].native_id) == ("better", "n1")
    answer = desk.answers[0]
    assert (answer.payload_hash, answer.decision.verdict, answer.decision.remember) == (
        "h",
        "allow",
        "session",
    )


async def test_a_platform_that_tells_twice_tells_the_same_twice() -> None:
    channel, desk = MemoryChannel(twice=True), ScriptedDesk()
    async with running(channel, desk):
        receipt = await channel.say("hello")
        await channel.answer(Ask(AskId("a"), "approval", "?"), "deny")
    assert receipt.state == "queued"
    assert len(desk.accepted) == 2
    assert desk.accepted[0] == desk.accepted[1]
    assert len(desk.answers) == 2


async def test_what_was_edited_or_deleted_is_seen_so() -> None:
    channel = MemoryChannel()
    first = await channel.send(channel.address(), Part("one"))
    second = await channel.send(channel.address(), Part("two"))
    await channel.send(channel.address("other"), Part("elsewhere"))
    await channel.edit(first, Part("uno"))
    await channel.delete(second)
    assert channel.visible() == ["uno"]
    assert channel.visible("other") == ["elsewhere"]
    assert [part.text for part in channel.sent[0].parts] == ["one", "uno"]


async def test_a_repeat_is_marked() -> None:
    channel = MemoryChannel()
    await channel.send(channel.address(), Part("done", again=True))
    assert AGAIN_MARK in channel.visible()[0]


async def test_a_message_that_is_gone_cannot_be_edited() -> None:
    channel = MemoryChannel()
    ref = await channel.send(channel.address(), Part("one"))
    await channel.delete(ref)
    with pytest.raises(Rejected, match="no message"):
        await channel.edit(ref, Part("two"))


async def test_it_asks_us_to_wait_as_often_as_it_was_told() -> None:
    channel = MemoryChannel(try_later=[1.5, 3.0])
    for after_s in (1.5, 3.0):
        with pytest.raises(TryLater) as caught:
            await channel.send(channel.address(), Part("x"))
        assert caught.value.after_s == after_s
    await channel.send(channel.address(), Part("x"))
    assert channel.visible() == ["x"]


async def test_it_rejects_with_the_reason_it_was_given() -> None:
    channel = MemoryChannel(rejected="too rude")
    with pytest.raises(Rejected, match="too rude"):
        await channel.send(channel.address(), Part("x"))
    assert channel.visible() == []


async def test_a_send_that_is_never_confirmed_was_shown_all_the_same() -> None:
    channel = MemoryChannel(never=True)
    async with anyio.create_task_group() as group:
        group.start_soon(channel.send, channel.address(), Part("x"))
        await channel.until(lambda: channel.visible() == ["x"])
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert channel.visible() == ["x"]


async def test_a_slow_send_that_is_cancelled_shows_nothing() -> None:
    channel = MemoryChannel(slow_s=60)
    async with anyio.create_task_group() as group:
        group.start_soon(channel.send, channel.address(), Part("x"))
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert channel.visible() == []


async def test_each_effect_is_recorded_before_it_counts_as_shown() -> None:
    effects: list[dict[str, Any]] = []
    channel = MemoryChannel(record=effects.append)
    (part,) = channel.render(Content("hi", "answer", turn_id=TurnId("t1")))
    ref = await channel.send(channel.address(), part)
    await channel.edit(ref, Part("ho"))
    await channel.delete(ref)
    assert [(e["effect"], e["text"]) for e in effects] == [("send", "hi"), ("edit", "ho"), ("delete", "")]
    assert (effects[0]["turn_id"], effects[0]["kind"], effects[0]["native_id"]) == ("t1", "answer", "m1")


async def test_a_record_that_fails_shows_nothing() -> None:
    def full(effect: dict[str, Any]) -> None:
        raise OSError("disk full")

    channel = MemoryChannel(record=full)
    with pytest.raises(OSError, match="disk full"):
        await channel.send(channel.address(), Part("x"))
    assert channel.visible() == []


def test_attachments_go_with_the_last_part() -> None:
    picture = Attachment("a.png", "image/png", 3, BlobHash("h"))
    parts = MemoryChannel(part_limit=100).render(Content("word " * 50, attachments=(picture,)))
    assert [len(part.attachments) for part in parts] == [0, 0, 1]


def test_an_ask_shows_its_options_and_carries_its_hash() -> None:
    ask = Ask(
        AskId("a"), "question", "Which?", payload_hash="h", options=(Option("r", "Red"), Option("b", "Blue"))
    )
    (part,) = MemoryChannel().render(Content("", "ask", ask=ask))
    assert part.text == "Which?\n1. Red\n2. Blue"
    assert part.data["payload_hash"] == "h"


def test_a_live_view_keeps_to_the_limit() -> None:
    channel = MemoryChannel(part_limit=100)
    view = TurnView()
    for event in (SessionStarted(), TextDelta("b", "word " * 100)):
        view = fold(view, event, 0.0)
    part = channel.render_view(view, 10.0)
    assert part is not None
    assert len(part.text) <= 100
    assert part.text.endswith("Writing… · 10s")


def test_it_can_edit_and_delete() -> None:
    assert isinstance(MemoryChannel(), CanEdit)
    assert isinstance(MemoryChannel(), CanDelete)


async def test_only_the_last_messages_are_remembered() -> None:
    channel = MemoryChannel()
    channel.keep = 2
    refs = [await channel.send(channel.address(), Part(text)) for text in ("one", "two", "three")]
    assert channel.visible() == ["two", "three"]
    with pytest.raises(Rejected):
        await channel.edit(refs[0], Part("uno"))
