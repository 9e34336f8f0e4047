"""What the files of a message say: it is fetched once, and stays below the words, however those are edited."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.channels.discord.gateway_house import config_for, open_gateway
from tests.channels.discord.server.cdn import File
from tests.channels.discord.server.running import Server
from tests.channels.discord.test_gateway import PNG, place
from tests.channels.discord.test_making_up import until_queued
from tests.runtime.puppet import Strings, echo

from pilothouse.channels.discord.config import Rules

pytestmark = pytest.mark.anyio

NOTES = File("notes.txt", b"use oak\n")
EMPTY = File("empty.png", b"")
TOLD = "notes.txt:\n```txt\nuse oak\n```\n\n[empty.png was not taken: it is empty.]"


@pytest.mark.parametrize("away", [False, True], ids=["told at once", "made up for"])
async def test_an_edit_of_the_words_leaves_what_the_files_say(
    server: Server, tmp_path: Path, away: bool
) -> None:
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
        if away:
            server.gateway.forget()
        ada.edit(post, "build a table")
        if away:
            server.gateway.drop()
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
