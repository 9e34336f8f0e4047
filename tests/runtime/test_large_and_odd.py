"""Input of a size or a kind that nobody expects: a clear word, or the whole of it; never a fall."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from tests.runtime.puppet import PuppetEngine, Strings, echo
from tests.runtime.rig import MAIN, open_rig

from pilothouse.channels.memory import PERSON, MemoryChannel
from pilothouse.core.event import TextDelta, ToolFinished, ToolStarted, TurnEnded
from pilothouse.core.ids import BlobHash, MessageId
from pilothouse.core.message import Attachment, Author, InboundMessage
from pilothouse.core.outcome import Failure
from pilothouse.core.store import Tx

ODD = "a\0b\ud800c\udfff\N{PILE OF POO}"
CLEAN = "a\ufffdb\ufffdc\ufffd\N{PILE OF POO}"


async def test_a_message_of_a_megabyte_is_refused_in_plain_words_and_stored_nowhere(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        for text in ("x" * 1_000_000, "/model " + "x" * 1_000_000, "/nothing " + "x" * 1_000_000):
            receipt = await rig.channel.say(text)
            assert receipt.state == "refused"
            assert "one prompt may have 200,000" in receipt.text
        assert await rig.store.read(lambda tx: tx.conversations.list()) == []


async def test_a_message_of_a_megabyte_runs_where_it_is_allowed(tmp_path: Path) -> None:
    text = "x" * 1_000_000
    async with open_rig(
        tmp_path, None, MemoryChannel(part_limit=400_000), max_message_chars=2_000_000
    ) as rig:
        await rig.channel.say(text)
        (turn,) = await rig.until_ended()
        await rig.until_idle()
        assert turn.prompt.text == text
        assert "".join(rig.said()).replace("\n", "").endswith("x" * 1000)


async def test_what_cannot_be_stored_is_replaced_in_everything_a_person_sends(tmp_path: Path) -> None:
    author = Author(PERSON.id, ODD)
    attachment = Attachment(ODD, "text/plain", 1, BlobHash("0" * 64))
    async with open_rig(tmp_path) as rig:
        message = InboundMessage(
            rig.channel.address(), author, "n", ODD, attachments=(attachment,), quoted=ODD, source=ODD
        )
        assert (await rig.gateway.desk.accept(message)).state == "queued"
        await rig.until_ended()
        assert rig.engine.turns[0].prompt.text.count(CLEAN) == 5
        await rig.until_said(CLEAN)


@pytest.mark.parametrize("outcome", ["completed", "failed"])
async def test_what_cannot_be_stored_is_replaced_in_everything_an_engine_says(
    tmp_path: Path, outcome: str
) -> None:
    async def odd(strings: Strings) -> None:
        await strings.start()
        await strings.say(ODD)
        await strings.tool(title=ODD)
        await strings.tool_done()
        if outcome == "completed":
            await strings.emit(TurnEnded("completed", ODD))
        else:
            await strings.emit(TurnEnded("failed", failure=Failure("bad_request", ODD, detail=ODD)))

    async with open_rig(tmp_path, PuppetEngine(odd, echo)) as rig:
        await rig.channel.say("go")
        await rig.until_said(CLEAN)
        await rig.until_ended()
        await rig.channel.say("next")
        await rig.until_said("you said: next")


async def test_ten_thousand_deltas_are_all_there_and_cost_few_rows(tmp_path: Path) -> None:
    async def flood(strings: Strings) -> None:
        await strings.start()
        for number in range(10_000):
            await strings.say(f"{number},")
        await strings.end()

    async with open_rig(tmp_path, PuppetEngine(flood), MemoryChannel(part_limit=100_000)) as rig:
        await rig.channel.say("go")
        (turn,) = await rig.until_ended()
        events = [logged.event for logged in await rig.store.read(lambda tx: tx.events.of_turn(turn.id))]
        text = "".join(event.text for event in events if isinstance(event, TextDelta))
        assert text == turn.answer == "".join(f"{number}," for number in range(10_000))
        assert len(events) < 1000
        assert await rig.until_said("9999,")


async def test_ten_thousand_tools_open_and_close_once_each(tmp_path: Path) -> None:
    async def busy(strings: Strings) -> None:
        await strings.start()
        for number in range(10_000):
            await strings.tool(f"call-{number}", kind="read")
            await strings.tool_done(f"call-{number}")
        await strings.end("read it all")

    async with open_rig(tmp_path, PuppetEngine(busy)) as rig:
        await rig.channel.say("go")
        await rig.until_said("read it all", deadline_s=50)
        (turn,) = await rig.until_ended()
        events = [logged.event for logged in await rig.store.read(lambda tx: tx.events.of_turn(turn.id))]
        assert sum(isinstance(event, ToolStarted) for event in events) == 10_000
        assert sum(isinstance(event, ToolFinished) for event in events) == 10_000


def put_unreadable(tx: Tx) -> None:
    tx.inbox.put(
        id=MessageId("msg-bad"),
        key="bad",
        conversation_id=MAIN,
        kind="chat",
        body=msgspec.json.encode({"what": "is this"}),
        at=1.0,
    )


async def test_a_row_that_nobody_can_read_is_set_aside_and_those_behind_it_run(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await rig.channel.say("hello")
        await rig.until_ended()
        await rig.store.write(put_unreadable)
        await rig.channel.say("next")
        await rig.until_said("could not be read and was set aside")
        await rig.until_said("next")
        row = await rig.store.read(lambda tx: tx.inbox.get(MessageId("msg-bad")))
        assert row is not None
        assert row.status == "failed"


async def test_what_cannot_be_set_aside_while_the_store_is_locked_is_set_aside_later(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await rig.channel.say("hello")
        await rig.until_ended()
        log = rig.ports.log

        def lock(event: str, /, **fields: object) -> None:
            log(event, **fields)
            if event == "message.unreadable" and not rig.store.refused:
                rig.store.trouble = "the database is locked"

        rig.ports.log = lock
        await rig.store.write(put_unreadable)
        rig.poke()
        await rig.until_true(lambda: rig.store.refused)
        rig.store.trouble = ""
        await rig.until_said("could not be read and was set aside")


async def test_a_message_from_beyond_the_calendar_runs_like_any_other(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        message = InboundMessage(rig.channel.address(), PERSON, "n", "hello", sent_at=1.8e12)
        await rig.gateway.desk.accept(message)
        await rig.until_said("hello")


async def test_a_note_starts_nothing_by_itself_and_goes_along_with_the_next_message(tmp_path: Path) -> None:
    async with open_rig(tmp_path, max_turns_at_once=1) as rig:
        for number in range(3):
            note = InboundMessage(
                rig.channel.address(f"room-{number}"), PERSON, "note", "the build broke", kind="system"
            )
            assert "passed on" in (await rig.gateway.desk.accept(note)).text
        await rig.channel.say("hello", "elsewhere")
        await rig.until_said("you said: hello")
        assert len(rig.engine.turns) == 1
        await rig.channel.say("what is new?", "room-1")
        await rig.until_said("what is new?")
        assert "the build broke" in rig.engine.turns[1].prompt.text
