"""Turns that a program began by itself: announced once, and kept until a session reads them.

Each is kept in order and bounded; a full one makes its program wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import anyio

from pilothouse.core.engine import Brief, Step, Wake
from pilothouse.core.event import EngineEvent, SessionStarted, TurnEnded
from pilothouse.core.ids import EngineId, SessionId
from pilothouse.core.outcome import Failure

MAX_STEPS = 2000
MAX_BYTES = 4 * 1024 * 1024
MAX_WAKES = 1000

NO_REASON = "{program} went on by itself."
LOST = "{program} went on by itself, and its process has ended. Say “continue” to go on in the same session."


class WokenTurn:
    """The steps of one such turn. `over` is True once its end is among them."""

    def __init__(self, id: str, cause: str) -> None:
        self.id = id
        self.cause = cause
        self.over = False
        self._steps: list[Step] = []
        self._bytes = 0
        self._taken = anyio.Event()

    async def put(self, steps: Sequence[Step], size: int) -> bool:
        """Keep the steps, after waiting for room. Return False if a session took the turn meanwhile: they are its."""
        if len(self._steps) >= MAX_STEPS or self._bytes >= MAX_BYTES:
            await self._taken.wait()
        if self._taken.is_set():
            return False
        self.put_last(steps, size)
        return True

    def put_last(self, steps: Sequence[Step], size: int = 0) -> None:
        self._steps += steps
        self._bytes += size
        self.over = self.over or any(isinstance(step, TurnEnded) for step in steps)

    def take(self) -> list[Step]:
        self._taken.set()
        return self._steps


class WakingProcess(Protocol):
    @property
    def wake_source(self) -> str: ...
    @property
    def owner(self) -> SessionId: ...
    @property
    def session(self) -> str: ...


P = TypeVar("P", bound=WakingProcess)


class WokenTurns(Generic[P]):
    """`reasons` gives words for each `wake_source` that is known."""

    def __init__(
        self,
        engine: EngineId,
        program: str,
        reasons: Mapping[str, str],
        new_id: Callable[[], str],
        log: Callable[..., None],
    ) -> None:
        self._engine = engine
        self._program = program
        self._reasons = reasons
        self._new_id = new_id
        self._log = log
        self._processes: dict[str, P] = {}
        self._taken: deque[str] = deque(maxlen=MAX_WAKES)
        self._news: deque[Wake] = deque(maxlen=MAX_WAKES)
        self._woken = anyio.Event()

    async def announce(self) -> AsyncIterator[Wake]:
        while True:
            while self._news:
                yield self._news.popleft()
            self._woken = anyio.Event()
            await self._woken.wait()

    def begin(self, process: P) -> WokenTurn:
        cause = self._reasons.get(process.wake_source) or NO_REASON.format(program=self._program)
        turn = WokenTurn(self._new_id(), cause)
        while len(self._processes) >= MAX_WAKES:
            self._processes.pop(next(iter(self._processes)))
        self._processes[turn.id] = process
        self._news.append(Wake(process.owner, cause, turn.id))
        self._woken.set()
        self._log("process.woke", engine=self._engine, session=process.session, cause=cause)
        return turn

    def process_of(self, id: str) -> P:
        return self._processes[id]

    def mark_taken(self, id: str) -> None:
        """Note that a session reads this turn now."""
        self._processes.pop(id, None)
        self._taken.append(id)

    def settled_stream(self, brief: Brief) -> tuple[EngineEvent, ...]:
        """Return the whole stream of a wake that another turn took in, or whose process is lost; else nothing."""
        if not brief.wake or brief.wake in self._processes:
            return ()
        if brief.wake in self._taken:
            return SessionStarted(brief.resume), TurnEnded("completed")
        lost = Failure("crash", LOST.format(program=self._program))
        return SessionStarted(brief.resume), TurnEnded("failed", failure=lost)
