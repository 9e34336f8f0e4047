"""A person's first hour with the real program: an empty home, `init`, `up`, a phone, and work that is left at a terminal.

Telegram and Discord are the servers of our tests; the engine plays a script.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.channels.discord.server.running import Server as DiscordServer
from tests.channels.discord.server.running import open_server as open_discord
from tests.channels.telegram.server.running import Server as TelegramServer
from tests.channels.telegram.server.running import open_server as open_telegram
from tests.paths.home import WITHIN_S, Home
from typing_extensions import override

pytestmark = [pytest.mark.anyio, pytest.mark.slow, pytest.mark.timeout(180)]


class Phone(ABC):
    """Ada's private chat with the bot."""

    name: str
    token: Mapping[str, str]
    flags: Sequence[str]
    environ: Mapping[str, str] = {}

    @abstractmethod
    def pair(self, told: str) -> None:
        """Do what `init` told."""

    @abstractmethod
    def say(self, text: str) -> None: ...

    @abstractmethod
    def posts(self) -> list[Any]: ...

    def __init__(self, server: Any, ada: Any) -> None:
        self._server = server
        self.ada = ada

    async def see(self, words: str, button: str = "", *, times: int = 1) -> Any:
        """Wait for so many messages of the bot with these words, and perhaps a button; return the last."""

        def found() -> Any:
            posts = [post for post in self.posts() if words in post.text.replace("`", "")]
            posts = [post for post in posts if not button or button in post.buttons]
            return posts[-1] if len(posts) >= times else None

        with anyio.move_on_after(WITHIN_S):
            await self._server.world.until(found)
        assert found(), f"{words!r} never came: {[post.text for post in self.posts()]}"
        return found()


class OnTelegram(Phone):
    name = "telegram"

    def __init__(self, server: TelegramServer) -> None:
        super().__init__(server, server.person("Ada"))
        self.token = {"TELEGRAM_TOKEN": server.token}
        self.flags = ("--telegram", "--telegram-api", server.url)

    @override
    def pair(self, told: str) -> None:
        (code,) = re.findall(r"https://t.me/pilot_test_bot\?start=(\S+)", told)
        self.say(f"/start {code}")

    @override
    def say(self, text: str) -> None:
        self.ada.say(text)

    @override
    def posts(self) -> list[Any]:
        return self._server.world.shown(self.ada.id)


class OnDiscord(Phone):
    name = "discord"

    def __init__(self, server: DiscordServer) -> None:
        super().__init__(server, server.person("ada"))
        self.token = {"DISCORD_TOKEN": server.token}
        self.flags = ("--discord", "--discord-api", server.api_base)
        self.environ = {
            "PILOTHOUSE__CHANNELS__DISCORD__GATEWAY_URL": server.gateway_url,
            "PILOTHOUSE__CHANNELS__DISCORD__CDN_BASE": server.cdn_base,
        }

    @override
    def pair(self, told: str) -> None:
        (code,) = re.findall(r"^ +(\w{4}-\w{4})$", told, re.M)
        self.say(code)

    @override
    def say(self, text: str) -> None:
        self.ada.say(text, channel=self.ada.dm)

    @override
    def posts(self) -> list[Any]:
        return self._server.world.shown(self.ada.dm)


@asynccontextmanager
async def on_telegram() -> AsyncIterator[Phone]:
    async with open_telegram() as server:
        yield OnTelegram(server)


@asynccontextmanager
async def on_discord() -> AsyncIterator[Phone]:
    async with open_discord() as server:
        yield OnDiscord(server)
        assert server.complaints == []


@pytest.mark.parametrize("open_phone", [on_telegram, on_discord])
async def test_from_an_empty_home_to_an_approval_on_the_phone(open_phone: Any, tmp_path: Path) -> None:
    async with open_phone() as phone:
        home = Home(tmp_path, **phone.environ)
        flags = (*phone.flags, "--engine", "script", "--workspace", str(home.project))
        told = await home.run("init", "--yes", *flags, **phone.token)
        assert told.splitlines()[-1].startswith("Next: pilothouse up, then ")
        async with home.up():
            phone.pair(told)
            await phone.see("You are let in as owner")
            phone.say("hello")
            await phone.see("You wrote: hello")

            async with home.chat() as seat:
                await seat.see("❯")
                seat.type("tidy up\r")
                await seat.see("wants to run `rm -rf build`")
                await seat.leave()
            asked = await phone.see("wants to run rm -rf build", "Allow once")
            assert "terminal chat." in asked.text and "Also sent to" not in asked.text
            phone.ada.press(asked, "Allow once")
            answer = await phone.see("The folder build is gone.")
            assert re.match(r"From \S+ terminal chat\.\s+The folder build is gone\.", answer.text)
            await phone.see("Allowed by ")

            async with home.chat() as seat:
                screen = await seat.see("The folder build is gone.")
                assert "While you were away" in screen
                seat.type("tidy up\r")
                await seat.see("wants to run `rm -rf build`")
                phone.say("/asks")
                asked = await phone.see("wants to run rm -rf build", "Allow once")
                phone.ada.press(asked, "Allow once")
                screen = await seat.see("The folder build is gone.", times=2)
                told = screen.rpartition("wants to run `rm -rf build`")[2]
                assert re.search(r"\n\nAllowed by Ada: rm -rf build\n\nThe folder build is gone.", told), told
                assert told.count("rm -rf build") == 1
                await seat.leave()
            await phone.see("The folder build is gone.", times=2)
        assert sum("The folder build is gone." in post.text for post in phone.posts()) == 2
