"""A whole gateway in this process, on a real SQLite file, and a person who counts what is delivered."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
from bench.measuring.engine import INSTANT, InstantEngine

from pilothouse.bootstrap.process import freeze_collector
from pilothouse.channels.memory import MEMORY, PERSON, MemoryChannel
from pilothouse.core.engine import Engine
from pilothouse.core.ids import EngineId
from pilothouse.core.people import People
from pilothouse.core.store import NodeInfo, Store
from pilothouse.logs import Redactor, open_log
from pilothouse.runtime.gateway import TOPICS, Gateway
from pilothouse.runtime.ports import NoTools, Ports, SystemClock, ToolServer, new_id
from pilothouse.runtime.settings import Settings
from pilothouse.stores.sqlite import STORE

PATIENCE_S = 60.0


class Person:
    """Says things, and knows when the final answer stood there and what it said."""

    def __init__(self, **limits: Any) -> None:
        self.channel = MemoryChannel(record=self._saw, **limits)
        self._waits: dict[str, anyio.Event] = {}
        self._seen: dict[str, tuple[float, str]] = {}
        self.accepted_s = 0.0
        """How long the last message took to be durable."""

    async def turn(self, text: str, place: str = "main") -> tuple[float, str]:
        """Seconds from handing the message over to its final answer, and that answer."""
        self._waits[place] = delivered = anyio.Event()
        began = time.perf_counter()
        await self.channel.say(text, place)
        self.accepted_s = time.perf_counter() - began
        with anyio.fail_after(PATIENCE_S):
            await delivered.wait()
        at, answer = self._seen.pop(place)
        return at - began, answer

    def _saw(self, effect: dict[str, Any]) -> None:
        place = effect["conversation"]
        if effect["effect"] == "send" and effect["kind"] == "answer" and place in self._waits:
            self._seen[place] = (time.perf_counter(), effect["text"])
            self._waits.pop(place).set()


@asynccontextmanager
async def open_store(folder: Path) -> AsyncIterator[Store]:
    async with STORE.open(STORE.config(path=str(folder / "pilothouse.db"))) as store:
        yield store


@asynccontextmanager
async def open_house(
    store: Store,
    folder: Path,
    person: Person,
    engines: Mapping[EngineId, Engine] | None = None,
    tools: ToolServer | None = None,
    **changes: Any,
) -> AsyncIterator[Ports]:
    engines = engines or {INSTANT: InstantEngine()}
    settings = Settings(
        next(iter(engines)),
        str(folder),
        people=People({PERSON.id: "owner"}),
        known_channels=(MEMORY,),
    )
    settings = msgspec.structs.replace(settings, **changes)
    ports = Ports(
        topics=TOPICS,
        store=store,
        clock=SystemClock(),
        ids=new_id,
        settings=lambda: settings,
        engines=engines,
        channels={MEMORY: person.channel},
        tools=tools or NoTools(),
    )
    freeze_collector()
    with open_log(folder / "bench.log", Redactor()) as log:
        ports.log = log
        async with _running(ports):
            yield ports


@asynccontextmanager
async def _running(ports: Ports) -> AsyncIterator[None]:
    ready = anyio.Event()
    gateway = Gateway(ports, NodeInfo("bench", "here", os.getpid(), ""), on_ready=ready.set)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(gateway.run)
        await ready.wait()
        yield
        gateway.stop()
