"""A channel that receives from a Discord of these tests, with a desk behind it that nobody sits at."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from simcord.backend.models import Channel
from tests.channels.discord.gateway_house import config_for
from tests.channels.discord.server.running import Server
from tests.channels.telegram.receiving_house import KeptBlobs
from typing_extensions import override

from pilothouse.channels.discord.addresses import DISCORD
from pilothouse.channels.discord.channel import DiscordChannel
from pilothouse.channels.discord.config import DiscordConfig
from pilothouse.core.channel import ChannelHost, MenuCommand
from pilothouse.core.clock import Clock
from pilothouse.core.message import Address, Content, MessageRef
from pilothouse.core.trigger import Trigger
from pilothouse.runtime.ports import SystemClock
from pilothouse.testing.desk import ScriptedDesk


class Ahead(SystemClock):
    """The clock of a machine that is so many seconds ahead of Discord's; or of one that does the same so much later."""

    def __init__(self, by_s: float) -> None:
        self._by_s = by_s

    @override
    def now(self) -> float:
        return super().now() + self._by_s


class Line:
    """What it said to its log, and what its desk was told."""

    def __init__(self, channel: DiscordChannel, desk: ScriptedDesk, blobs: KeptBlobs, folder: Path) -> None:
        self.folder = folder
        self.channel = channel
        self.desk = desk
        self.blobs = blobs
        self.logged: list[tuple[str, dict[str, Any]]] = []

    @property
    def texts(self) -> list[str]:
        return [message.text for message in self.desk.accepted]

    def told(self, event: str) -> list[dict[str, Any]]:
        return [fields for name, fields in self.logged if name == event]

    async def until(self, seen: Callable[[], object]) -> None:
        with anyio.fail_after(60):
            while not seen():
                await anyio.sleep(0.01)

    async def rest(self) -> None:
        """Waits until nothing is kept any more that a restart would bring again."""
        kept = [self.folder / "events.jsonl", self.folder / "presses.jsonl"]
        await self.until(lambda: not any(path.exists() for path in kept))

    async def send(self, channel: Channel, text: str, **more: Any) -> MessageRef:
        (part,) = self.channel.render(Content(text, **more))
        return await self.channel.send(address_of(channel), part)


def address_of(channel: Channel) -> Address:
    if channel.thread_metadata is not None:
        return Address(DISCORD, str(channel.parent_id), str(channel.id))
    return Address(DISCORD, str(channel.id))


@asynccontextmanager
async def open_line(
    server: Server,
    folder: Path,
    config: DiscordConfig | None = None,
    *,
    clock: Clock | None = None,
    menu: tuple[MenuCommand, ...] = (),
    desk: ScriptedDesk | None = None,
    connected: bool = True,
) -> AsyncIterator[Line]:
    """Hears everything, unless a configuration says otherwise."""

    def make(host: ChannelHost) -> DiscordChannel:
        return DiscordChannel(config or config_for(server, trigger=Trigger("all")), host)

    async with open_at(make, folder, clock=clock, menu=menu, desk=desk) as line:
        if connected:
            await line.until(lambda: server.gateway.connected)
        yield line


@asynccontextmanager
async def open_at(
    make: Callable[[ChannelHost], DiscordChannel],
    folder: Path,
    *,
    clock: Clock | None = None,
    menu: tuple[MenuCommand, ...] = (),
    desk: ScriptedDesk | None = None,
) -> AsyncIterator[Line]:
    """A channel of this make, whatever Discord it talks to."""
    blobs = KeptBlobs()
    logged: list[tuple[str, dict[str, Any]]] = []

    def log(event: str, **fields: Any) -> None:
        logged.append((event, fields))

    channel = make(ChannelHost(blobs, str(folder), log, clock or SystemClock(), menu))
    line = Line(channel, desk or ScriptedDesk(), blobs, folder)
    line.logged = logged
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(channel.run, line.desk)
        yield line
        tasks.cancel_scope.cancel()
