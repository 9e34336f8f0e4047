"""/stop ends a turn in whatever state it is, and what was stopped is never resumed. Edits and deletions beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from tests.runtime.puppet import PuppetEngine, Strings, deaf, echo, until_interrupted
from tests.runtime.rig import MAIN, only_alive, open_rig

from pilothouse.channels.memory import PERSON, MemoryChannel
from pilothouse.core.ask import Ask, Decision
from pilothouse.core.errors import Rejected
from pilothouse.core.ids import AskId
from pilothouse.core.message import MessageDeleted, MessageRef, Part
from pilothouse.testing.clock import FakeClock

ASK = Ask(AskId("a"), "approval", "Run it?", {"command": "make"})


async def test_a_running_turn_is_stopped_and_says_so_once(tmp_path: Path) -> None:
    async def half(strings: Strings) -> None:
        await strings.start()
        await strings.say("half of the answer")
        await strings.interrupted.wait()

    async with open_rig(tmp_path, PuppetEngine(half, echo)) as rig:
        receipt = await rig.channel.say("one")
        await rig.until(lambda tx: (turn := tx.turns.live_in(MAIN)) and turn.began)
        await rig.channel.say("/stop")
        (turn,) = await rig.until_ended()
        assert (turn.status, turn.failure) == ("cancelled", None)
        await rig.until_idle()
        assert sorted(rig.said()) == sorted(["Stopping.", "half of the answer\n\nStopped."])
        row = await rig.inbox_row(receipt)
        assert (row.status, row.why) == ("done", "cancelled")
        await rig.channel.say("two")
        await rig.until_said("you said: two")


async def test_an_engine_that_ignores_the_interrupt_is_left_after_the_grace(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(deaf, echo), stop_grace_s=0.05) as rig:
        await rig.channel.say("one")
        await rig.until_true(lambda: rig.engine.turns)
        await rig.channel.say("/stop")
        (turn,) = await rig.until_ended()
        assert turn.status == "cancelled"
        await rig.until_true(lambda: rig.engine.open_sessions == 0)
        await rig.channel.say("two")
        await rig.until_said("you said: two")


async def test_an_engine_that_finishes_in_spite_of_the_stop_has_finished(tmp_path: Path) -> None:
    async def stubborn(strings: Strings) -> None:
        await strings.start()
        await strings.interrupted.wait()
        await strings.end("I was done anyway")

    async with open_rig(tmp_path, PuppetEngine(stubborn)) as rig:
        await rig.channel.say("one")
        await rig.until_true(lambda: rig.engine.turns)
        await rig.channel.say("/stop")
        (turn,) = await rig.until_ended()
        assert turn.status == "done"
        await rig.until_said("I was done anyway")


async def test_a_turn_that_waits_for_an_answer_is_stopped_and_its_ask_is_closed(tmp_path: Path) -> None:
    async def ask(strings: Strings) -> None:
        await strings.start()
        await strings.ask(ASK)

    async with open_rig(tmp_path, PuppetEngine(ask), stop_grace_s=0.05) as rig:
        await rig.channel.say("one")
        asked = await rig.until_asked()
        await rig.channel.say("/stop")
        (turn,) = await rig.until_ended()
        assert turn.status == "cancelled"
        assert await rig.store.read(lambda tx: tx.asks.open_in(MAIN)) == []
        late = await rig.channel.answer(asked, "allow")
        assert not late.accepted
        assert "withdrawn" in late.text
        assert len(await rig.turns()) == 1


class EditsNothing(MemoryChannel):
    # pyrefly: ignore [missing-override-decorator]
    async def edit(self, ref: MessageRef, part: Part) -> None:
        raise Rejected("message can't be edited")


@pytest.mark.parametrize(
    ("channel", "told"),
    [
        (MemoryChannel, ["No longer open: Run it? (its turn ended)"]),
        (EditsNothing, ["Puppet asks: Run it?", "No longer open: Run it? (its turn ended)"]),
    ],
)
async def test_the_end_of_an_ask_whose_turn_is_stopped_is_told_once(
    tmp_path: Path, channel: Callable[[], MemoryChannel], told: list[str]
) -> None:
    async def ask(strings: Strings) -> None:
        await strings.start()
        await strings.ask(ASK)

    async with open_rig(tmp_path, PuppetEngine(ask), channel(), stop_grace_s=0.05, first_view_s=60) as rig:
        await rig.channel.say("one")
        await rig.until_asked()
        await rig.channel.say("/stop")
        await rig.until_ended()
        await rig.until_idle()
        said = [text.partition("\n")[0] for text in rig.said()]
        assert [line for line in said if "Run it?" in line] == told
        assert said.count("Stopped.") == 1


async def test_a_parked_turn_is_stopped_and_never_wakes(tmp_path: Path) -> None:
    clock = FakeClock()

    async def limited(strings: Strings) -> None:
        await strings.start()
        await strings.fail("quota", "The limit is reached.", clock.now() + 300)

    async with open_rig(tmp_path, PuppetEngine(limited, echo), clock=clock) as rig:
        await rig.channel.say("one")
        await rig.until(lambda tx: tx.turns.of(MAIN, statuses=("parked",)))
        await rig.channel.say("/stop")
        await rig.until_said("It will not be resumed")
        (turn,) = await rig.until_ended()
        assert turn.status == "cancelled"
        await clock.advance(400)
        rig.poke()
        await rig.channel.say("two")
        await rig.until_said("you said: two")
        assert [strings.prompt.text for strings in rig.engine.turns] == ["one", "two"]


async def test_a_turn_that_waits_to_run_again_is_stopped(tmp_path: Path) -> None:
    """It was lost in a crash and is queued again, but there is no room for it yet."""
    async with open_rig(tmp_path, PuppetEngine(deaf), name="first") as rig:
        await rig.channel.say("one")
        await rig.until_true(lambda: rig.engine.turns)
        rig.crash()
    engine = PuppetEngine(until_interrupted)
    async with open_rig(
        tmp_path, engine, name="second", alive=only_alive("second"), max_turns_at_once=0
    ) as rig:
        await rig.until(lambda tx: tx.turns.of(MAIN, statuses=("queued",)))
        await rig.channel.say("/stop")
        await rig.until_said("It will not be resumed")
    async with open_rig(tmp_path, engine, name="third", alive=only_alive("third")) as rig:
        (turn,) = await rig.until_ended()
        assert turn.status == "cancelled"
        assert engine.turns == []


async def test_what_was_stopped_is_not_resumed_after_a_restart(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(deaf), stop_grace_s=60, name="first") as rig:
        await rig.channel.say("one")
        await rig.until_true(lambda: rig.engine.turns)
        await rig.channel.say("/stop")
        await rig.until(lambda tx: (turn := tx.turns.live_in(MAIN)) and turn.stop_requested)
        rig.crash()
    async with open_rig(tmp_path, name="second", alive=only_alive("second")) as rig:
        (turn,) = await rig.until_ended()
        assert (turn.status, turn.failure) == ("cancelled", None)
        await rig.until_said("Stopped.")
        await rig.until_idle()
        assert rig.engine.turns == []
        assert sum("Stopped." in text for text in rig.said()) == 1


async def test_what_was_stopped_while_it_waited_for_an_answer_is_not_asked_again_after_a_restart(
    tmp_path: Path,
) -> None:
    async def ask(strings: Strings) -> None:
        await strings.start()
        await strings.ask(ASK)

    async with open_rig(tmp_path, PuppetEngine(ask), stop_grace_s=60, name="first") as rig:
        await rig.channel.say("one")
        asked = await rig.until_asked()
        await rig.channel.say("/stop")
        rig.crash()
    async with open_rig(tmp_path, name="second", alive=only_alive("second")) as rig:
        await rig.until_said("Stopped.")
        assert not any("still open" in text for text in rig.said())
        answered = await rig.gateway.desk.answer(asked.id, asked.payload_hash, Decision("allow"), PERSON)
        assert not answered.accepted
        assert rig.engine.turns == []


async def test_stop_where_nothing_runs_says_so(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await rig.channel.say("/stop")
        await rig.until_said("Nothing is running here")


async def test_stop_leaves_what_is_queued_and_says_how_much_that_is(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(until_interrupted, echo)) as rig:
        await rig.channel.say("one")
        await rig.until_true(lambda: rig.engine.turns)
        await rig.channel.say("two")
        await rig.channel.say("/stop")
        await rig.until_said("1 queued")
        await rig.until_said("you said: two")


async def test_a_deletion_that_a_platform_lets_nobody_else_do_withdraws_too(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(until_interrupted, echo), busy="queue") as rig:
        await rig.channel.say("one")
        await rig.until_true(lambda: rig.engine.turns)
        await rig.channel.say("two", native_id="two")
        gone = MessageDeleted(rig.channel.address(), None, "two")
        assert "Withdrawn" in (await rig.gateway.desk.deleted(gone)).text
        row = await rig.store.read(lambda tx: tx.inbox.by_key(f"{MAIN}|two"))
        assert row is not None
        assert row.status == "withdrawn"
        await rig.channel.say("/stop")


async def test_a_queued_message_can_be_changed_and_withdrawn(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(until_interrupted, echo), busy="queue") as rig:
        await rig.channel.say("one")
        await rig.until_true(lambda: rig.engine.turns)
        await rig.channel.say("two", native_id="two")
        await rig.channel.say("three", native_id="three")
        assert "Changed" in (await rig.channel.change("two", "two and a half\0")).text
        assert "Withdrawn" in (await rig.channel.withdraw("three")).text
        assert (await rig.channel.withdraw("three")).text == ""
        await rig.channel.say("/stop")
        await rig.until_said("you said: two and a half\N{REPLACEMENT CHARACTER}")
        await rig.until_idle()
        assert len(rig.engine.turns) == 2
        row = await rig.store.read(lambda tx: tx.inbox.by_key(f"{MAIN}|three"))
        assert row is not None
        assert row.status == "withdrawn"


async def test_a_change_cannot_make_a_message_longer_than_a_message_may_be(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(until_interrupted), max_message_chars=10) as rig:
        await rig.channel.say("one")
        await rig.until_live()
        await rig.channel.say("two", native_id="two")
        receipt = await rig.channel.change("two", "x" * 11)
        assert receipt.state == "refused"
        assert "one prompt may have 10." in receipt.text


async def test_a_running_message_is_not_changed_and_its_sender_is_offered_a_stop(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(until_interrupted)) as rig:
        await rig.channel.say("one", native_id="one")
        await rig.until_true(lambda: rig.engine.turns)
        for receipt in (await rig.channel.change("one", "uno"), await rig.channel.withdraw("one")):
            assert receipt.state == "refused"
            assert "/stop" in receipt.text
        await rig.until_said("not edited. /stop")
        await rig.until_said("not deleted. /stop")
        assert (await rig.until_live()).prompt.text == "one"


async def test_a_finished_message_or_one_that_never_was_changes_nothing(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await rig.channel.say("one", native_id="one")
        await rig.until_said("you said: one")
        await rig.until_idle()
        for receipt in (
            await rig.channel.change("one", "uno"),
            await rig.channel.withdraw("one"),
            await rig.channel.change("never", "said"),
            await rig.channel.withdraw("never"),
        ):
            assert (receipt.state, receipt.text) == ("duplicate", "")
        await anyio.wait_all_tasks_blocked()
        assert (len(rig.said()), len(rig.engine.turns)) == (1, 1)


async def test_a_command_cannot_be_changed_into_something_else(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await rig.channel.say("/new", native_id="c")
        assert (await rig.channel.change("c", "/stop")).state == "duplicate"
