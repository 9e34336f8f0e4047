"""The Agent Client Protocol on two pipes as a channel: its conversations are the sessions that its client opened."""

from __future__ import annotations

from itertools import count
from typing import IO

from pilothouse.channels.acp.connection import ACP, AcpSetup
from pilothouse.channels.acp.server import AcpServer
from pilothouse.channels.stdio_frames import FrameReader, FrameWriter
from pilothouse.core.channel import ChannelHost, Desk
from pilothouse.core.errors import Rejected
from pilothouse.core.ids import ConversationId
from pilothouse.core.message import Address, Content, MessageRef, Part, clean_text
from pilothouse.processes.pipes import PipeReader, PipeWriter


class AcpChannel:
    at_machine = True

    def __init__(
        self, setup: AcpSetup, host: ChannelHost, *, stdin: IO[bytes], stdout: IO[bytes], token: str
    ) -> None:
        self.id = ACP
        self._token = token
        self._numbers = count(1)
        reader, writer = FrameReader(PipeReader(stdin)), FrameWriter(PipeWriter(stdout))
        self._server = AcpServer(setup, host, reader, writer)

    def holds(self) -> tuple[ConversationId, ...]:
        return self._server.conversations()

    def was_sent_elsewhere(self, native_id: str) -> bool:
        return not native_id.startswith(self._token)

    async def run(self, desk: Desk) -> None:
        await self._server.run(desk)

    def render(self, content: Content) -> tuple[Part, ...]:
        data = {
            "turn_id": content.turn_id,
            "reply_to": content.reply_to,
            "ask_id": content.ask.id if content.ask is not None else None,
        }
        return (Part(clean_text(content.text), data, content.attachments),)

    async def send(self, address: Address, part: Part) -> MessageRef:
        if address.channel != ACP:
            raise Rejected(f"this client shows sessions of {ACP}, not of {address.channel}")
        await self._server.part(address, part)
        return MessageRef(address, f"{self._token}.{next(self._numbers)}")
