"""The turns that processes began by themselves: told once to whoever listens, kept until a session takes them in."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable

import anyio

from pilothouse.core.engine import Brief, Wake
from pilothouse.core.event import EngineEvent
from pilothouse.engines.claude.process import ClaudeProcess
from pilothouse.engines.claude.unasked import Unasked, settled_wake

MAX_WAKES = 1000


class KeptWakes:
    def __init__(self, new_id: Callable[[], str], log: Callable[..., None]) -> None:
        self._new_id = new_id
        self._log = log
        self._processes: dict[str, ClaudeProcess] = {}
        self._told: deque[str] = deque(maxlen=MAX_WAKES)
        self._news: deque[Wake] = deque(maxlen=MAX_WAKES)
        self._woken = anyio.Event()

    async def tell(self) -> AsyncIterator[Wake]:
        while True:
            while self._news:
                yield self._news.popleft()
            self._woken = anyio.Event()
            await self._woken.wait()

    def begin(self, process: ClaudeProcess) -> Unasked:
        unasked = Unasked(self._new_id(), process.wake_source)
        while len(self._processes) >= MAX_WAKES:
            self._processes.pop(next(iter(self._processes)))
        self._processes[unasked.id] = process
        self._news.append(Wake(process.owner, unasked.cause, unasked.id))
        self._woken.set()
        self._log("process.woke", engine="claude", session=process.session, cause=unasked.cause)
        return unasked

    def process_of(self, id: str) -> ClaudeProcess:
        return self._processes[id]

    def took_in(self, id: str) -> None:
        """A turn has it now."""
        self._processes.pop(id, None)
        self._told.append(id)

    def settled(self, brief: Brief) -> tuple[EngineEvent, ...]:
        """The whole stream of a wake that is no more to be had; empty for any other, and where there is no wake."""
        if not brief.wake or brief.wake in self._processes:
            return ()
        return settled_wake(brief.resume, told=brief.wake in self._told)
