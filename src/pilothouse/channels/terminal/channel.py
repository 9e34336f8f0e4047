"""The terminal as a channel: it serves one conversation, its own, and shows each part sent there exactly once."""

from __future__ import annotations

import getpass
import os
from contextlib import suppress
from pathlib import Path

import anyio

from pilothouse.channels.terminal.config import (
    NO_FACTS,
    TERMINAL,
    ChatFacts,
    Interactive,
    Mode,
    OneShot,
    TerminalConfig,
)
from pilothouse.channels.terminal.receive import make_identity
from pilothouse.channels.terminal.render import render
from pilothouse.channels.terminal.screen import put
from pilothouse.channels.terminal.setup import Setup, Talk
from pilothouse.channels.terminal.streams import Streams, WallClock
from pilothouse.core.channel import ChannelHost, Desk
from pilothouse.core.clock import Clock
from pilothouse.core.errors import DeliveryError, Rejected, TryLater
from pilothouse.core.ids import ConversationId, MessageId
from pilothouse.core.message import Address, Content, MessageRef, Part

CLOSED_WAIT_S = 1.0


class TerminalChannel:
    """`place` names the conversation (a workspace's path or name), `user` the person at the keyboard.

    `json` prints the events of a one-shot turn instead of its answer.
    """

    at_machine = True

    def __init__(
        self,
        config: TerminalConfig,
        host: ChannelHost,
        *,
        mode: Mode,
        streams: Streams,
        place: str = "",
        user: str = "",
        json: bool = False,
        verbose: bool = False,
        facts: ChatFacts = NO_FACTS,
        clock: Clock | None = None,
    ) -> None:
        self.id = TERMINAL
        clock = clock or WallClock()
        identity = make_identity(place or str(Path.cwd()), user or getpass.getuser(), clock.now, os.getpid())
        folder = Path(host.state_dir) / "terminal"
        self._setup = Setup(
            config, folder, streams, clock, identity, facts, verbose, json, host.blobs, host.commands
        )
        self._talk = _talk(mode, self._setup)
        self._opened = anyio.Event()
        self._talking: anyio.CancelScope | None = None
        self._closed = False
        self._gone = False
        """True if the reader of our output has left, as in `chat … | head -1`."""

    @property
    def address(self) -> Address:
        return self._setup.identity.address

    @property
    def exit_code(self) -> int:
        """After `run`: 0, 1 if the one message failed, 130 if Ctrl-C stopped it."""
        return 1 if self._gone else self._talk.exit_code

    def holds(self) -> tuple[ConversationId, ...]:
        return (self._setup.conversation,)

    def messages(self) -> tuple[MessageId, ...] | None:
        return self._talk.messages

    def was_sent_elsewhere(self, native_id: str) -> bool:
        return not self._setup.identity.made(native_id)

    async def run(self, desk: Desk) -> None:
        try:
            with anyio.CancelScope() as self._talking:
                await self._talk.run(desk, self._opened.set)
        except* DeliveryError as group:
            self._lost(group)
        finally:
            self._closed = True
            self._opened.set()

    def render(self, content: Content) -> tuple[Part, ...]:
        return render(content)

    async def send(self, address: Address, part: Part) -> MessageRef:
        """Shows what of the part is not on the screen yet. If the terminal is closed, the part waits for the next one."""
        if address != self.address:
            raise Rejected(f"this terminal shows {self.address.place}, not {address.place}")
        await self._opened.wait()
        if self._closed:
            raise TryLater(CLOSED_WAIT_S, "the terminal is closed")
        try:
            await self._talk.part(part)
        except DeliveryError as error:
            self._lost(error)
            if self._talking is not None:
                self._talking.cancel()
            raise
        return MessageRef(address, self._setup.identity.next_id())

    def _lost(self, error: BaseException) -> None:
        """Ends the chat when the output cannot be written. Reports the error, unless the reader left, as `head` does."""
        if self._gone:
            return
        self._gone = True
        cause = _root_cause(error)
        if not isinstance(cause, BrokenPipeError):
            with suppress(DeliveryError):
                text = f"The output cannot be written: {cause}. `{self._setup.facts.program} chat` shows what is missing."
                put(self._setup.streams.stderr, f"{text}\n")


def _root_cause(error: BaseException) -> BaseException:
    """Returns the error of the operating system."""
    while isinstance(error, BaseExceptionGroup) or error.__cause__ is not None:
        error = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error.__cause__ or error
    return error


def _talk(mode: Mode, setup: Setup) -> Talk:
    match mode:
        case Interactive(news=news, first=first):
            from pilothouse.channels.terminal.interactive import InteractiveTalk

            return InteractiveTalk(setup, news, first)
        case OneShot(text=text):
            from pilothouse.channels.terminal.oneshot import OneShotTalk

            return OneShotTalk(setup, text)
