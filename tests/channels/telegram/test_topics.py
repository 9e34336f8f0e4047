"""Topics: `/topic` opens one, which works as its group works; and what is done in one counts there, named or not."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from tests.channels.telegram.gateway_house import config_for, open_gateway, role_id
from tests.channels.telegram.server.running import Server
from tests.runtime.puppet import Strings, echo, until_interrupted

from pilothouse.channels.telegram.content import TELEGRAM
from pilothouse.core.channel import CanOpenThread
from pilothouse.core.errors import NoThreads
from pilothouse.core.ids import ConversationId
from pilothouse.core.message import Address
from pilothouse.core.people import Grant
from pilothouse.core.queue import notes_waitlist

pytestmark = pytest.mark.anyio


async def test_a_topic_is_opened_and_bound_like_its_group(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    group = ada.make_group("Work", forum=True)
    ada.promote_bot(group)
    (tmp_path / "api").mkdir()
    folders = {"api": str(tmp_path / "api")}
    async with open_gateway(server, tmp_path, {ada: "owner"}, workspaces=folders) as house:
        assert isinstance(house.channel, CanOpenThread)
        ada.say("/bind api", chat=group)
        await house.until_shown(group.id, "in a new session")
        ada.say("/topic The new shop", chat=group)
        await house.until_shown(group.id, "Opened: The new shop")
        topic = next(iter(group.topics.values()))
        assert topic.name == "The new shop"
        await house.until_shown(group.id, "a separate conversation", topic.thread_id)
        ada.say("@pilot_test_bot hello", chat=group, topic=topic)
        await house.until_shown(group.id, "hello", topic.thread_id)
        assert [Path(brief.workspace).name for brief in house.rig.engine.briefs] == ["api"]


async def test_where_no_topic_can_be_opened_people_are_told_what_helps(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("Ada")
    plain, forum = ada.make_group("Plain"), ada.make_group("Forum", forum=True)
    async with open_gateway(server, tmp_path, {ada: "owner"}) as house:
        ada.say("/topic plan", chat=plain)
        await house.until_shown(plain.id, "has no topics")
        ada.say("/topic plan", chat=forum)
        await house.until_shown(forum.id, "Make me an administrator")
        ada.say("/topic plan")
        await house.until_shown(ada.id, "has no topics")
        for place in (ada.id, plain.id):
            with pytest.raises(NoThreads):
                await house.channel.open_thread(Address(TELEGRAM, str(place)), "plan")


async def test_a_stop_that_names_no_topic_stops_its_own_turn_by_who_may_there(
    server: Server, tmp_path: Path
) -> None:
    """Of an old message Telegram does not tell the topic. Bob may do something in the topic's folder alone, Eve nowhere."""
    ada, bob, eve = (server.person(name) for name in ("Ada", "Bob", "Eve"))
    group = ada.make_group("Work", bob, eve, forum=True)
    (tmp_path / "api").mkdir()
    folders = {"api": str(tmp_path / "api")}
    async with open_gateway(server, tmp_path, {ada: "owner"}, until_interrupted, workspaces=folders) as house:
        grant = Grant(role_id(bob), "member", folders["api"])
        await house.rig.store.write(lambda tx: tx.people.grant(grant))
        topic = ada.make_topic(group, "Shop")
        ada.say("/bind api", chat=group, topic=topic)
        await house.until_shown(group.id, "in a new session", topic.thread_id)
        ada.say("@pilot_test_bot build it", chat=group, topic=topic)
        in_topic = partial(server.world.shown, group.id, topic.thread_id)
        progress = await house.until(lambda: next((p for p in in_topic() if "Stop" in p.buttons), None))
        refused = eve.press(progress, "Stop", inaccessible=True)
        assert await house.until_toast(refused) == "You may not stop this."
        assert await house.until_toast(bob.press(progress, "Stop", inaccessible=True)) == "Stopping."
        await house.rig.until_ended(1, ConversationId(f"telegram:{group.id}#{topic.thread_id}"))


async def test_a_draft_that_is_stopped_without_its_topic_stops_its_own_turn(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("Ada")
    async with open_gateway(server, tmp_path, {ada: "owner"}, until_interrupted) as house:
        topic = ada.make_topic(ada.chat, "Shop")
        ada.say("build the shop", topic=topic)
        draft = (await house.until(lambda: server.world.drafts))[-1]
        ada.say("build the house")
        await house.until(lambda: server.world.drafts[-1].thread_id is None)
        ada.stop_draft(draft, names_topic=False)
        await house.rig.until_ended(1, ConversationId(f"telegram:{ada.id}#{topic.thread_id}"))
        assert await house.rig.until_live(ConversationId(f"telegram:{ada.id}"))


@pytest.mark.parametrize("whose", ["ours", "theirs"])
async def test_a_reaction_in_a_topic_is_a_note_for_that_topic(
    server: Server, tmp_path: Path, whose: str
) -> None:
    """Telegram does not tell the topic of a reaction: it is known from the message."""
    ada = server.person("Ada")
    async with open_gateway(server, tmp_path, {ada: "owner"}, echo) as house:
        topic = ada.make_topic(ada.chat, "Shop")
        said = ada.say("paint it", topic=topic)
        answer = await house.until_shown(ada.id, "you said: paint it", topic.thread_id)
        await house.rig.until_idle()  # what we sent is known by its number
        ada.react(answer if whose == "ours" else said, "👍")
        in_topic = ConversationId(f"telegram:{ada.id}#{topic.thread_id}")
        await house.rig.until(lambda tx: tx.inbox.waiting(notes_waitlist(in_topic)))
        ada.say("build the house")
        await house.until_shown(ada.id, "you said: build the house")
        ada.say("and now", topic=topic)
        await house.until_shown(ada.id, "Ada reacted with 👍", topic.thread_id)
        assert [turn.prompt.text for turn in house.rig.engine.turns][1] == "build the house"


async def test_a_reaction_to_our_message_starts_a_turn_where_it_is_switched_on(
    server: Server, tmp_path: Path
) -> None:
    async def paint(strings: Strings) -> None:
        await strings.start()
        await strings.end("It is painted.")

    ada, eve = server.person("Ada"), server.person("Eve")
    group, config = ada.make_group("Work"), config_for(server, reactions=True)
    ada.promote_bot(group)
    async with open_gateway(server, tmp_path, {ada: "owner"}, paint, echo, config=config) as house:
        said = ada.say("@pilot_test_bot paint it", chat=group)
        answer = await house.until_shown(group.id, "It is painted.")
        await house.rig.until_idle()  # what we sent is known by its number
        eve.react(answer, "👍")  # a stranger's
        ada.react(said, "👍")  # not about a message of ours
        ada.react(answer, "👎")
        here = ConversationId(f"telegram:{group.id}")
        (_, turn) = await house.rig.until_ended(2, here)
        ada.react(answer)
        ada.react(answer, "👎")  # again: it counts once
        ada.say("@pilot_test_bot now build it", chat=group)
        await house.until_shown(group.id, "now build it")
        await house.rig.until_idle()
        causes = [turn.cause for turn in await house.rig.turns(here)]
    assert turn.cause == "reaction"
    assert "Ada reacted with 👎 to your message, which is quoted above." in turn.prompt.text
    assert "<quoted>It is painted.</quoted>" in turn.prompt.text
    assert causes == ["message", "reaction", "message"]


async def test_a_reaction_that_is_taken_back_while_it_waits_starts_nothing(
    server: Server, tmp_path: Path
) -> None:
    ada, config = server.person("Ada"), config_for(server, reactions=True)
    here = ConversationId(f"telegram:{ada.id}")
    async with open_gateway(
        server, tmp_path, {ada: "owner"}, echo, until_interrupted, config=config
    ) as house:
        ada.say("first")
        answer = await house.until_shown(ada.id, "you said: first")
        await house.rig.until_idle()
        ada.say("second")
        await house.rig.until_live(here, "running")
        ada.react(answer, "👍")
        await house.rig.until(lambda tx: len(tx.inbox.waiting(here)) == 1)
        ada.react(answer)
        await house.rig.until(lambda tx: not tx.inbox.waiting(here))
