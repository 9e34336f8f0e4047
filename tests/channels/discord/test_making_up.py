"""Edits and deletions while we were away reach what still waits; what somebody did meanwhile wins."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import anyio
import msgspec
import pytest
from tests.channels.discord.gateway_house import GatewayHouse, open_gateway
from tests.channels.discord.line import address_of, open_line
from tests.channels.discord.server.people import Person
from tests.channels.discord.server.running import Server
from tests.channels.discord.server.world import Post
from tests.channels.discord.test_gateway import place
from tests.runtime.puppet import Strings, echo

from pilothouse.channels.discord.addressing import DISCORD
from pilothouse.channels.discord.calls import Calls
from pilothouse.channels.discord.making_up import MakingUp
from pilothouse.channels.discord.marks import Marks
from pilothouse.channels.discord.places import Places
from pilothouse.channels.discord.wire import Channel, Event
from pilothouse.core.ids import ConversationId, MessageId
from pilothouse.core.message import Address, InboundMessage, MessageRef
from pilothouse.testing.desk import ScriptedDesk

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


async def test_what_was_not_changed_is_left_alone_and_what_cannot_be_read_too(
    server: Server, tmp_path: Path
) -> None:
    """They are looked at one after the other: when the last one's change is known, the first one was looked at."""
    ada = server.person("ada")
    async with open_line(server, tmp_path) as line:
        posts = [ada.say("hello"), ada.say("last")]
        await line.until(lambda: len(line.texts) == 2)
        line.desk.wait = refs(server, *posts)
        server.faults.missing_permission(ONE)
        for times in (1, 2):
            away(server, ada, posts[1], f"last {times}")
            await line.until(lambda times=times: len(line.desk.edits) == times)
        assert [edit.text for edit in line.desk.edits] == ["last 1", "last 2"]
        assert line.desk.deletions == []


async def test_whoever_changes_it_while_we_look_is_not_overruled(server: Server, tmp_path: Path) -> None:
    ada = server.person("ada")
    async with open_line(server, tmp_path) as line:
        posts = [ada.say("one"), ada.say("last")]
        await line.until(lambda: len(line.texts) == 2)
        line.desk.wait = refs(server, *posts)
        held = server.faults.hold(ONE)
        server.gateway.forget()
        ada.edit(posts[1], "last 2")
        away(server, ada, posts[0], "two")
        with anyio.fail_after(30):
            await held.arrived.wait()
        ada.edit(posts[0], "three")
        await line.until(lambda: line.desk.edits)
        held.release()
        await line.until(lambda: len(line.desk.edits) == 2)
        assert [edit.text for edit in line.desk.edits] == ["three", "last 2"]


async def test_what_was_changed_is_found_though_the_line_broke_again_at_once(
    server: Server, tmp_path: Path
) -> None:
    ada = server.person("ada")
    async with open_line(server, tmp_path) as line:
        post = ada.say("one")
        await line.until(lambda: line.texts)
        line.desk.wait = refs(server, post)
        held = server.faults.hold(ONE)
        away(server, ada, post, "two")
        with anyio.fail_after(30):
            await held.arrived.wait()
        server.gateway.invalidate()
        held.release()
        await line.until(lambda: line.desk.edits)
        assert line.desk.edits[0].text == "two"


async def test_what_is_changed_between_two_sessions_while_we_look_is_found(tmp_path: Path) -> None:
    """The first look was answered before the edit, and hears that answer after the second one began."""
    fed, logged, desk = list[Event](), list[str](), ScriptedDesk()
    desk.wait = [MessageRef(Address(DISCORD, "7"), "70")]
    places = Places()
    places.put(Channel("7"), "5")
    answers = {"two": anyio.Event(), "one": anyio.Event()}
    asked = {text: anyio.Event() for text in answers}

    class AnswerService:
        def __init__(self, text: str, edited_at: str | None) -> None:
            self.text = text
            self.edited_at = edited_at

        async def get(self, path: str, **ids: object) -> object:
            asked[self.text].set()
            await answers[self.text].wait()
            return {"id": "70", "content": self.text, "edited_timestamp": self.edited_at}

    def log(event: str, **fields: object) -> None:
        logged.append(event)

    looking = MakingUp(desk, places, Marks(tmp_path / "marks.json", log), log, fed.extend)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for text, edited_at in (("one", None), ("two", "2026-01-01T00:00:00+00:00")):
                tasks.start_soon(looking.look, "5", cast("Calls", AnswerService(text, edited_at)))
                await asked[text].wait()
            answers["one"].set()
            await anyio.wait_all_tasks_blocked()
            answers["two"].set()
    assert [(event.name, event.data["content"]) for event in fed] == [("MESSAGE_UPDATE", "two")]
    assert logged == []


async def test_what_cannot_be_read_of_the_store_costs_no_connection(server: Server, tmp_path: Path) -> None:
    ada, go_on = server.person("ada"), anyio.Event()

    async def busy(strings: Strings) -> None:
        await strings.start()
        await go_on.wait()
        await strings.end("Done.")

    async with open_gateway(server, tmp_path, {ada: "owner"}, busy, echo, busy="queue") as house:
        ada.say("work", channel=ada.dm)
        await house.until(lambda: house.rig.engine.turns)
        ada.say("paint it red", channel=ada.dm)
        await until_queued(house, place(ada.dm), "paint it red")
        await house.rig.store.write(
            lambda tx: tx.inbox.put(
                id=MessageId("broken"),
                key="broken",
                lane=place(ada.dm),
                conversation_id=place(ada.dm),
                kind="chat",
                body=b'{"text": 1}',
                at=1.0,
            )
        )
        assert len(await house.rig.gateway.desk.waiting(DISCORD)) == 1


def refs(server: Server, *posts: Post) -> list[MessageRef]:
    return [MessageRef(address_of(server.world.general), str(post.id)) for post in posts]


def away(server: Server, person: Person, post: Post, text: str) -> None:
    """Somebody edits while we are away; then a session begins anew."""
    server.gateway.forget()
    person.edit(post, text)
    server.gateway.drop()
