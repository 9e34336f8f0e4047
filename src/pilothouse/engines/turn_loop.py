"""The stream of a turn, for sessions whose turns are translators: what begins it, then what comes next, to its end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Generic, TypeVar

from pilothouse.core.engine import Blobs, Step
from pilothouse.core.event import EngineEvent, TurnEnded
from pilothouse.core.outcome import Failure
from pilothouse.core.turn import Prompt
from pilothouse.engines.media import keep_media
from pilothouse.engines.turn_events import TurnEvents

BUSY = Failure(
    "bad_request", "This session's last turn has not ended yet. Read it to its end, or leave the session."
)

T = TypeVar("T", bound=TurnEvents)


class TurnLoop(Generic[T]):
    """A session says how a turn begins, what comes next in it, and what its end means."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._turn: T | None = None
        self.completed = False
        """True once a turn of this session has completed."""

    async def run(self, prompt: Prompt) -> AsyncIterator[EngineEvent]:
        if self._turn is not None and not self._turn.ended:
            yield TurnEnded("failed", failure=BUSY)
            return
        turn, steps = await self._begin(prompt)
        while True:
            for step in steps:
                event = await keep_media(self._blobs, step)
                if isinstance(event, TurnEnded):
                    self.completed = self.completed or event.outcome == "completed"
                    self._note_end(turn, event)
                yield event
            if turn.ended:
                return
            steps = await self._next(turn)

    async def _begin(self, prompt: Prompt) -> tuple[T, Sequence[Step]]:
        raise NotImplementedError

    async def _next(self, turn: T) -> Sequence[Step]:
        raise NotImplementedError

    def _note_end(self, turn: T, end: TurnEnded) -> None:
        raise NotImplementedError
