"""A turn that the CLI began by itself: kept, in order and bounded, until a turn of the house takes it in."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from pilothouse.core.event import EngineEvent, ResumeToken, SessionStarted, TurnEnded
from pilothouse.core.outcome import Failure
from pilothouse.engines.claude.turns import Step

MAX_STEPS = 2000
MAX_BYTES = 4 * 1024 * 1024

WHY = {"background_task": "A background task ended.", "loop_wakeup": "It had asked to be woken."}
NO_REASON = "Claude Code went on by itself."

GONE = Failure(
    "crash",
    "Claude Code went on by itself, and its process is gone. Say “continue” to go on in the same session.",
)


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
