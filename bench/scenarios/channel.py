"""The in-memory channel of a `pilothouse up` process, with its person outside: actions come by a Unix socket, and every effect
is appended to a file, which outlives the gateway."""

from __future__ import annotations

import json
import mimetypes
import os
import time
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import SocketStream
from msgspec import Struct

from pilothouse.channels.memory import MEMORY, PERSON, MemoryChannel, Posted
from pilothouse.core.ask import Ask
from pilothouse.core.channel import ChannelHost, ChannelSpec, Desk
from pilothouse.core.engine import Blobs
from pilothouse.core.ids import AskId
from pilothouse.core.message import Attachment, InboundMessage

LONGEST = 1 << 20


class SocketConfig(Struct, frozen=True):
    folder: str

    @property
    def socket(self) -> Path:
        return Path(self.folder, "person.socket")

    @property
    def seen(self) -> Path:
        return Path(self.folder, "seen.jsonl")


class SocketChannel(MemoryChannel):
    def __init__(self, config: SocketConfig, blobs: Blobs) -> None:
        super().__init__(native_ids=lambda: f"{os.getpid()}-{time.monotonic_ns()}")
        self._files = config
        self._blobs = blobs

    async def run(self, desk: Desk) -> None:  # pyrefly: ignore[missing-override-decorator]
        self._files.socket.unlink(missing_ok=True)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(super().run, desk)
            listener = await anyio.create_unix_listener(self._files.socket)
            await listener.serve(self._hear)

    async def _hear(self, stream: SocketStream) -> None:
        """Do what one connection asks for, and reply."""
        async with stream:
            action = json.loads(await stream.receive(LONGEST))
            reply = await (self._say(**action) if "place" in action else self._decide(**action))
            await stream.send(json.dumps(reply).encode())

    async def _say(self, text: str, place: str, files: list[str]) -> dict[str, Any]:
        if not files:
            return {"state": (await self.say(text, place)).state}
        given = [await self._keep(anyio.Path(file)) for file in files]
        desk, address = await self._open(), self.address(place)
        message = InboundMessage(
            address, PERSON, self._native_ids(), text, attachments=tuple(given), private=True
        )
        return {"state": (await desk.accept(message)).state}

    async def _keep(self, file: anyio.Path) -> Attachment:
        return await self._blobs.put(
            await file.read_bytes(), file.name, mimetypes.guess_type(file.name)[0] or ""
        )

    async def _decide(self, ask: str, payload_hash: str, **decision: Any) -> dict[str, Any]:
        answered = await self.answer(Ask(AskId(ask), "approval", "", payload_hash=payload_hash), **decision)
        return {"accepted": answered.accepted, "text": answered.text}

    def _show(self, effect: str, posted: Posted) -> None:  # pyrefly: ignore[missing-override-decorator]
        data = posted.part.data
        line = {
            "effect": effect,
            "place": posted.ref.address.place,
            "text": posted.text,
            "kind": data.get("kind", ""),
            "ask": data.get("ask_id", ""),
            "payload_hash": data.get("payload_hash", ""),
        }
        with self._files.seen.open("a") as file:
            file.write(json.dumps(line) + "\n")
        super()._show(effect, posted)


def _build(config: SocketConfig, host: ChannelHost) -> SocketChannel:
    return SocketChannel(config, host.blobs)


CHANNEL = ChannelSpec(MEMORY, "A person behind a socket", SocketConfig, _build, lambda _: "")
