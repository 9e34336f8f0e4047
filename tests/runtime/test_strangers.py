"""Law 7: nobody is let in by default. A stranger is refused at every door and leaves no trace in the store."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.runtime.puppet import PuppetEngine, Strings, until_interrupted
from tests.runtime.rig import MAIN, STRANGER, Rig, open_rig

from pilothouse.core.ask import Ask
from pilothouse.core.errors import PilothouseError
from pilothouse.core.ids import AskId
from pilothouse.core.store import Tx


async def everything(rig: Rig) -> object:
    def unit(tx: Tx) -> object:
        return [
            tx.conversations.list(),
            tx.sessions.of(),
            tx.turns.of(),
            [tx.inbox.unfinished(place.id) for place in tx.conversations.list()],
            tx.asks.open_in(MAIN),
            [row.what for row in tx.audit.list()],
            tx.events.last_seq(MAIN),
        ]

    return await rig.store.read(unit)


async def test_law_7_a_stranger_is_refused_at_every_door_and_nothing_is_stored(tmp_path: Path) -> None:
    async def ask(strings: Strings) -> None:
        await strings.start()
        await strings.ask(Ask(AskId("a"), "approval", "Run it?", {"command": "make"}))
        await strings.end("allowed")

    async with open_rig(tmp_path, PuppetEngine(ask)) as rig:
        await rig.channel.say("go", native_id="mine")
        asked = await rig.until_asked()
        before = await everything(rig)
        for text in ("let me in", "/status", "/stop", "/nonsense", "/etc/passwd"):
            receipt = await rig.channel.say(text, author=STRANGER)
            assert receipt.state == "refused"
            assert STRANGER.id in receipt.text
            assert (await rig.channel.say(text, "new-place", author=STRANGER)).state == "refused"
        assert (await rig.channel.change("mine", "stop", author=STRANGER)).state == "refused"
        assert (await rig.channel.withdraw("mine", author=STRANGER)).state == "refused"
        assert not (await rig.channel.answer(asked, "allow", author=STRANGER)).accepted
        with pytest.raises(PilothouseError):
            await rig.gateway.desk.query("turns", STRANGER)
        assert await everything(rig) == before
        await rig.channel.answer(asked, "allow")
        await rig.until_said("allowed")


async def test_where_nobody_is_listed_nobody_is_let_in(tmp_path: Path) -> None:
    from pilothouse.core.people import People

    async with open_rig(tmp_path, people=People()) as rig:
        assert (await rig.channel.say("hello")).state == "refused"
        assert (await rig.channel.say("/help")).state == "refused"
        assert await rig.turns() == []


async def test_only_its_sender_may_change_or_withdraw_a_message(tmp_path: Path) -> None:
    from tests.runtime.rig import MEMBER

    async with open_rig(tmp_path, PuppetEngine(until_interrupted)) as rig:
        await rig.channel.say("one")
        await rig.until_live()
        await rig.channel.say("two", native_id="two")
        assert (await rig.channel.change("two", "three", author=MEMBER)).state == "refused"
        assert (await rig.channel.withdraw("two", author=MEMBER)).state == "refused"
        (row,) = await rig.store.read(lambda tx: tx.inbox.waiting(MAIN))
        assert b'"text":"two"' in bytes(row.body)
