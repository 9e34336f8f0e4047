"""A place that gets a new address: its conversation goes on there, whatever it was in the middle of."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.runtime.puppet import PuppetEngine, Strings, until_interrupted
from tests.runtime.rig import Rig, open_rig

from pilothouse.channels.memory import PERSON
from pilothouse.core.ask import Ask, Option, hash_payload
from pilothouse.core.errors import PilothouseError
from pilothouse.core.ids import AskId, ChannelId, ConversationId
from pilothouse.core.message import Address
from pilothouse.core.trigger import Trigger

pytestmark = pytest.mark.anyio

OLD = ConversationId("memory:old")
QUESTION = Ask(AskId("q"), "question", "Which?", {"q": 1}, hash_payload({"q": 1}), (Option("a", "A"),))


async def say(rig: Rig, text: str, place: str, *, native_id: str = "", thread: str | None = None) -> None:
    await rig.channel.say(text, place, native_id=native_id, thread=thread, private=False)


async def until_said(rig: Rig, place: str, text: str) -> None:
    await rig.until_true(lambda: any(text in said for said in rig.said(place)))


async def test_binding_session_and_trigger_are_there_under_the_new_address(tmp_path: Path) -> None:
    (tmp_path / "api").mkdir()
    async with open_rig(tmp_path, workspaces={"api": str(tmp_path / "api")}) as rig:
        await say(rig, "/bind api", "old")
        await say(rig, "/trigger all", "old")
        await say(rig, "one", "old")
        await until_said(rig, "old", "one")
        await rig.channel.move("old", "new")
        await say(rig, "two", "new")
        await until_said(rig, "new", "two")
        assert {Path(brief.workspace).name for brief in rig.engine.briefs} == {"api"}
        assert len(await rig.store.read(lambda tx: tx.sessions.of())) == 1
        found = await rig.gateway.desk.settings_of(rig.channel.address("new"))
        assert found.trigger == Trigger("all")
        assert found.former == (rig.channel.address("old"),)
        thread = await rig.gateway.desk.settings_of(rig.channel.address("new", "7"))
        assert thread.trigger == Trigger("all")


async def test_messages_that_are_numbered_anew_are_no_repeats(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await say(rig, "one", "old", native_id="5")
        await until_said(rig, "old", "one")
        await rig.channel.move("old", "new")
        await say(rig, "two", "new", native_id="5")
        await until_said(rig, "new", "two")
        await say(rig, "two", "new", native_id="5")
        await say(rig, "three", "new", native_id="6")
        await until_said(rig, "new", "three")
        turns = await rig.store.read(lambda tx: tx.turns.of(OLD))
        assert len(turns) == 3


async def test_a_turn_that_runs_meanwhile_is_stopped_and_answered_under_the_new_address(
    tmp_path: Path,
) -> None:
    async with open_rig(tmp_path, PuppetEngine(until_interrupted, until_interrupted)) as rig:
        await say(rig, "one", "old")
        await rig.until_live(OLD, "running")
        await rig.channel.move("old", "new")
        live = await rig.gateway.desk.query("live_turn", PERSON, conversation=ConversationId("memory:new"))
        assert live is not None
        await say(rig, "/stop", "new")
        await until_said(rig, "new", "Stopping.")
        await rig.until(lambda tx: tx.turns.of(OLD, statuses=("cancelled",)))


async def test_an_open_ask_is_shown_again_and_answered_there(tmp_path: Path) -> None:
    async def asks(strings: Strings) -> None:
        await strings.start()
        decision = await strings.ask(QUESTION)
        await strings.end(f"chose {decision.options}")

    async with open_rig(tmp_path, PuppetEngine(asks)) as rig:
        await say(rig, "one", "old")
        await until_said(rig, "old", "Which?")
        await rig.until_live(OLD, "waiting")
        await rig.channel.move("old", "new")
        await until_said(rig, "new", "Which?")
        await say(rig, "A", "new")
        await until_said(rig, "new", "chose ('a',)")
        await rig.until_idle()
        assert not any("Which?" in said and not said.startswith("Answered by") for said in rig.said("new"))


async def test_what_waited_runs_and_is_answered_under_the_new_address(tmp_path: Path) -> None:
    go = anyio.Event()

    async def works(strings: Strings) -> None:
        await strings.start()
        await go.wait()
        await strings.end(f"did {strings.prompt.text}")

    async with open_rig(tmp_path, PuppetEngine(works), busy="queue") as rig:
        await say(rig, "one", "old")
        await rig.until_live(OLD, "running")
        await say(rig, "two", "old")
        await rig.channel.move("old", "new")
        await say(rig, "three", "new")
        go.set()
        for word in ("one", "two", "three"):
            await until_said(rig, "new", word)
        assert not rig.said("old")


async def test_the_same_move_twice_is_one_and_lasts(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await say(rig, "one", "old")
        await until_said(rig, "old", "one")
        await rig.channel.move("old", "new")
        await rig.channel.move("old", "new")
    async with open_rig(tmp_path, name="second") as rig:
        await rig.channel.move("old", "new")
        await say(rig, "two", "new")
        await until_said(rig, "new", "two")
        assert (await rig.audited("conversation.moved")) == ["conversation.moved"]
        assert len(await rig.store.read(lambda tx: tx.sessions.of())) == 1


async def test_a_move_that_was_not_written_may_be_told_again(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await say(rig, "one", "old")
        await until_said(rig, "old", "one")
        rig.crash()
        with pytest.raises(PilothouseError):
            await rig.channel.move("old", "new")
    async with open_rig(tmp_path, name="second", alive=lambda _info: False) as rig:
        await rig.channel.move("old", "new")
        await say(rig, "two", "new")
        await until_said(rig, "new", "two")
        assert len(await rig.store.read(lambda tx: tx.sessions.of())) == 1


async def test_what_came_before_the_news_of_the_move_is_not_lost(tmp_path: Path) -> None:
    go = anyio.Event()

    async def works(strings: Strings) -> None:
        await strings.start()
        await go.wait()
        await strings.end(f"did {strings.prompt.text}")

    async with open_rig(tmp_path, PuppetEngine(works), busy="queue", max_turns_at_once=1) as rig:
        await say(rig, "one", "old")
        await rig.until_live(OLD, "running")
        await say(rig, "early", "new")
        await rig.channel.move("old", "new")
        go.set()
        await until_said(rig, "new", "early")
        turns = await rig.store.read(lambda tx: tx.turns.of(OLD))
        assert len(turns) == 2, "it went on in the conversation that moved"


async def test_no_channel_moves_what_is_anothers(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        with pytest.raises(PilothouseError, match="cannot move"):
            await rig.gateway.desk.moved(
                Address(ChannelId("terminal"), "old"), Address(ChannelId("memory"), "new")
            )
