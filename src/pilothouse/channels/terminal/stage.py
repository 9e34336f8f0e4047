"""What both ways of talking share: where somebody sits, what they see on, and up to where they have read."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from pilothouse.channels.terminal.config import TerminalConfig
from pilothouse.channels.terminal.ink import Ink
from pilothouse.channels.terminal.receive import Seat
from pilothouse.channels.terminal.streams import Streams
from pilothouse.core.ask import Ask
from pilothouse.core.channel import Desk
from pilothouse.core.clock import Clock
from pilothouse.core.ids import ConversationId, MessageId
from pilothouse.core.message import Part, conversation_id

TICK_S = 0.1


class Stage(Struct, frozen=True):
    config: TerminalConfig
    state_dir: Path
    streams: Streams
    clock: Clock
    seat: Seat
    header: str
    verbose: bool
    json: bool

    @property
    def conversation(self) -> ConversationId:
        return conversation_id(self.seat.address)

    def columns(self) -> int:
        """How wide text is set now: a window may change."""
        return max(20, min(self.config.width, self.streams.width()))

    def ink(self, *, tty: bool) -> Ink:
        return Ink(tty and self.streams.color and not self.streams.dumb)

    def mark(self) -> Mark:
        name = hashlib.sha256(self.conversation.encode()).hexdigest()[:16]
        return Mark(self.state_dir / f"{name}.seq")


class OpenAsk(Struct, frozen=True):
    """What `query("asks", conversation=…)` tells of each."""

    ask: Ask


async def open_asks(desk: Desk, stage: Stage) -> list[Ask]:
    """Those that wait here, whole."""
    told = await desk.query("asks", stage.seat.author, conversation=stage.conversation)
    return [row.ask for row in msgspec.convert(told, list[OpenAsk], from_attributes=True)]


async def whole_of(desk: Desk, stage: Stage, ask: Ask) -> Ask:
    """The ask with all that was shortened to fit beside the question."""
    return next((one for one in await open_asks(desk, stage) if one.id == ask.id), ask)


class Talk(Protocol):
    """One stay at the terminal. `opened` is called as soon as parts may come."""

    @property
    def exit_code(self) -> int: ...

    @property
    def messages(self) -> tuple[MessageId, ...] | None:
        """What it is here for; None if that is everything."""
        ...

    async def run(self, desk: Desk, opened: Callable[[], None]) -> None: ...

    async def part(self, part: Part) -> None: ...


class Mark:
    """Up to which event everything was seen. Only a hint that saves reading: a lost one costs time, no event."""

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
