"""A turn that the CLI began by itself: kept, in order and bounded, until a turn of the house takes it in.

The turns that processes began by themselves: told once to whoever listens, kept until a session takes them in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Generic, Protocol, TypeVar

import anyio

from pilothouse.core.engine import Brief, Step, Wake
from pilothouse.core.event import EngineEvent, ResumeToken, SessionStarted, TurnEnded
from pilothouse.core.ids import SessionId
from pilothouse.core.outcome import Failure

MAX_STEPS = 2000
MAX_BYTES = 4 * 1024 * 1024

WHY = {"background_task": "A background task ended.", "loop_wakeup": "It had asked to be woken."}
NO_REASON = "Claude Code went on by itself."

GONE = Failure(
    "crash",
    "Claude Code went on by itself, and its process is gone. Say “continue” to go on in the same session.",
)

MAX_WAKES = 1000


class Unasked:
    """`over` says that nothing more of it will come."""

    def __init__(self, id: str, source: str) -> None:
        self.id = id
        self.cause = WHY.get(source, NO_REASON)
        self.over = False
        self._steps: list[Step] = []
        self._bytes = 0
        self._taken = anyio.Event()

    async def put(self, steps: Sequence[Step], size: int) -> bool:
        """Waits for room, and with it the CLI. False if somebody took it in meanwhile: these steps are theirs."""
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


def settled_wake(resume: ResumeToken | None, *, told: bool) -> tuple[EngineEvent, ...]:
    """The stream of one that is no more to be had: taken in by another turn, or gone with its process."""
    end = TurnEnded("completed") if told else TurnEnded("failed", failure=GONE)
    return SessionStarted(resume), end


class Process(Protocol):
    @property
    def wake_source(self) -> str: ...
    @property
    def owner(self) -> SessionId: ...
    @property
    def session(self) -> str: ...


P = TypeVar("P", bound=Process)


class KeptWakes(Generic[P]):
    def __init__(self, new_id: Callable[[], str], log: Callable[..., None]) -> None:
        self._new_id = new_id
        self._log = log
        self._processes: dict[str, P] = {}
        self._told: deque[str] = deque(maxlen=MAX_WAKES)
        self._news: deque[Wake] = deque(maxlen=MAX_WAKES)
        self._woken = anyio.Event()

    async def tell(self) -> AsyncIterator[Wake]:
        while True:
            while self._news:
                yield self._news.popleft()
            self._woken = anyio.Event()
            await self._woken.wait()

    def begin(self, process: P) -> Unasked:
        unasked = Unasked(self._new_id(), process.wake_source)
        while len(self._processes) >= MAX_WAKES:
            self._processes.pop(next(iter(self._processes)))
        self._processes[unasked.id] = process
        self._news.append(Wake(process.owner, unasked.cause, unasked.id))
        self._woken.set()
        self._log("process.woke", engine="claude", session=process.session, cause=unasked.cause)
        return unasked

    def process_of(self, id: str) -> P:
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
