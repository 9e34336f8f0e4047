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
from pilothouse.channels.discord.trouble import Trouble
from pilothouse.channels.discord.wire import Guild
from pilothouse.channels.text import clip
from pilothouse.core.channel import MenuCommand

ASK = "ask"
ASK_ABOUT = "Ask about this"
CHAT_INPUT, ON_MESSAGE, TEXT_OPTION = 1, 3, 3
SUGGESTED = frozenset({"engine", "model", "resume"})
MOST = 100
SUMMARY_CHARS = 100

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
    """`path` keeps which server was told what."""

    def __init__(self, path: Path, commands: Sequence[MenuCommand], log: Callable[..., None]) -> None:
        self._path = path
        self._shapes = shapes(commands)
        self._log = log
        self._hash = hashlib.sha256(msgspec.json.encode(self._shapes)).hexdigest()[:16]
        self._told = self._read()
        self._lock = anyio.Lock()

    async def register(self, guild: Guild, calls: Calls) -> None:
        """That it did not work costs nothing but the menu. A server that we were thrown out of has forgotten it, also if we
        were away when that happened."""
        key, state = f"{calls.application_id}:{guild.id}", f"{self._hash} {guild.joined_at or ''}".strip()
        if self._told.get(key) == state:
            return
        found = await calls.call(
            "PUT", PATH, self._shapes, application_id=calls.application_id, guild_id=guild.id
        )
        if isinstance(found, Trouble):
            self._log("discord.commands_failed", level="warning", guild=guild.id, why=found.text)
            return
        self._told[key] = state
        async with self._lock:
            await anyio.to_thread.run_sync(self._write, msgspec.json.encode(self._told))
        self._log("discord.commands_registered", guild=guild.id, commands=len(self._shapes))

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
