"""A program on two pipes as a channel, for `pilothouse rpc` and `pilothouse acp`: its conversations are the sessions that it opened."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import IO, Protocol

from pilothouse.channels.stdio_frames import FrameReader, FrameWriter
from pilothouse.core.channel import Desk
from pilothouse.core.errors import Rejected
from pilothouse.core.ids import ChannelId, ConversationId
from pilothouse.core.message import Address, Content, MessageRef, Part, clean_text
from pilothouse.processes.pipes import PipeReader, PipeWriter


class ProgramServer(Protocol):
    """Serves one program in its protocol."""

    def conversations(self) -> tuple[ConversationId, ...]: ...

    async def run(self, desk: Desk) -> None: ...

    async def part(self, address: Address, part: Part) -> None:
        """Take a delivered message. Raises `TryLater` while it cannot be shown."""
        ...


class StdioChannel:
    """`token` begins the ids of what this process sent."""

    at_machine = True

    def __init__(
        self,
        id: ChannelId,
        make_server: Callable[[FrameReader, FrameWriter], ProgramServer],
        *,
        stdin: IO[bytes],
        stdout: IO[bytes],
        token: str,
    ) -> None:
        self.id = id
        self._token = token
        self._numbers = count(1)
        self._server = make_server(FrameReader(PipeReader(stdin)), FrameWriter(PipeWriter(stdout)))

    def holds(self) -> tuple[ConversationId, ...]:
        return self._server.conversations()

    def was_sent_elsewhere(self, native_id: str) -> bool:
        return not native_id.startswith(self._token)

    async def run(self, desk: Desk) -> None:
        await self._server.run(desk)

    def render(self, content: Content) -> tuple[Part, ...]:
        ask_id = content.ask.id if content.ask is not None else None
        data = {
            "kind": content.kind,
            "turn_id": content.turn_id,
            "reply_to": content.reply_to,
            "ask_id": ask_id,
        }
        return (Part(clean_text(content.text), data, content.attachments),)

    async def send(self, address: Address, part: Part) -> MessageRef:
        if address.channel != self.id:
            raise Rejected(f"this client shows sessions of {self.id}, not of {address.channel}")
        await self._server.part(address, part)
        return MessageRef(address, f"{self._token}.{next(self._numbers)}")
