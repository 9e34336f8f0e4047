"""`pilothouse init` with Discord: what is tried before it is kept, what is asked, and that `up` and the others know of it."""

from __future__ import annotations

import re
import tomllib
from functools import partial
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import anyio
import pytest
from tests.channels.discord.installed import Installed, start
from tests.channels.discord.server.running import Server
from tests.cli.conftest import House, with_bots

from pilothouse.channels.discord.servers import INVITED
from pilothouse.cli.pair import render_qr

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(240)]


def words(installed: Installed, *more: str) -> tuple[str, ...]:
    return ("init", "--workspace", str(installed.project), "--discord-api", installed.server.api_base, *more)


async def test_init_tries_the_token_invites_and_up_lets_the_first_person_in(
    server: Server, tmp_path: Path
) -> None:
    installed, general = Installed(tmp_path, server), server.world.general
    (installed.home / ".env").write_text("OTHER=1\nexport DISCORD_TOKEN=old\n")
    flags = words(installed, "--yes", "--discord", "--discord-channel", str(general.id))
    code, told = await installed.run(*flags, DISCORD_TOKEN=server.token[:-1] + "x")
    assert (code, "the token is refused" in told) == (1, True)
    assert not (installed.home / "config.toml").exists()

    code, told = await installed.run(*flags, DISCORD_TOKEN=server.token)
    assert (code, "This is TestBot" in told) == (0, True), told
    invite = parse_qs(urlsplit(re.findall(r"https://\S+oauth2\S+", told)[0]).query)
    assert invite["scope"] == ["bot applications.commands"]
    assert invite["permissions"] == [str(INVITED)]
    assert invite["client_id"] == [str(server.world.state.application_id)]
    assert (installed.home / ".env").read_text() == f"OTHER=1\nDISCORD_TOKEN={server.token}\n"
    assert (installed.home / ".env").stat().st_mode & 0o777 == 0o600
    written = (installed.home / "config.toml").read_text()
    assert server.token not in told + written
    section = tomllib.loads(written)["channels"]["discord"]
    assert section["per_channel"] == {str(general.id): {"mode": "all"}}

    pairing = re.findall(r"\b\w{4}-\w{4}\b", told.partition("This code lets")[2])[0]
    ada = server.person("ada")
    async with start(installed, "up") as running:
        await running.until(lambda: server.gateway.connected)
        ada.say(pairing)
        texts = server.world.texts
        await running.until(lambda: any("let in as owner" in text for text in texts(general)))
        ada.say("hello")
        await running.until(lambda: any("First:" in text for text in texts(general)))
        status = ""
        while not re.search(r"discord +connected, heard \d+s ago", status):
            status = (await installed.run("status"))[1]
        assert re.search(r"✓ channel discord +Discord", (await installed.run("doctor"))[1])
        assert await running.leave() == 0
    assert re.search(r"discord +on +Discord", (await installed.run("channels"))[1])


async def test_on_a_terminal_a_phone_can_read_the_invitation_from_the_screen(
    server: Server, tmp_path: Path
) -> None:
    house = House(tmp_path)
    with_bots(house)
    flags = ("--discord", "--discord-api", server.api_base, "--workspace", str(tmp_path))
    init = partial(house.on_a_terminal, "init", "--yes", *flags, DISCORD_TOKEN=server.token, LANG="C.UTF-8")
    code, screen = await anyio.to_thread.run_sync(init)
    assert code == 0, screen
    (link,) = re.findall(r"https://\S+oauth2\S+", screen)
    assert render_qr(link).replace("\n", "\r\n") in screen
    assert "\x1b" not in house.run("init", "--yes", *flags, DISCORD_TOKEN=server.token).stdout


async def test_what_no_flag_says_is_asked_and_a_wrong_channel_is_refused(
    server: Server, tmp_path: Path
) -> None:
    installed, hidden = Installed(tmp_path, server), server.world.make_channel("quiet")
    flags = words(installed, "--engine", "script")
    for id, complaint in (
        ("general", "'general' is not a channel id"),
        ("1234567890123", "there is no channel 1234567890123"),
    ):
        code, told = await installed.run(
            *flags, "--discord", "--discord-channel", id, said=f"{server.token}\nminimal\n"
        )
        assert (code, complaint in told) == (1, True), told
        assert not (installed.home / "config.toml").exists()
    code, told = await installed.run(
        *flags, "--discord-channel", str(hidden.id), said=f"discord\n{server.token}\nminimal\n"
    )
    assert code == 0, told
    assert told.splitlines()[-1] == (
        "Next: pilothouse up, then send the code in #quiet of Lab, or privately to the bot"
    )
    assert server.token not in told
    written = tomllib.loads((installed.home / "config.toml").read_text())
    assert list(written["channels"]["discord"]["per_channel"]) == [str(hidden.id)]


async def test_an_intent_that_is_missing_is_told_with_the_page_that_has_it(
    server: Server, tmp_path: Path
) -> None:
    installed = Installed(tmp_path, server)
    server.refuse_message_content()
    code, told = await installed.run(*words(installed, "--yes", "--discord"), DISCORD_TOKEN=server.token)
    assert (code, told.count("\n")) == (1, 1), told
    assert f"applications/{server.world.state.application_id}/bot" in told
    assert not (installed.home / "config.toml").exists()
    flags = words(installed, "--engine", "script", "--owner", "discord:12345", "--discord")
    code, told = await installed.run(*flags, said="y\nn\n", DISCORD_TOKEN=server.token)
    assert (code, told.count("Try again?")) == (1, 2), told
    code, told = await installed.run(*words(installed, "--yes"), DISCORD_TOKEN=server.token)
    assert code == 0, "nobody asked for Discord"
    assert "discord" not in tomllib.loads((installed.home / "config.toml").read_text()).get("channels", {})


async def test_a_refused_token_shows_in_status_and_doctor(server: Server, tmp_path: Path) -> None:
    installed = Installed(tmp_path, server)
    token = {"PILOTHOUSE__CHANNELS__DISCORD__TOKEN": server.token[:-1] + "x"}
    async with start(installed, "up", **token) as running:
        await running.until_said(
            r"(?m)no channel is connected (.|\n)*^discord is not connected: Discord refuses"
        )
        status = ""
        while "Discord refuses the bot token" not in status:
            status = " ".join((await installed.run("status", **token))[1].split())
        assert "token is refused" in " ".join((await installed.run("doctor", **token))[1].split())
        assert server.token[:-1] not in running.screen + installed.log
        await running.leave()
