"""An engine in this process, of the port's shape, that takes no time: what is left is what Pilothouse itself costs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

from pilothouse.core.engine import Brief
from pilothouse.core.event import EngineEvent, ResumeToken, SessionStarted, TextDelta, TurnEnded, Usage
from pilothouse.core.ids import EngineId
from pilothouse.core.turn import Prompt

INSTANT = EngineId("instant")


class InstantSession:
    def __init__(self, brief: Brief) -> None:
        self._resume = ResumeToken(INSTANT, brief.session_id, brief.workspace)

    async def run(self, prompt: Prompt) -> AsyncIterator[EngineEvent]:
        yield SessionStarted(self._resume, model="none")
        yield TextDelta("b1", f"You said: {prompt.text}")
        yield TurnEnded("completed", usage=Usage(steps=1), resume=self._resume)


class InstantEngine:
    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return None

    @asynccontextmanager
    async def open(self, brief: Brief) -> AsyncIterator[InstantSession]:
        yield InstantSession(brief)
