"""The commands in Discord's own menu: registered in each server, and only when they changed since the last time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from pilothouse.channels.discord.calls import Calls
from pilothouse.channels.discord.meeting import invite_link
from pilothouse.channels.discord.trouble import Trouble
from pilothouse.channels.discord.wire import Guild
from pilothouse.channels.text import clip
from pilothouse.core.channel import MenuCommand
from pilothouse.core.clock import Clock

ASK = "ask"
ASK_ABOUT = "Ask about this"
CHAT_INPUT, ON_MESSAGE, TEXT_OPTION = 1, 3, 3
SUGGESTED = frozenset({"engine", "model", "resume"})
MOST = 100
SUMMARY_CHARS = 100
FIRST_S = 5.0
LONGEST_S = 600.0

REFUSED = (
    "Discord does not let us put our commands into the menu of the server {server}: the bot was invited without "
    "“applications.commands”. Invite it again with {link}; they are tried again by themselves. Written as messages they "
    "work all the same."
)

PATH = "/applications/{application_id}/guilds/{guild_id}/commands"


def shapes(commands: Sequence[MenuCommand]) -> list[dict[str, Any]]:
    """What Discord is told; `/ask` stands first."""
    return [_ask(), *(_command(command) for command in commands[: MOST - 1]), _about()]


def _ask() -> dict[str, Any]:
    option = {"type": TEXT_OPTION, "name": "text", "description": "what to do", "required": True}
    return {"type": CHAT_INPUT, "name": ASK, "description": "ask the agent", "options": [option]}


def _about() -> dict[str, Any]:
    return {"type": ON_MESSAGE, "name": ASK_ABOUT}


def _command(command: MenuCommand) -> dict[str, Any]:
    return {
        "type": CHAT_INPUT,
        "name": command.name,
        "description": clip(command.summary, SUMMARY_CHARS),
        "options": list(_options(command)),
    }


def _options(command: MenuCommand) -> Iterator[dict[str, Any]]:
    """`/cancel N` has an option `n`. All of them may be left out: a bare command says what there is."""
    for word in command.usage.split()[1:]:
        name = word.strip("[]").lower()
        option: dict[str, Any] = {"type": TEXT_OPTION, "name": name, "description": name, "required": False}
        yield option | ({"autocomplete": True} if command.name in SUGGESTED else {})


class Slash:
    """`path` keeps which server was told what. `calls` gives those of the newest connection. `trouble` is what a person
    should know, while it lasts."""

    def __init__(
        self,
        path: Path,
        commands: Sequence[MenuCommand],
        clock: Clock,
        log: Callable[..., None],
        calls: Callable[[], Calls | None],
    ) -> None:
        self._path = path
        self._shapes = shapes(commands)
        self._clock = clock
        self._log = log
        self._calls = calls
        self._hash = hashlib.sha256(msgspec.json.encode(self._shapes)).hexdigest()[:16]
        self._told = self._read()
        self._lock = anyio.Lock()
        self._trying: dict[str, anyio.CancelScope] = {}
        self._refusals: dict[str, str] = {}

    @property
    def trouble(self) -> str:
        return next(iter(self._refusals.values()), "")

    async def register(self, guild: Guild) -> None:
        """Until Discord has them. A server that we were thrown out of has forgotten them, also if we were away when that
        happened."""
        self.leave(guild.id)
        with anyio.CancelScope() as scope:
            self._trying[guild.id] = scope
            await self._register(guild)
        if self._trying.get(guild.id) is scope:
            self._trying.pop(guild.id)

    def leave(self, guild: str) -> None:
        """We are not there any more, or there anew."""
        self._refusals.pop(guild, None)
        if (scope := self._trying.pop(guild, None)) is not None:
            scope.cancel()

    async def _register(self, guild: Guild) -> None:
        pause_s = FIRST_S
        while (calls := self._calls()) is not None:
            key, state = f"{calls.application_id}:{guild.id}", f"{self._hash} {guild.joined_at or ''}".strip()
            if self._told.get(key) == state:
                return
            ids = {"application_id": calls.application_id, "guild_id": guild.id}
            found = await calls.call("PUT", PATH, self._shapes, **ids)
            if not isinstance(found, Trouble):
                await self._registered(guild.id, key, state)
                return
            again = found.is_passing or found.is_forbidden
            self._log(
                "discord.commands_failed",
                level="warning" if again else "error",
                guild=guild.id,
                why=found.text,
            )
            if found.is_forbidden:
                link = invite_link(calls.application_id)
                self._refusals[guild.id] = REFUSED.format(server=guild.name or guild.id, link=link)
            if not again:
                return
            await self._clock.sleep(found.after_s or pause_s)
            pause_s = min(pause_s * 2, LONGEST_S)

    async def _registered(self, guild: str, key: str, state: str) -> None:
        self._told[key] = state
        self._refusals.pop(guild, None)
        async with self._lock:
            await anyio.to_thread.run_sync(self._write, msgspec.json.encode(self._told))
        self._log("discord.commands_registered", guild=guild, commands=len(self._shapes))

    def _write(self, data: bytes) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            fresh = self._path.with_suffix(".new")
            fresh.write_bytes(data)
            fresh.replace(self._path)
        except OSError as error:
            self._log("discord.commands_not_noted", level="warning", why=str(error))

    def _read(self) -> dict[str, str]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, str])
        except (OSError, msgspec.DecodeError):
            return {}
