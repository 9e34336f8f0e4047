"""An event that raises is kept in a file, stops no other event, and its author is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.channels.discord.gateway_house import config_for
from tests.channels.discord.line import Line, open_line
from tests.channels.discord.server.running import Server
from tests.channels.telegram.receiving_house import Moody, Strict
from tests.json_lines import read_whole_lines
from typing_extensions import override

from pilothouse.channels.discord.config import Rules
from pilothouse.core.channel import PlaceSettings, Receipt
from pilothouse.core.errors import StoreError
from pilothouse.core.message import Address, InboundMessage
from pilothouse.testing.desk import ScriptedDesk

pytestmark = pytest.mark.anyio


class Confused(ScriptedDesk):
    """Breaks whenever it is asked what was chosen for a place, so often: before anything of a message is read."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self._times = times

    @override
    async def settings_of(self, address: Address) -> PlaceSettings:
        if self._times:
            self._times -= 1
            raise ZeroDivisionError("oh")
        return await super().settings_of(address)


class Unmoved(ScriptedDesk):
    """Breaks at each reaction."""

    @override
    async def accept(self, message: InboundMessage) -> Receipt:
        if message.kind == "reaction":
            raise ZeroDivisionError("oh")
        return await super().accept(message)


def failed(folder: Path) -> list[dict[str, Any]]:
    return read_whole_lines(folder / "failed-events.jsonl")


async def until_failed(line: Line) -> None:
    await line.until(lambda: line.told("discord.event_failed"))
    await line.rest()


@pytest.mark.parametrize("error", [ZeroDivisionError("oh"), StoreError("oh")])
async def test_one_message_that_breaks_us_costs_no_other_and_is_not_lost_itself(
    server: Server, tmp_path: Path, error: Exception
) -> None:
    ada, general, us = server.person("ada"), server.world.general, f"<@{server.world.bot_id}>"
    async with open_line(server, tmp_path, desk=Moody({"poison": [error]})) as line:
        broken = ada.say(f"{us} poison")
        ada.say(f"{us} cure")
        await line.until(lambda: "cure" in line.texts)
        await line.until(lambda: server.world.shown(general))
        await line.rest()
        assert "1 of the messages" in line.channel.health().trouble
    assert [(one["name"], one["data"]["id"]) for one in failed(tmp_path)] == [
        ("MESSAGE_CREATE", str(broken.id))
    ]
    (told,) = server.world.shown(general)
    assert (told.text.split(",")[0], told.reply_to) == ("This message could not be taken", broken.id)
    (logged,) = line.told("discord.event_failed")
    assert (logged["error"], logged["kept_in"]) == (error, str(tmp_path / "failed-events.jsonl"))


async def test_what_broke_us_is_taken_where_its_file_becomes_the_journal(
    server: Server, tmp_path: Path
) -> None:
    ada, us = server.person("ada"), f"<@{server.world.bot_id}>"
    async with open_line(server, tmp_path, desk=Moody({"poison": [ZeroDivisionError("oh")]})) as line:
        ada.say(f"{us} poison")
        await until_failed(line)
    (tmp_path / "failed-events.jsonl").rename(tmp_path / "events.jsonl")
    async with open_line(server, tmp_path) as line:
        await line.until(lambda: line.texts == ["poison"])
        await line.rest()
        assert line.channel.health().trouble == ""


async def test_a_message_that_breaks_us_before_it_is_read_breaks_nothing_else(
    server: Server, tmp_path: Path
) -> None:
    ada, us = server.person("ada"), f"<@{server.world.bot_id}>"
    async with open_line(server, tmp_path, desk=Confused(2)) as line:
        ada.say(f"{us} poison")
        await until_failed(line)
        ada.say(f"{us} cure")
        await line.until(lambda: line.texts == ["cure"])
        await line.until(lambda: "could not be taken" in "".join(server.world.texts(server.world.general)))
    assert len(failed(tmp_path)) == 1


@pytest.mark.parametrize("desk", [Strict, Moody])
async def test_a_stranger_and_who_was_merely_overheard_are_told_nothing(
    server: Server, tmp_path: Path, desk: type[Moody]
) -> None:
    """The one that is not strict lets everybody in: there nobody speaks to us."""
    mallory, us = server.person("mallory"), f"<@{server.world.bot_id}> " if desk is Strict else ""
    async with open_line(server, tmp_path, desk=desk({"poison": [ZeroDivisionError("oh")]})) as line:
        mallory.say(f"{us}poison")
        await until_failed(line)
        mallory.say(f"{us}more")
        await line.until(lambda: line.texts == ["more"])
    assert (len(failed(tmp_path)), server.world.texts(server.world.general)) == (1, [])


async def test_a_reaction_that_breaks_us_is_kept_and_told(server: Server, tmp_path: Path) -> None:
    ada, general = server.person("ada"), server.world.general
    rules = {str(general.id): Rules(reactions=True)}
    async with open_line(server, tmp_path, config_for(server, per_channel=rules), desk=Unmoved()) as line:
        post = ada.say("look at this")
        ada.react(post, "👀")
        await line.until(lambda: server.world.shown(general))
        await line.rest()
    assert [one["name"] for one in failed(tmp_path)] == ["MESSAGE_REACTION_ADD"]
    (told,) = server.world.shown(general)
    assert told.reply_to == post.id
    assert told.text.casefold().startswith("ada: this reaction could not be taken")
