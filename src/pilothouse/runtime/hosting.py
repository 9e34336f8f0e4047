"""Keeps engines open, each in a task of its own: one that cannot open, breaks or will not close takes nothing down.

While it is not there, its turns fail with a clear word. One that breaks is opened again, ever more patiently.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from pilothouse.core.engine import Engine
from pilothouse.core.ids import EngineId
from pilothouse.runtime.fencing import fenced_in
from pilothouse.runtime.ports import Ports

OPEN_WITHIN_S = 30.0
"""Turns start without an engine that takes longer; it joins them once it is ready."""
AGAIN_AFTER_S = (1.0, 5.0, 30.0, 300.0)


class Hosting:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._known = dict(ports.engines)
        self._opened: dict[EngineId, Engine] = {}
        self._tried: dict[EngineId, anyio.Event] = {}
        self._closing = anyio.Event()

    @asynccontextmanager
    async def open_all(self) -> AsyncIterator[None]:
        """Within it, `ports.engines` has those that are open at this moment."""
        self._ports.engines = self._opened
        async with anyio.create_task_group() as tasks:
            for id, engine in self._known.items():
                self._tried[id] = anyio.Event()
                tasks.start_soon(self._host, id, engine)
            with anyio.move_on_after(OPEN_WITHIN_S):
                for tried in self._tried.values():
                    await tried.wait()
            yield
            self._closing.set()

    async def _host(self, id: EngineId, engine: Engine) -> None:
        broken = 0
        while not self._closing.is_set():
            try:
                async with engine as opened:
                    self._opened[id] = opened
                    self._tried[id].set()
                    await self._closing.wait()
                    return
            except Exception as error:
                if fenced_in(error):
                    raise
                deed = "broke" if id in self._opened else "open_failed"
                self._ports.log(f"engine.{deed}", engine=id, error=f"{type(error).__name__}: {error}")
            finally:
                self._opened.pop(id, None)
                self._tried[id].set()
            with anyio.move_on_after(AGAIN_AFTER_S[min(broken, len(AGAIN_AFTER_S) - 1)]):
                await self._closing.wait()
            broken += 1
