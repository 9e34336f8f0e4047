"""The conformance suite for channels: subclass `ChannelConformance` and give it a `rig` fixture.

class TestMine(ChannelConformance):
    @pytest.fixture
    def rig(self) -> ChannelRig:
        return MyRig()
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Protocol

import anyio
import msgspec
import pytest

from pilothouse.core.ask import Ask, Option, RuleOffer, hash_payload
from pilothouse.core.call import Call, Change, Replacement
from pilothouse.core.channel import CanDelete, CanEdit, Channel, ChannelSpec
from pilothouse.core.event import (
    EngineEvent,
    Notice,
    PlanChanged,
    PlanItem,
    SessionStarted,
    TextDelta,
    ToolCall,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    Usage,
)
from pilothouse.core.ids import AskId, BlobHash, CallId, TurnId
from pilothouse.core.message import (
    AGAIN_MARK,
    Address,
    Attachment,
    CommandButton,
    Content,
    DoneStep,
    Part,
)
from pilothouse.core.view import TurnView, fold
from pilothouse.testing.desk import ScriptedDesk

QUICKLY_S = 5.0


class ChannelRig(Protocol):
    """A channel, and the platform that its tests simulate."""

    @property
    def channel(self) -> Channel: ...

    @property
    def address(self) -> Address: ...

    @property
    def redelivers(self) -> bool:
        """True if the platform can deliver an event twice; a keyboard cannot."""
        ...

    async def arrive(self, event_id: str, text: str) -> None:
        """Delivers a person's message; a repeated `event_id` is the same event of the platform."""
        ...

    def seen(self) -> str:
        """Returns everything readable at the address now, in order."""
        ...


def words(count: int) -> list[str]:
    """Returns distinct words, so that a lost, doubled or moved one is noticed."""
    return [f"w{n:06d}" for n in range(count)]


def _texts() -> Iterator[tuple[str, str]]:
    yield "one line", " ".join(words(4000))
    yield "no space", "".join(words(2000))
    yield "paragraphs", "\n\n".join(words(2000))
    yield "code", "Look:\n\n```python\n" + "\n".join(words(2000)) + "\n```\n"
    yield "nested code", "````md\n```py\n" + "\n".join(words(2000)) + "\n```\n````"
    yield "open code", "~~~\n" + "\n".join(words(2000))
    yield "emoji", " 👩🏽‍🚀 ".join(words(1000))
    yield "a megabyte", " ".join(words(131_072))


TEXTS = dict(_texts())
ASK = Ask(
    AskId("ask-1"),
    "question",
    "Which colour?",
    {"colours": 2},
    hash_payload({"colours": 2}),
    (Option("r", "Red"), Option("b", "Blue")),
)
EDIT = Ask(
    AskId("ask-2"),
    "approval",
    "edit: a.py",
    {"tool": "Edit", "input": {"file_path": "a.py", "old_string": "1", "new_string": "2"}, "cwd": "/work"},
    "0" * 64,
    why="no rule matches",
    preview="--- a.py\n+++ a.py\n@@ -1 +1 @@\n-1\n+2",
    offers=(RuleOffer("session", "allow path a.py"),),
    call=Call(
        "change",
        "Edit",
        "/work",
        paths=("a.py",),
        change=Change("a.py", (Replacement("1", "2"),), shown=("file_path", "old_string", "new_string")),
    ),
)
FILE = Attachment("plan.txt", "text/plain", 4, BlobHash("0" * 64))
CONTENTS = (
    Content("Hello, **world**.", "answer", turn_id=TurnId("turn-1")),
    Content("Queued.", "notice"),
    Content("It is done.", "reply", reply_to="7"),
    Content(ASK.title, "ask", turn_id=TurnId("turn-1"), ask=ASK),
    Content(EDIT.title, "ask", turn_id=TurnId("turn-1"), ask=EDIT),
    Content("Allowed by Ada: edit a.py", "closed", turn_id=TurnId("turn-1")),
    Content("A file.", "answer", (FILE,), TurnId("turn-1")),
    Content("", "answer", (FILE,), TurnId("turn-1")),
    Content("", "answer", turn_id=TurnId("turn-1")),
    Content(" \n\n ", "notice"),
    Content("NUL \0 and half a pair \ud83d", "notice"),
    Content("Which engine?", "reply", buttons=(CommandButton("one", "/engine one"),)),
    Content("Done.", "answer", turn_id=TurnId("turn-1"), steps=(DoneStep("make", is_command=True),)),
    Content("# Heading\n\n1. one\n2. two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n", "answer"),
)
EVENTS: tuple[EngineEvent, ...] = (
    SessionStarted(model="m"),
    Notice("info", "retry", "Trying again."),
    PlanChanged((PlanItem("Look", "done"), PlanItem("Write"))),
    TextDelta("b1", "I will look. " * 500),
    ToolStarted(ToolCall(CallId("c1"), "read", "Read", {"path": "/a/b/c.py"})),
    ToolFinished(CallId("c1"), ok=True),
    TextDelta("b2", "```\ncode"),
    TurnEnded("completed", usage=Usage(cost_usd=0.01)),
)


class ChannelConformance:
    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend(self) -> str:
        """Run on asyncio, whatever else is installed."""
        return "asyncio"

    def read(self, parts: Sequence[Part]) -> str:
        """Returns all that a person can read; overridden by a channel that attaches a long text as a file."""
        return "".join(part.text for part in parts)

    @pytest.mark.parametrize("content", CONTENTS, ids=range(len(CONTENTS)))
    def test_render_is_pure(self, rig: ChannelRig, content: Content) -> None:
        before = rig.seen()
        assert rig.channel.render(content) == rig.channel.render(content)
        assert rig.seen() == before

    @pytest.mark.parametrize("content", CONTENTS, ids=range(len(CONTENTS)))
    def test_there_is_always_something_to_see(self, rig: ChannelRig, content: Content) -> None:
        parts = rig.channel.render(content)
        assert parts
        assert all(part.text.strip() or part.attachments for part in parts)
        assert not any(part.again for part in parts)

    @pytest.mark.parametrize("content", CONTENTS, ids=range(len(CONTENTS)))
    def test_parts_can_be_stored(self, rig: ChannelRig, content: Content) -> None:
        parts = rig.channel.render(content)
        assert msgspec.json.decode(msgspec.json.encode(parts), type=tuple[Part, ...]) == parts
        assert not any("\0" in part.text for part in parts)

    @pytest.mark.parametrize("name", TEXTS)
    def test_no_word_is_lost_doubled_or_moved(self, rig: ChannelRig, name: str) -> None:
        parts = rig.channel.render(Content(TEXTS[name], "answer"))
        wanted = re.findall(r"\d{6}", TEXTS[name])
        assert re.findall(r"\d{6}", self.read(parts)) == wanted

    def test_every_attachment_goes_with_exactly_one_part(self, rig: ChannelRig) -> None:
        parts = rig.channel.render(Content(TEXTS["paragraphs"], "answer", (FILE,)))
        assert [a for part in parts for a in part.attachments] == [FILE]

    def test_an_ask_shows_its_title_and_its_options(self, rig: ChannelRig) -> None:
        everything = repr(rig.channel.render(Content(ASK.title, "ask", ask=ASK)))
        assert all(word in everything for word in ("Which colour?", "Red", "Blue"))

    def test_a_list_to_tap_can_be_read_too(self, rig: ChannelRig) -> None:
        buttons = (CommandButton("one", "/engine one"), CommandButton("far", f"/bind {'x' * 200}"))
        parts = rig.channel.render(Content("There are: one, far.", "reply", buttons=buttons))
        assert self.read(parts).strip() == "There are: one, far."

    async def test_each_part_that_is_sent_stands_under_its_own_id(self, rig: ChannelRig) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(rig.channel.run, ScriptedDesk())
            parts = [p for text in ("alpha", "beta", "gamma") for p in rig.channel.render(Content(text))]
            refs = [await rig.channel.send(rig.address, part) for part in parts]
            seen = rig.seen()
            group.cancel_scope.cancel()
        assert len(set(refs)) == 3
        assert {ref.address for ref in refs} == {rig.address}
        assert seen.index("alpha") < seen.index("beta") < seen.index("gamma")

    async def test_a_repeat_says_that_it_is_one(self, rig: ChannelRig) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(rig.channel.run, ScriptedDesk())
            (part,) = rig.channel.render(Content("alpha", "answer", turn_id=TurnId("turn-1")))
            await rig.channel.send(rig.address, part)
            assert AGAIN_MARK not in rig.seen()
            await rig.channel.send(rig.address, msgspec.structs.replace(part, again=True))
            seen = rig.seen()
            group.cancel_scope.cancel()
        assert AGAIN_MARK in seen
        assert seen.count("alpha") == 2

    async def test_run_ends_quickly_when_it_is_cancelled(self, rig: ChannelRig) -> None:
        desk = ScriptedDesk()
        with anyio.fail_after(2 * QUICKLY_S):
            async with anyio.create_task_group() as group:
                group.start_soon(rig.channel.run, desk)
                await rig.arrive("1", "hello")
                await desk.until(lambda: bool(desk.accepted))
                group.cancel_scope.cancel()

    async def test_a_message_that_arrives_is_accepted_as_it_was_written(self, rig: ChannelRig) -> None:
        desk = ScriptedDesk()
        async with anyio.create_task_group() as group:
            group.start_soon(rig.channel.run, desk)
            await rig.arrive("1", "first line")
            await rig.arrive("2", "second line")
            with anyio.fail_after(QUICKLY_S):
                await desk.until(lambda: len(desk.accepted) >= 2)
            group.cancel_scope.cancel()
        first, second = desk.accepted
        assert (first.text, second.text) == ("first line", "second line")
        assert first.native_id != second.native_id
        assert first.address == rig.address
        assert first.author.id.startswith(f"{rig.channel.id}:")

    async def test_the_same_event_has_the_same_id(self, rig: ChannelRig) -> None:
        if not rig.redelivers:
            pytest.skip("this platform brings nothing twice")
        desk = ScriptedDesk()
        async with anyio.create_task_group() as group:
            group.start_soon(rig.channel.run, desk)
            await rig.arrive("1", "first line")
            await rig.arrive("1", "first line")
            await rig.arrive("2", "last line")
            with anyio.fail_after(QUICKLY_S):
                await desk.until(lambda: any(m.text == "last line" for m in desk.accepted))
            group.cancel_scope.cancel()
        assert len({m.native_id for m in desk.accepted if m.text == "first line"}) == 1

    async def test_what_can_be_edited_shows_its_new_text(self, rig: ChannelRig) -> None:
        channel = rig.channel
        if not isinstance(channel, CanEdit):
            pytest.skip("this channel cannot edit")
        async with anyio.create_task_group() as group:
            group.start_soon(channel.run, ScriptedDesk())
            (before,), (after,) = channel.render(Content("alpha")), channel.render(Content("beta"))
            await channel.edit(await channel.send(rig.address, before), after)
            seen = rig.seen()
            group.cancel_scope.cancel()
        assert "beta" in seen
        assert "alpha" not in seen

    def test_every_moment_of_a_turn_can_be_shown(self, rig: ChannelRig) -> None:
        channel = rig.channel
        if not isinstance(channel, CanEdit):
            pytest.skip("this channel has no live view")
        view = TurnView()
        for at, event in enumerate(EVENTS):
            view = fold(view, event, float(at))
            for now in (at, at + 0.6, at + 5000.0):
                part = channel.render_view(view, now)
                assert part == channel.render_view(view, now)
                assert part is None or part.text.strip()

    async def test_what_can_be_deleted_is_gone(self, rig: ChannelRig) -> None:
        channel = rig.channel
        if not isinstance(channel, CanDelete):
            pytest.skip("this channel cannot delete")
        async with anyio.create_task_group() as group:
            group.start_soon(channel.run, ScriptedDesk())
            (part,) = channel.render(Content("alpha"))
            await channel.delete(await channel.send(rig.address, part))
            seen = rig.seen()
            group.cancel_scope.cancel()
        assert "alpha" not in seen


def check_spec(spec: ChannelSpec) -> None:
    """Checks that a spec's default settings can be made, and that `problem` describes them."""
    assert spec.id
    assert spec.title
    config = msgspec.convert({}, spec.config)
    assert isinstance(spec.problem(config), str)
