"""Shared by the interactive and the one-shot chat: settings, streams, open asks, and the read mark."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from pilothouse.channels.terminal.config import ChatFacts, TerminalConfig
from pilothouse.channels.terminal.receive import Identity
from pilothouse.channels.terminal.screen import Display
from pilothouse.channels.terminal.streams import Streams
from pilothouse.channels.terminal.style import Palette
from pilothouse.core.ask import Ask
from pilothouse.core.channel import Desk, MenuCommand
from pilothouse.core.clock import Clock
from pilothouse.core.engine import Blobs
from pilothouse.core.ids import ConversationId, MessageId
from pilothouse.core.message import Part, conversation_id

TICK_S = 0.1


class Setup(Struct, frozen=True):
    config: TerminalConfig
    state_dir: Path
    streams: Streams
    clock: Clock
    identity: Identity
    facts: ChatFacts
    verbose: bool
    json: bool
    blobs: Blobs
    commands: tuple[MenuCommand, ...] = ()

    @property
    def folder(self) -> str:
        """The workspace; empty if the conversation is not named after a folder."""
        place = self.identity.address.place
        return place if place.startswith("/") else ""

    def display(self, palette: Palette, *, drawn: bool, streamed: bool, asks: bool = True) -> Display:
        return Display(
            palette,
            self.columns,
            drawn,
            streamed,
            color=self.palette(tty=drawn).color,
            verbose=self.verbose,
            asks=asks,
            folder=self.folder,
        )

    @property
    def conversation(self) -> ConversationId:
        return conversation_id(self.identity.address)

    def columns(self) -> int:
        """Returns the current width of text: a window may be resized."""
        return max(20, min(self.config.width, self.streams.width()))

    def palette(self, *, tty: bool) -> Palette:
        return Palette(tty and self.streams.color and not self.streams.dumb)

    def mark(self) -> Mark:
        name = hashlib.sha256(self.conversation.encode()).hexdigest()[:16]
        return Mark(self.state_dir / f"{name}.seq")


class OpenAsk(Struct, frozen=True):
    """One row of `query("asks", conversation=…)`."""

    ask: Ask


async def open_asks(desk: Desk, setup: Setup) -> list[Ask]:
    """Returns the open asks of the conversation, in full."""
    told = await desk.query("asks", setup.identity.author, conversation=setup.conversation)
    return [row.ask for row in msgspec.convert(told, list[OpenAsk], from_attributes=True)]


async def full_ask(desk: Desk, setup: Setup, ask: Ask) -> Ask:
    """Returns the ask in full, without the shortening of its event."""
    return next((one for one in await open_asks(desk, setup) if one.id == ask.id), ask)


class Talk(Protocol):
    """One chat, interactive or one-shot. `opened` is called as soon as parts may come."""

    @property
    def exit_code(self) -> int: ...

    @property
    def messages(self) -> tuple[MessageId, ...] | None:
        """The messages whose answers it shows; None for all of the conversation."""
        ...

    async def run(self, desk: Desk, opened: Callable[[], None]) -> None: ...

    async def part(self, part: Part) -> None: ...


class Mark:
    """The last event that was seen. Only an optimization: without it everything is read again."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def load(self) -> int:
        try:
            return max(0, int(self._path.read_text("ascii")))
        except (OSError, ValueError):
            return 0

    def save(self, seq: int) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = self._path.with_suffix(f".{os.getpid()}")
        with os.fdopen(os.open(fresh, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "w") as file:
            file.write(str(seq))
        fresh.replace(self._path)
