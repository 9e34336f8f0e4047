"""Connections that are kept for the next request: a handshake costs more than most answers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
from msgspec import Struct

from pilothouse.channels.telegram.address import Origin, Server
from pilothouse.channels.telegram.connection import Connection, Reply, Request
from pilothouse.channels.telegram.trouble import NetworkDown, Trouble
from pilothouse.channels.telegram.way import Way

AT_ONCE = 64
SEAT_S = 30.0
"""How long a request waits for others to end."""
KEPT = 16
KEPT_S = 30.0
"""Servers close what is idle for longer, often just when the next request is on its way."""


class _Kept(Struct, frozen=True):
    origin: Origin
    connection: Connection
    until: float


class Pool:
    def __init__(self, way: Way) -> None:
        self._way = way
        self._seats = anyio.Semaphore(AT_ONCE)
        self._kept: list[_Kept] = []

    async def ask(self, server: Server, request: Request, limit: int, wait_s: float) -> Reply | Trouble:
        with anyio.move_on_after(SEAT_S) as waiting:
            await self._seats.acquire()
        if waiting.cancelled_caught:
            return NetworkDown(f"{AT_ONCE} requests are on their way already, and none ended in time")
        try:
            connection = await self._take(server.origin) or await self._way.open(server)
            if isinstance(connection, Trouble):
                return connection
            return await self._ask(connection, server.origin, request, limit, wait_s)
        finally:
            self._seats.release()

    async def close(self) -> None:
        while self._kept:
            await self._kept.pop().connection.close()

    async def _ask(
        self, connection: Connection, origin: Origin, request: Request, limit: int, wait_s: float
    ) -> Reply | Trouble:
        ready = False
        try:
            answer = await connection.ask(request, limit, wait_s)
            ready = connection.make_ready()
        finally:
            if not ready:
                await connection.close()
        if ready:
            await self._keep(connection, origin)
        return answer

    async def _take(self, origin: Origin) -> Connection | None:
        """The one that was used last: the server has most likely not closed it."""
        while one := next((one for one in reversed(self._kept) if one.origin == origin), None):
            self._kept.remove(one)
            if one.until > anyio.current_time() and one.connection.is_quiet:
                return one.connection
            await one.connection.close()
        return None

    async def _keep(self, connection: Connection, origin: Origin) -> None:
        now = anyio.current_time()
        self._kept.append(_Kept(origin, connection, now + KEPT_S))
        first = max(len(self._kept) - KEPT, sum(one.until < now for one in self._kept))
        over, self._kept = self._kept[:first], self._kept[first:]
        for one in over:
            await one.connection.close()


@asynccontextmanager
async def open_pool(way: Way) -> AsyncIterator[Pool]:
    pool = Pool(way)
    try:
        yield pool
    finally:
        await pool.close()
