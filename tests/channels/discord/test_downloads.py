"""A download that hangs delays its sender's message only, and a stop waits for no download."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.channels.channel_rig import MENU
from tests.channels.discord.gateway_house import config_for, open_gateway
from tests.channels.discord.line import open_line
from tests.channels.discord.server.cdn import File
from tests.channels.discord.server.faults import COMMANDS
from tests.channels.discord.server.running import Server
from tests.channels.plays import slow
from tests.channels.telegram.receiving_house import KeptBlobs
from tests.runtime.puppet import echo

from pilothouse.channels.discord.attachments import (
    FILE_BYTES,
    OF_ONE_PERSON,
    ROOM_BYTES,
    TOTAL_BYTES,
    Downloads,
    Offered,
)
from pilothouse.channels.discord.config import Rules
from pilothouse.core.ids import ConversationId, UserId
from pilothouse.http.allowlist import Unfetched

pytestmark = pytest.mark.anyio

PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + bytes(60)


def hanging(count: int = 10) -> list[File]:
    return [File(f"{number}.png", PNG, slow=True) for number in range(count)]


class Host:
    """Hangs, until it is told to go on."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.go_on = anyio.Event()

    async def fetch(self, url: str, limit: int) -> bytes | Unfetched:
        self.asked.append(url)
        await self.go_on.wait()
        return b"text"


def files_of(name: str, *sizes: int) -> list[Offered]:
    return [Offered("a.bin", f"https://cdn.discordapp.com/{name}/{n}", size) for n, size in enumerate(sizes)]


async def test_files_that_hang_hold_up_whoever_sent_them_and_nobody_else() -> None:
    host = Host()
    downloads = Downloads(KeptBlobs(), host.fetch)
    async with anyio.create_task_group() as tasks:
        for number in range(OF_ONE_PERSON + 1):
            tasks.start_soon(downloads.take, UserId("discord:1"), files_of(f"ada-{number}", 5))
        for number in range(30):
            tasks.start_soon(downloads.take, UserId(f"discord:{number + 2}"), files_of("others", 5))
        await anyio.wait_all_tasks_blocked()
        assert sum("ada" in url for url in host.asked) == OF_ONE_PERSON
        assert sum("others" in url for url in host.asked) == 30
        host.go_on.set()
    assert sum("ada" in url for url in host.asked) == OF_ONE_PERSON + 1


async def test_no_more_is_fetched_at_a_time_than_may_be_in_memory() -> None:
    host = Host()
    downloads = Downloads(KeptBlobs(), host.fetch)
    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(
                downloads.take, UserId(f"discord:{number}"), files_of("large", FILE_BYTES, FILE_BYTES)
            )
        await anyio.wait_all_tasks_blocked()
        assert ROOM_BYTES - TOTAL_BYTES < len(host.asked) * FILE_BYTES <= ROOM_BYTES
        host.go_on.set()
    assert len(host.asked) == 40


async def test_whoever_is_cancelled_while_fetching_leaves_room() -> None:
    host = Host()
    downloads = Downloads(KeptBlobs(), host.fetch)
    large = files_of("large", FILE_BYTES, FILE_BYTES)
    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(downloads.take, UserId(f"discord:{number}"), large)
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    host.go_on.set()
    with anyio.fail_after(60):
        assert (await downloads.take(UserId("discord:1"), large)).attachments


async def test_a_stop_that_is_typed_overtakes_the_files_before_it(server: Server, tmp_path: Path) -> None:
    ada, files = server.person("ada"), hanging()
    async with open_line(server, tmp_path) as line:
        ada.say("look", files=files)
        await line.until(files[0].asked.is_set)
        ada.say("behind it")
        ada.say(f"<@{server.world.bot_id}> /stop")
        await line.until(lambda: line.texts)
        for file in files:
            file.release()
        await line.until(lambda: len(line.texts) == 3)
    assert line.texts == ["/stop", "look", "behind it"]


async def test_a_stop_takes_back_a_message_whose_files_are_still_fetched(
    server: Server, tmp_path: Path
) -> None:
    ada, files = server.person("ada"), hanging()
    async with open_gateway(server, tmp_path, {ada: "owner"}) as house:
        ada.say("look at this", channel=ada.dm, files=files)
        await house.until(files[0].asked.is_set)
        ada.say("/stop", channel=ada.dm)
        await house.until_shown(ada.dm, "Stopped before it began, while its file was downloading.")
        ada.say("something else", channel=ada.dm)
        await house.until_shown(ada.dm, "you said: something else")
        for file in files:
            file.release()
        assert [turn.prompt.text for turn in house.rig.engine.turns] == ["something else"]


@pytest.mark.parametrize("typed", [True, False])
async def test_a_stop_takes_back_what_was_said_behind_files_and_not_what_is_said_after(
    server: Server, tmp_path: Path, typed: bool
) -> None:
    ada, files, general = server.person("ada"), hanging(), server.world.general
    us = f"<@{server.world.bot_id}>"
    async with open_gateway(server, tmp_path, {ada: "owner"}, menu=MENU) as house:
        await house.until(lambda: server.called(COMMANDS))
        ada.say(f"{us} look at this", files=files)
        await house.until(files[0].asked.is_set)
        ada.say(f"{us} be quick")
        server.world.pass_time(1.0)
        if typed:
            ada.say(f"{us} /stop")
        else:
            ada.command("stop")
        ada.say(f"{us} something else")
        await house.until_shown(general, "Not run: it was sent before the last /stop.")
        await house.until_shown(general, "you said: ")
        for file in files:
            file.release()
        (turn,) = house.rig.engine.turns
        assert "something else" in turn.prompt.text


async def test_a_stop_of_what_runs_names_a_message_whose_files_are_still_fetched(
    server: Server, tmp_path: Path
) -> None:
    ada, files = server.person("ada"), hanging()
    async with open_gateway(server, tmp_path, {ada: "owner"}, slow, echo) as house:
        ada.say("build it", channel=ada.dm)
        await house.until(lambda: house.rig.engine.turns)
        ada.say("and this", channel=ada.dm, files=files)
        await house.until(files[0].asked.is_set)
        ada.say("/stop", channel=ada.dm)
        await house.until_shown(
            ada.dm, "Stopping. A message whose file is still downloading runs when it is complete."
        )
        for file in files:
            file.release()
        await house.until_shown(ada.dm, "you said: and this")


async def test_a_stop_by_reaction_overtakes_a_reaction_to_files(server: Server, tmp_path: Path) -> None:
    ada, general, files = server.person("ada"), server.world.general, hanging()
    config = config_for(server, per_channel={str(general.id): Rules(mode="mention", reactions=True)})
    async with open_gateway(server, tmp_path, {ada: "owner"}, slow, config=config) as house:
        pictures = ada.say("pictures", files=files)
        ada.say(f"<@{server.world.bot_id}> build it")
        progress = await house.until(
            lambda: next((post for post in server.world.shown(general) if "Stop" in post.buttons), None)
        )
        ada.react(pictures, "👀")
        await house.until(lambda: any(file.asked.is_set() for file in files))
        ada.react(progress, "🛑")
        await house.rig.until_ended(1, ConversationId(f"discord:{general.id}"))
        assert len(house.rig.engine.turns) == 1
        for file in files:
            file.release()
