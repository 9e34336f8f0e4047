"""A run as its client sees it, and the flow of frames that fills it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager

from pilothouse.channels.rpc.events import AgentEvent, Final

MOST_EVENTS = 1000


class Flow:
    """Says when the server is read on although a run is full."""

    def __init__(self) -> None:
        self._wanted = 0
        self._moved = asyncio.Event()

    @contextmanager
    def wanted(self) -> Iterator[None]:
        """Read on while somebody waits for a frame, which may come behind the events of a full run."""
        self._wanted += 1
        self.move()
        try:
            yield
        finally:
            self._wanted -= 1

    def move(self) -> None:
        self._moved.set()

    async def hold(self, run: Run) -> None:
        """Wait until the run has room, or somebody waits for a frame."""
        while run.is_full and not self._wanted:
            self._moved.clear()
            await self._moved.wait()


class Run:
    """Iterate it for its events, once. Leaving the loop drops the rest; `wait` then still returns the answer.

    `status`, `message` and `answer` are final when the loop or `wait` has ended.
    """

    def __init__(
        self, flow: Flow, cancel: Callable[[str, str], Awaitable[None]], id: str, session_id: str
    ) -> None:
        self.id = id
        self.session_id = session_id
        self.status = "running"
        self.message = ""
        self.answer = ""
        self._flow = flow
        self._cancel = cancel
        self._events: deque[AgentEvent] = deque()
        self._next_seq = 0
        self._came = asyncio.Event()
        self._is_over = asyncio.Event()
        self._is_read = False
        self._is_left = False

    async def __aiter__(self) -> AsyncIterator[AgentEvent]:
        self._is_read = True
        try:
            while True:
                while self._events:
                    yield self._take()
                if self._is_over.is_set():
                    return
                self._came.clear()
                with self._flow.wanted():
                    await self._came.wait()
        finally:
            self._is_read = False
            self._leave()

    async def wait(self) -> str:
        """Wait for the end and return the answer. Drops the events, unless a loop reads them."""
        if not self._is_read:
            self._leave()
        with self._flow.wanted():
            await self._is_over.wait()
        return self.answer

    async def cancel(self, reason: str = "") -> None:
        await self._cancel(self.id, reason)

    @property
    def is_full(self) -> bool:
        return len(self._events) >= MOST_EVENTS

    def put(self, seq: int, event: AgentEvent) -> None:
        """Take an event; one that was taken before is replayed, and changes nothing."""
        if seq < self._next_seq:
            return
        self._next_seq = seq + 1
        if isinstance(event, Final):
            self.answer = event.content
        if not self._is_left:
            self._events.append(event)
            self._came.set()

    def end(self, status: str, message: str) -> None:
        self.status, self.message = status, message
        self._is_over.set()
        self._came.set()

    def _take(self) -> AgentEvent:
        self._flow.move()
        return self._events.popleft()

    def _leave(self) -> None:
        self._is_left = True
        self._events.clear()
        self._flow.move()
