"""A message that arrives during a turn: collected, queued, steered in, or taken instead."""

from __future__ import annotations

from pathlib import Path

import anyio
import msgspec
import pytest
from tests.runtime.puppet import BareSession, Play, PuppetEngine, Strings, echo, until_interrupted
from tests.runtime.rig import MAIN, MEMBER, Rig, open_rig

from pilothouse.channels.memory import PERSON
from pilothouse.core.conversation import BusyPolicy
from pilothouse.core.event import PromptAdded
from pilothouse.core.ids import BlobHash, ConversationId
from pilothouse.core.message import Attachment, InboundMessage
from pilothouse.core.store import Tx


def waiting_for(go: anyio.Event) -> Play:
    async def wait(strings: Strings) -> None:
        await strings.start()
        await go.wait()
        await strings.end("the first is done")

    return wait


async def prompts(rig: Rig, count: int) -> list[str]:
    await rig.until_true(lambda: len(rig.engine.turns) >= count)
    return [strings.prompt.text for strings in rig.engine.turns]


async def test_collect_makes_one_prompt_of_all_that_waited_in_the_order_it_came(tmp_path: Path) -> None:
    go = anyio.Event()
    async with open_rig(tmp_path, PuppetEngine(waiting_for(go), echo), busy="collect") as rig:
        await rig.channel.say("one")
        await rig.until_live()
        receipts = [await rig.channel.say(text) for text in ("two", "three", "four")]
        assert all("is next" in receipt.text for receipt in receipts)
        go.set()
        first, second = await prompts(rig, 2)
        assert first == "one"
        assert second.index("two") < second.index("three") < second.index("four")
        await rig.until_ended(2)
        await rig.until_idle()
        assert len(rig.engine.turns) == 2


async def test_the_files_of_all_that_waited_reach_the_engine_in_the_order_they_came(tmp_path: Path) -> None:
    go = anyio.Event()
    files = [Attachment(f"{n}.png", "image/png", 1, BlobHash(f"{n}" * 64)) for n in range(4)]
    async with open_rig(tmp_path, PuppetEngine(waiting_for(go), echo), busy="collect") as rig:
        await rig.channel.say("one")
        await rig.until_live()
        for text, some in (("two", files[:2]), ("three", files[:0]), ("four", files[2:])):
            message = InboundMessage(rig.channel.address(), PERSON, text, text, attachments=tuple(some))
            await rig.gateway.desk.accept(message)
        go.set()
        await prompts(rig, 2)
        assert rig.engine.turns[1].prompt.attachments == tuple(files)
        await rig.until_ended(2)


async def test_queue_runs_one_turn_each_in_the_order_they_came(tmp_path: Path) -> None:
    go = anyio.Event()
    async with open_rig(tmp_path, PuppetEngine(waiting_for(go), echo), busy="queue") as rig:
        await rig.channel.say("one")
        await rig.until_live()
        two = await rig.channel.say("two")
        three = await rig.channel.say("three")
        assert "is next" in two.text
        assert "comes after 1 other (" in three.text
        go.set()
        assert await prompts(rig, 3) == ["one", "two", "three"]
        await rig.until_ended(3)
        await rig.until_idle()
        assert rig.said() == ["the first is done", "you said: two", "you said: three"]


@pytest.mark.parametrize("busy", ["collect", "steer", "queue"])
async def test_what_was_sent_to_be_a_turn_by_itself_is_one_whatever_the_policy(
    tmp_path: Path, busy: BusyPolicy
) -> None:
    go = anyio.Event()
    async with open_rig(tmp_path, PuppetEngine(waiting_for(go), echo, steerable=False), busy=busy) as rig:
        await rig.channel.say("one")
        await rig.until_live()
        receipts = [await rig.ask_alone(text) for text in ("two", "three")]
        assert all("(/cancel drops it)" in receipt.text for receipt in receipts)
        await rig.channel.say("four")
        go.set()
        assert await prompts(rig, 4) == ["one", "two", "three", "four"]
        await rig.until_ended(4)
        await rig.until_idle()
        assert [text for text in rig.said() if "you said" in text] == [
            "you said: two",
            "you said: three",
            "you said: four",
        ]


async def test_what_waits_before_a_turn_by_itself_is_collected_without_it(tmp_path: Path) -> None:
    go = anyio.Event()
    async with open_rig(tmp_path, PuppetEngine(waiting_for(go), echo), busy="collect") as rig:
        await rig.channel.say("one")
        await rig.until_live()
        await rig.channel.say("two")
        await rig.channel.say("three")
        await rig.ask_alone("four")
        go.set()
        _, both, alone = await prompts(rig, 3)
        assert (("two" in both), ("three" in both), ("four" in both)) == (True, True, False)
        assert alone == "four"
        await rig.until_ended(3)


async def test_what_was_sent_to_be_a_turn_by_itself_is_never_steered_in(tmp_path: Path) -> None:
    go = anyio.Event()
    async with open_rig(tmp_path, PuppetEngine(waiting_for(go), echo), busy="steer") as rig:
        await rig.channel.say("one")
        await rig.until_true(lambda: rig.engine.turns)
        await rig.ask_alone("alone")
        await rig.channel.say("passed on")
        await rig.until_true(lambda: rig.engine.turns[0].steered)
        go.set()
        assert await prompts(rig, 2) == ["one", "alone"]
        assert rig.engine.turns[0].steered == ["passed on"]
        await rig.until_ended(2)


async def test_steer_puts_words_into_the_running_turn_which_owns_them_from_then_on(tmp_path: Path) -> None:
    go = anyio.Event()
    async with open_rig(tmp_path, PuppetEngine(waiting_for(go)), busy="steer") as rig:
        await rig.channel.say("one")
        await rig.until_true(lambda: rig.engine.turns)
        receipt = await rig.channel.say("and also two")
        assert "Passing it on" in receipt.text
        await rig.until_true(lambda: rig.engine.turns[0].steered == ["and also two"])
        (turn,) = await rig.turns()
        await rig.until(lambda tx: len(tx.inbox.of_turn(turn.id)) == 2)
        assert (await rig.inbox_row(receipt)).status == "claimed"
        go.set()
        await rig.until_said("the first is done")
        await rig.until_idle()
        assert (await rig.inbox_row(receipt)).status == "done"
        assert len(rig.engine.turns) == 1
        logged = await rig.store.read(lambda tx: tx.events.of_turn(turn.id))
        assert [e.event.text for e in logged if isinstance(e.event, PromptAdded)] == ["one", "and also two"]


async def test_an_owners_words_command_the_engine_until_others_are_steered_in(tmp_path: Path) -> None:
    go = anyio.Event()
    async with open_rig(tmp_path, PuppetEngine(waiting_for(go)), busy="steer") as rig:
        await rig.channel.say("mine")
        turn = await rig.until_live()
        assert turn.prompt.commands
        await rig.channel.say("and a member's", author=MEMBER)
        await rig.until(lambda tx: "and a member's" in tx.turns.of(MAIN)[0].prompt.text)
        assert not (await rig.turns())[0].prompt.commands
        go.set()
        await rig.until_ended(1)
        await rig.channel.say("a member's alone", author=MEMBER)
        assert not (await rig.until_ended(2))[1].prompt.commands


@pytest.mark.parametrize("engine_kind", ["refuses", "cannot"])
async def test_what_cannot_be_steered_in_waits_and_its_sender_is_told_once(
    tmp_path: Path, engine_kind: str
) -> None:
    go = anyio.Event()
    plays = (waiting_for(go), echo)
    engine = (
        PuppetEngine(*plays, steerable=False)
        if engine_kind == "refuses"
        else PuppetEngine(*plays, session=BareSession)
    )
    async with open_rig(tmp_path, engine, busy="steer") as rig:
        await rig.channel.say("one")
        await rig.until_true(lambda: engine.turns)
        await rig.channel.say("two")
        await rig.until_said("could not take your message")
        rig.poke()
        go.set()
        await rig.until_said("you said: two")
        await rig.until_idle()
        assert [text for text in rig.said() if "could not take" in text] == [
            "The running turn could not take your message. It is queued and runs next."
        ]


async def test_interrupt_stops_the_running_turn_and_runs_the_new_message(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(until_interrupted, echo), busy="interrupt") as rig:
        await rig.channel.say("one")
        await rig.until_true(lambda: rig.engine.turns)
        receipt = await rig.channel.say("two")
        assert "Stopping" in receipt.text
        await rig.until_said("you said: two")
        assert [turn.status for turn in await rig.until_ended(2)] == ["cancelled", "done"]
        assert rig.said() == ["Stopped.", "you said: two"]


async def test_a_conversations_own_busy_policy_wins_over_the_configured_one(tmp_path: Path) -> None:
    go = anyio.Event()
    async with open_rig(tmp_path, PuppetEngine(waiting_for(go), echo), busy="collect") as rig:
        await rig.channel.say("one")
        await rig.until_live()
        await rig.store.write(lambda tx: set_busy(tx, "queue"))
        await rig.channel.say("two")
        await rig.channel.say("three")
        go.set()
        assert await prompts(rig, 3) == ["one", "two", "three"]


def set_busy(tx: Tx, busy: BusyPolicy) -> None:
    conversation = tx.conversations.get(MAIN)
    assert conversation is not None
    tx.conversations.save(msgspec.structs.replace(conversation, busy=busy))


async def test_a_batch_has_a_limit_and_the_rest_comes_in_the_next_one(tmp_path: Path) -> None:
    go = anyio.Event()
    async with open_rig(tmp_path, PuppetEngine(waiting_for(go), echo), batch_limit=3) as rig:
        await rig.channel.say("first")
        await rig.until_live()
        for number in range(5):
            await rig.channel.say(f"word-{number}")
        go.set()
        _, second, third = await prompts(rig, 3)
        assert [f"word-{n}" in second for n in range(5)] == [True] * 3 + [False] * 2
        assert [f"word-{n}" in third for n in range(5)] == [False] * 3 + [True] * 2


async def test_two_conversations_run_side_by_side_and_no_more_than_the_limit(tmp_path: Path) -> None:
    go = anyio.Event()
    async with open_rig(tmp_path, PuppetEngine(waiting_for(go)), max_turns_at_once=2) as rig:
        for place in ("a", "b", "c"):
            await rig.channel.say("hello", place)
        await rig.until_true(lambda: len(rig.engine.turns) == 2)
        rig.poke()
        await anyio.wait_all_tasks_blocked()
        assert len(rig.engine.turns) == 2
        go.set()
        for place in ("a", "b", "c"):
            await rig.until_ended(1, ConversationId(f"memory:{place}"))


async def test_a_member_is_heard_beside_the_owner_and_both_are_named_in_the_batch(tmp_path: Path) -> None:
    go = anyio.Event()
    async with open_rig(tmp_path, PuppetEngine(waiting_for(go), echo)) as rig:
        await rig.channel.say("one")
        await rig.until_live()
        await rig.channel.say("two")
        await rig.channel.say("three", author=MEMBER)
        go.set()
        _, batch = await prompts(rig, 2)
        assert 'from="Person"' in batch
        assert 'from="Member"' in batch
        assert "memory:" not in batch
