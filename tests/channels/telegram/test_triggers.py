"""`/trigger` in a group: what is heard from then on, also in its topics and after a restart."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.channels.telegram.gateway_house import GatewayHouse, config_for, open_gateway
from tests.channels.telegram.server.people import Person
from tests.channels.telegram.server.running import Server
from tests.channels.telegram.server.world import Chat

from pilothouse.core.trigger import Trigger

pytestmark = pytest.mark.anyio


def turns_about(house: GatewayHouse, text: str) -> int:
    return sum(text in turn.prompt.text for turn in house.rig.engine.turns)


async def heard(house: GatewayHouse, ada: Person, group: Chat, text: str) -> bool:
    """Whether a plain word in the group starts a turn; one that surely does is said behind it."""
    before = turns_about(house, "and now?")
    ada.say(text, chat=group)
    ada.say("@pilot_test_bot and now?", chat=group)
    await house.until(lambda: turns_about(house, "and now?") > before)
    return turns_about(house, text) > 0


async def test_a_group_chooses_and_the_choice_lasts(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    group = ada.make_group("Work")
    async with open_gateway(server, tmp_path, {ada: "owner"}, busy="queue") as house:
        assert not await heard(house, ada, group, "apple")
        ada.say("/trigger pattern deploy*", chat=group)
        await house.until_shown(group.id, "From now on I react here")
        assert not await heard(house, ada, group, "pear")
        assert await heard(house, ada, group, "deployment")
    async with open_gateway(server, tmp_path, {ada: "owner"}, busy="queue", name="second") as house:
        assert await heard(house, ada, group, "deploying")
        ada.say("/trigger default", chat=group)
        await house.until_shown(group.id, "the configured default")
        assert not await heard(house, ada, group, "deployed")


async def test_what_is_chosen_in_a_group_wins_over_what_is_configured(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    group = ada.make_group("Work")
    config = config_for(server, chats={str(group.id): Trigger("all")})
    async with open_gateway(server, tmp_path, {ada: "owner"}, config=config, busy="queue") as house:
        assert await heard(house, ada, group, "apple")
        ada.say("/trigger mention", chat=group)
        await house.until_shown(group.id, "From now on I react here")
        assert not await heard(house, ada, group, "pear")


async def test_a_topic_hears_what_its_group_hears(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    group = ada.make_group("Work", forum=True)
    async with open_gateway(server, tmp_path, {ada: "owner"}) as house:
        ada.say("/trigger all", chat=group)
        await house.until_shown(group.id, "every message")
        topic = ada.make_topic(group, "one")
        ada.say("first", chat=group, topic=topic)
        await house.until_shown(group.id, "first", topic.thread_id)
