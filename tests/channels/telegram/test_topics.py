"""`/topic`: opens a topic of the group, which works as the group works; or says what is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.channels.telegram.gateway_house import open_gateway
from tests.channels.telegram.server.running import Server

from pilothouse.core.channel import CanOpenThread

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
        await house.until_shown(group.id, "a conversation of its own", topic.thread_id)
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
