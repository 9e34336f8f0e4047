"""Text of attached files: an edit of the words keeps it; a command and a reaction may have files."""

from __future__ import annotations

from pathlib import Path

import anyio
import msgspec
import pytest
from tests.channels.discord.gateway_house import GatewayHouse, config_for, open_gateway
from tests.channels.discord.server.cdn import File
from tests.channels.discord.server.running import Server
from tests.channels.discord.test_gateway import PNG, place
from tests.runtime.puppet import Strings, echo

from pilothouse.channels.discord.config import Rules
from pilothouse.core.ids import ConversationId
from pilothouse.core.message import InboundMessage

pytestmark = pytest.mark.anyio

NOTES = File("notes.txt", b"use oak\n")


async def until_queued(house: GatewayHouse, where: ConversationId, *texts: str) -> None:
    with anyio.fail_after(60):
        while True:
            rows = await house.rig.store.read(lambda tx: tx.inbox.waiting(where))
            if [msgspec.json.decode(row.body, type=InboundMessage).text for row in rows] == list(texts):
                return
            await anyio.sleep(0.01)


EMPTY = File("empty.png", b"")
TOLD = "notes.txt:\n```txt\nuse oak\n```\n\n[empty.png was not taken: it is empty.]"


async def test_an_edit_of_the_words_leaves_what_the_files_say(server: Server, tmp_path: Path) -> None:
    ada, go_on = server.person("ada"), anyio.Event()

    async def busy(strings: Strings) -> None:
        await strings.start()
        await go_on.wait()
        await strings.end("Done.")

    async with open_gateway(server, tmp_path, {ada: "owner"}, busy, echo, busy="queue") as house:
        ada.say("work", channel=ada.dm)
        await house.until(lambda: house.rig.engine.turns)
        post = ada.say("build a chair", channel=ada.dm, files=[NOTES, EMPTY])
        await until_queued(house, place(ada.dm), "build a chair")
        ada.edit(post, "build a table")
        await until_queued(house, place(ada.dm), "build a table")
        go_on.set()
        await house.until(lambda: len(house.rig.engine.turns) == 2)
        assert house.rig.engine.turns[1].prompt.text == f"build a table\n\n{TOLD}"
        await house.rig.until_ended(2, place(ada.dm))


async def test_a_command_is_one_although_a_file_came_with_it(server: Server, tmp_path: Path) -> None:
    ada = server.person("ada")
    async with open_gateway(server, tmp_path, {ada: "owner"}) as house:
        ada.say("/model", channel=ada.dm, files=[NOTES])
        ada.say("hello", channel=ada.dm)
        await house.until_shown(ada.dm, "you said: hello")
        assert [turn.prompt.text for turn in house.rig.engine.turns] == ["hello"]
        chosen = await house.rig.store.read(lambda tx: tx.conversations.get(place(ada.dm)))
        assert chosen is not None and chosen.model is None


async def test_a_reaction_brings_the_files_of_what_it_is_about(server: Server, tmp_path: Path) -> None:
    ada, bob, loud = server.person("ada"), server.person("bob"), server.world.make_channel("loud")
    config = config_for(server, per_channel={str(loud.id): Rules(reactions=True)})
    async with open_gateway(server, tmp_path, {ada: "owner"}, config=config) as house:
        ada.react(bob.say("a bug", channel=loud, files=[File("plot.png", PNG), NOTES]), "👀")
        await house.until(lambda: house.rig.engine.turns)
        prompt = house.rig.engine.turns[0].prompt
        assert "which is quoted above.\n\nnotes.txt:\n```txt\nuse oak\n```\n<file name=" in prompt.text
        assert [file.name for file in prompt.attachments] == ["plot.png"]
        await house.rig.until_ended(1, place(loud))
