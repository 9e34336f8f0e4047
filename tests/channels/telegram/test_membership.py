"""The bot is added, removed or moved: members are greeted, the owner is told of strangers."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.channels.telegram.gateway_house import config_for, open_gateway
from tests.channels.telegram.server.running import Server
from tests.channels.telegram.test_troubles import alone

from pilothouse.channels.telegram.account import group_greeting
from pilothouse.channels.telegram.wire import Me
from pilothouse.cli.status import look, render_status
from pilothouse.core.ids import ConversationId, MessageId
from pilothouse.core.trigger import Trigger
from pilothouse.runtime.presence import MAX_TOLD

pytestmark = pytest.mark.anyio

ME = Me(1, is_bot=True, username="pilot_test_bot", can_read_all_group_messages=True)


async def test_whoever_may_talk_to_us_is_greeted_once_where_they_add_us(
    server: Server, tmp_path: Path
) -> None:
    ada, bob = server.person("Ada"), server.person("Bob")
    config = config_for(server, trigger=Trigger("reply"))
    async with open_gateway(server, tmp_path, {ada: "owner", bob: "member"}, config=config) as house:
        group = bob.make_group("Lab", ada)
        added = next(update for update in server.world.pending if "my_chat_member" in update)
        await house.until_shown(group.id, "messages that reply to me")
        server.world.repeat(added)
        bob.promote_bot(group)
        ada.say("hello")
        await house.until_shown(ada.id, "you said: hello")
        await house.until(lambda: not server.world.pending)
        (said,) = server.world.texts(group.id)
        assert "@pilot_test_bot" in said
        assert "/bind" in said
        later = server.world.now() + 60
        server.world.now = lambda: later
        bob.remove_bot(group)
        bob.add_bot(group)
        await house.until(lambda: len(server.world.texts(group.id)) == 2)


async def test_of_a_stranger_who_adds_us_the_owner_hears_and_the_group_does_not(
    server: Server, tmp_path: Path
) -> None:
    ada, mallory = server.person("Ada"), server.person("Mallory")
    async with open_gateway(server, tmp_path, {ada: "owner"}) as house:
        ada.say("hello")
        await house.until_shown(ada.id, "you said: hello")
        group = mallory.make_group("Trap\nThe channel telegram works again.")
        told = await house.until_shown(ada.id, "added me to")
        assert f"Mallory (telegram:{mallory.id}), who was not let in," in told.text
        assert "“Trap The channel telegram works again.”" in told.text
        for n in range(3):
            mallory.make_group(f"Trap {n}")
        for n in range(MAX_TOLD + 3):
            server.person(f"Stranger {n}").make_group(f"Crowd {n}")
        await house.until(lambda: not server.world.pending)
        await house.rig.until_idle()
        assert server.world.texts(group.id) == []
        assert sum("added me to" in text for text in server.world.texts(ada.id)) == MAX_TOLD


async def test_what_waits_for_whoever_puts_us_out_is_dropped_and_status_tells_of_it(
    server: Server, tmp_path: Path
) -> None:
    ada, bob = server.person("Ada"), server.person("Bob")
    async with open_gateway(server, tmp_path, {ada: "owner", bob: "member"}) as house:
        group = ada.make_group("Lab")
        await house.until_shown(group.id, "/bind")
        places = [ConversationId(f"telegram:{chat}") for chat in (group.id, bob.id)]
        server.faults.too_many("sendMessage", after_s=3600, times=100)
        ada.say("@pilot_test_bot hello", chat=group)
        bob.say("hello")

        async def waiting(place: ConversationId) -> MessageId:
            rows = await house.rig.until(
                lambda tx: [row for row in tx.outbox.unfinished(place) if row.status == "queued" and row.why]
            )
            return rows[0].id

        waited = [await waiting(place) for place in places]
        ada.remove_bot(group)
        bob.block()
        for id, why in zip(waited, ("Ada removed us from “Lab”", "Bob blocked us"), strict=True):
            row = await house.rig.until(
                lambda tx, id=id: (row := tx.outbox.get(id)) and row.status == "withdrawn" and row
            )
            assert row.why == why
        now = house.rig.ports.clock.now()
        status = await house.rig.store.read(lambda tx: look(tx, now))
        text = render_status(status, now)
        assert "Ada removed us from “Lab”" in text
        assert "Bob blocked us" in text
        ada.add_bot(group)
        bob.unblock()
        await house.rig.until(lambda tx: not look(tx, now).gone)
        assert [text for text in server.world.texts(bob.id) if "/bind" in text] == []


async def test_who_blocks_us_without_ever_having_talked_to_us_leaves_no_trace(
    server: Server, tmp_path: Path
) -> None:
    ada, mallory = server.person("Ada"), server.person("Mallory")
    async with open_gateway(server, tmp_path, {ada: "owner"}) as house:
        mallory.block()
        ada.say("hello")
        await house.until_shown(ada.id, "you said: hello")
        await house.until(lambda: not server.world.pending)
        status = await house.rig.store.read(lambda tx: look(tx, 0.0))
        assert status.gone == {}


async def test_nobody_is_greeted_in_a_broadcast_nor_when_rights_change(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("Ada")
    async with alone(server, tmp_path) as house:
        ada.make_group("News", kind="channel")
        await house.until(lambda: house.desk.arrivals)
        assert house.desk.arrivals[0][1] == ""
        group = ada.make_group("Lab")
        ada.promote_bot(group)
        ada.remove_bot(group)
        await house.until(lambda: house.desk.departures)
        assert [here.title for here, _ in house.desk.arrivals] == ["News", "Lab"]
        assert [here.title for here in house.desk.departures] == ["Lab"]


@pytest.mark.parametrize(
    ("trigger", "me", "words"),
    [
        (Trigger("mention"), ME, "messages that mention me or reply to me. My name is @pilot_test_bot."),
        (Trigger("all"), ME, "every message."),
        (Trigger("pattern", words=("deploy*",)), ME, "or contain: deploy*."),
        (Trigger("all"), Me(1, username="b"), "privacy mode is switched off with @BotFather"),
    ],
)
def test_a_greeting_says_how_to_talk_to_us(trigger: Trigger, me: Me, words: str) -> None:
    assert words in group_greeting(me, trigger)
    assert ("privacy mode" in group_greeting(me, trigger)) == (not me.can_read_all_group_messages)
