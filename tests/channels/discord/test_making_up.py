"""Edits and deletions while we were away reach what still waits; what somebody did meanwhile wins."""

from __future__ import annotations

from pathlib import Path

import anyio
import msgspec
import pytest
from tests.channels.discord.gateway_house import GatewayHouse, open_gateway
from tests.channels.discord.line import Line, address_of, open_line
from tests.channels.discord.server.running import Server
from tests.channels.discord.server.world import Post
from tests.channels.discord.test_gateway import place
from tests.runtime.puppet import Strings, echo

from pilothouse.core.ids import ConversationId
from pilothouse.core.message import InboundMessage, MessageRef

pytestmark = pytest.mark.anyio

ONE = "GET /channels/*/messages/*"


async def queued(house: GatewayHouse, where: ConversationId) -> list[str]:
    rows = await house.rig.store.read(lambda tx: tx.inbox.waiting(where))
    return [msgspec.json.decode(row.body, type=InboundMessage).text for row in rows]


async def until_queued(house: GatewayHouse, where: ConversationId, *texts: str) -> None:
    with anyio.fail_after(30):
        while await queued(house, where) != list(texts):
            await anyio.sleep(0.01)


@pytest.mark.parametrize("private", [True, False])
async def test_what_was_changed_while_the_line_was_down_is_changed_in_the_queue(
    server: Server, tmp_path: Path, private: bool
) -> None:
    ada, go_on = server.person("ada"), anyio.Event()
    channel = ada.dm if private else server.world.general
    us = "" if private else f"<@{server.world.bot_id}> "

    async def busy(strings: Strings) -> None:
        await strings.start()
        await go_on.wait()
        await strings.end("Done.")

    async with open_gateway(server, tmp_path, {ada: "owner"}, busy, echo, busy="queue") as house:
        ada.say(f"{us}work", channel=channel)
        await house.until(lambda: house.rig.engine.turns)
        red, gone, _ = (
            ada.say(f"{us}{text}", channel=channel) for text in ("paint it red", "and forget it", "and this")
        )
        await until_queued(house, place(channel), "paint it red", "and forget it", "and this")
        server.gateway.forget()
        ada.edit(red, f"{us}paint it blue")
        ada.delete(gone)
        server.gateway.drop()
        await until_queued(house, place(channel), "paint it blue", "and this")
        go_on.set()
        await house.until_shown(channel, "paint it blue")


async def settled(server: Server, line: Line, post: Post) -> None:
    """A session began anew, and the message was looked at."""
    line.desk.wait = [MessageRef(address_of(server.world.general), str(post.id))]
    before = len(server.called(ONE))
    server.gateway.invalidate()
    await line.until(lambda: len(server.called(ONE)) > before)


async def test_what_was_not_changed_is_left_alone_and_what_cannot_be_read_too(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("ada")
    async with open_line(server, tmp_path) as line:
        post = ada.say("hello")
        await line.until(lambda: line.texts)
        server.faults.missing_permission(ONE)
        await settled(server, line, post)
        await settled(server, line, post)
        ada.say("next")
        await line.until(lambda: len(line.texts) == 2)
        assert (line.desk.edits, line.desk.deletions) == ([], [])


async def test_whoever_changes_it_while_we_look_is_not_overruled(server: Server, tmp_path: Path) -> None:
    ada = server.person("ada")
    async with open_line(server, tmp_path) as line:
        post = ada.say("one")
        await line.until(lambda: line.texts)
        line.desk.wait = [MessageRef(address_of(server.world.general), str(post.id))]
        held = server.faults.hold(ONE)
        server.gateway.forget()
        ada.edit(post, "two")
        server.gateway.drop()
        with anyio.fail_after(30):
            await held.arrived.wait()
        ada.edit(post, "three")
        await line.until(lambda: line.desk.edits)
        held.release()
        ada.say("next")
        await line.until(lambda: len(line.texts) == 2)
        assert [edit.text for edit in line.desk.edits] == ["three"]
