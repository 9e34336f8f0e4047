"""Keeps engines open, and stores the turns that they begin by themselves.

Each engine has a task of its own: one that cannot open, fails or will not close affects no other. While it is closed
its turns fail with a clear message; it is reopened with growing pauses. Opening is cancelled at stop, and closing has a
deadline.

A wake becomes an inbox row with its cause (law 9) before its turn is taken in. The wake's id is the row's key, so
a repeat changes nothing. The row keeps the session that it came from.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import msgspec
from anyio.abc import TaskGroup

from pilothouse.core.engine import Engine, Wake, Wakes
from pilothouse.core.errors import find_fenced
from pilothouse.core.ids import EngineId, MessageId, UserId
from pilothouse.core.message import WAKE, Author, InboundMessage, clean_text, inbox_key
from pilothouse.core.store import Tx
from pilothouse.runtime.ports import INBOX, Ports

_encode = msgspec.json.Encoder().encode

OPEN_WITHIN_S = 30.0
"""Turns start without waiting longer; a slow engine joins when it is ready."""
CLOSE_WITHIN_S = 10.0
AGAIN_AFTER_S = (1.0, 5.0, 30.0, 300.0)


async def store_wakes(ports: Ports, id: EngineId, engine: Wakes) -> None:
    """Store each wake while the engine is open. An error here ends only this, not the engine's other turns."""
    try:
        async for wake in engine.wakes():
            known = await ports.persist(lambda tx, wake=wake: put_wake(tx, ports, id, wake))
            ports.log("engine.woke", engine=id, session=wake.session_id, cause=wake.cause, known=known)
            ports.signals.poke(INBOX)
    except Exception as error:
        if find_fenced(error):
            raise
        ports.log("engine.wakes_failed", engine=id, level="error", error=error)


def put_wake(tx: Tx, ports: Ports, engine: EngineId, wake: Wake) -> bool:
    """Store a wake. False if its session is unknown."""
    session = tx.sessions.get(wake.session_id)
    conversation = None if session is None else tx.conversations.get(session.conversation_id)
    if session is None or conversation is None:
        return False
    at = ports.clock.now()
    message = InboundMessage(
        conversation.address,
        Author(UserId(f"engine:{engine}"), engine, is_bot=True),
        wake.id,
        clean_text(wake.cause),
        WAKE,
        private=conversation.private,
        sent_at=at,
        session_id=session.id,
    )
    tx.inbox.put(
        id=MessageId(ports.ids("msg")),
        key=inbox_key(conversation.id, f"wake:{wake.id}"),
        conversation_id=conversation.id,
        kind=WAKE,
        body=_encode(message),
        at=at,
    )
    return True


class EngineHost:
    def __init__(self, ports: Ports, *, close_within_s: float = CLOSE_WITHIN_S) -> None:
        self._ports = ports
        self._close_within_s = close_within_s
        self._known = dict(ports.engines)
        self._opened: dict[EngineId, Engine] = {}
        self._tried: dict[EngineId, anyio.Event] = {}
        self._scopes: dict[EngineId, anyio.CancelScope] = {}
        self._closing = anyio.Event()

    @asynccontextmanager
    async def open_all(self, stopping: anyio.Event) -> AsyncIterator[None]:
        """Keep `ports.engines` up to date with the engines that are open."""
        self._ports.engines = self._opened
        async with anyio.create_task_group() as tasks:
            for id, engine in self._known.items():
                self._tried[id] = anyio.Event()
                self._scopes[id] = anyio.CancelScope()
                tasks.start_soon(self._host, id, engine)
            await self._wait_until_tried(stopping)
            yield
            self._close(tasks)

    async def _wait_until_tried(self, stopping: anyio.Event) -> None:
        async with anyio.create_task_group() as waiting:

            async def give_up() -> None:
                with anyio.move_on_after(OPEN_WITHIN_S):
                    await stopping.wait()
                waiting.cancel_scope.cancel()

            waiting.start_soon(give_up)
            for tried in self._tried.values():
                await tried.wait()
            waiting.cancel_scope.cancel()

    def _close(self, tasks: TaskGroup) -> None:
        self._closing.set()
        for id, scope in self._scopes.items():
            if id not in self._opened:
                scope.cancel()
        tasks.cancel_scope.deadline = anyio.current_time() + self._close_within_s

    async def _host(self, id: EngineId, engine: Engine) -> None:
        broken = 0
        with self._scopes[id]:
            while not self._closing.is_set():
                await self._keep_open(id, engine)
                with anyio.move_on_after(AGAIN_AFTER_S[min(broken, len(AGAIN_AFTER_S) - 1)]):
                    await self._closing.wait()
                broken += 1

    async def _until_closing(self, id: EngineId, opened: Engine) -> None:
        async with anyio.create_task_group() as tasks:
            if isinstance(opened, Wakes):
                tasks.start_soon(store_wakes, self._ports, id, opened)
            await self._closing.wait()
            tasks.cancel_scope.cancel()

    async def _keep_open(self, id: EngineId, engine: Engine) -> None:
        """Return when the engine fails or the host closes."""
        try:
            async with engine as opened:
                self._opened[id] = opened
                self._tried[id].set()
                await self._until_closing(id, opened)
        except Exception as error:
            if find_fenced(error):
                raise
            deed = "broke" if id in self._opened else "open_failed"
            self._ports.log(f"engine.{deed}", engine=id, level="error", error=error)
        except anyio.get_cancelled_exc_class():
            deed = "close" if id in self._opened else "open"
            self._ports.log("engine.given_up", engine=id, deed=deed)
            raise
        finally:
            self._opened.pop(id, None)
            self._tried[id].set()
