"""A gateway on a real SQLite file, with a puppet for an engine and memory for a channel."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
from tests.runtime.puppet import PUPPET, PuppetEngine

from pilothouse.channels.memory import MEMORY, PERSON, MemoryChannel
from pilothouse.core.clock import Clock
from pilothouse.core.ids import ChannelId, ConversationId, UserId
from pilothouse.core.people import People
from pilothouse.core.store import NodeInfo, Store, Tx
from pilothouse.core.turn import Turn
from pilothouse.runtime.clock import SystemClock, new_id
from pilothouse.runtime.gateway import Gateway
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.settings import Settings
from pilothouse.stores.sqlite import STORE

MAIN = ConversationId("memory:main")


def settings_for(folder: Path, **changes: Any) -> Settings:
    base = Settings(
        PUPPET,
        str(folder),
        engine_names={"puppet": PUPPET},
        people=People({PERSON.id: "owner", UserId("memory:member"): "member"}),
        retry_first_s=0.01,
        grace_s=0.5,
        stop_grace_s=0.5,
        edit_every_s=0.05,
        poll_s=0.2,
        known_channels=(MEMORY, ChannelId("terminal")),
    )
    return msgspec.structs.replace(base, **changes)


class Rig:
    def __init__(self, ports: Ports, gateway: Gateway, engine: PuppetEngine, channel: MemoryChannel) -> None:
        self.ports = ports
        self.gateway = gateway
        self.engine = engine
        self.channel = channel
        self.store: Store = ports.store

    async def turns(self, conversation: ConversationId = MAIN) -> list[Turn]:
        """Oldest first."""
        return (await self.store.read(lambda tx: tx.turns.of(conversation)))[::-1]

    async def until(self, holds: Callable[[Tx], Any], deadline_s: float = 20) -> Any:
        """What `holds` returns, once it is true."""
        with anyio.fail_after(deadline_s):
            while True:
                if found := await self.store.read(holds):
                    return found
                await anyio.sleep(0.01)

    async def until_ended(self, count: int = 1, conversation: ConversationId = MAIN) -> list[Turn]:
        ended = ("done", "failed", "cancelled")
        await self.until(lambda tx: len(tx.turns.of(conversation, statuses=ended)) >= count)
        return await self.turns(conversation)

    async def until_said(self, text: str, deadline_s: float = 20) -> str:
        with anyio.fail_after(deadline_s):
            while True:
                for posted in self.channel.sent:
                    if text in posted.text and not posted.deleted:
                        return posted.text
                await anyio.sleep(0.01)

    def said(self) -> list[str]:
        return [posted.text for posted in self.channel.sent if not posted.deleted]


@asynccontextmanager
async def open_rig(
    folder: Path,
    engine: PuppetEngine | None = None,
    channel: MemoryChannel | None = None,
    *,
    clock: Clock | None = None,
    name: str = "test",
    log: Callable[..., None] | None = None,
    **settings: Any,
) -> AsyncIterator[Rig]:
    engine = engine or PuppetEngine()
    channel = channel or MemoryChannel()
    chosen = settings_for(folder, **settings)
    async with STORE.open(STORE.config(path=str(folder / "pilothouse.db"))) as store:
        ports = Ports(
            store=store,
            clock=clock or SystemClock(),
            ids=new_id,
            settings=lambda: chosen,
            engines={PUPPET: engine},
            channels={channel.id: channel},
            log=log or (lambda _event, **_fields: None),
        )
        ready = anyio.Event()
        gateway = Gateway(ports, NodeInfo(name, "here", os.getpid(), ""), on_ready=ready.set)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(gateway.run)
            with anyio.fail_after(20):
                await ready.wait()
            yield Rig(ports, gateway, engine, channel)
            gateway.stop()
