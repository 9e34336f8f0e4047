"""An engine in the same process, of the same shape as the real ones: each turn is an async function of the test's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

import anyio
from anyio.abc import ObjectSendStream

from pilothouse.core.ask import Ask, Decision
from pilothouse.core.engine import Brief
from pilothouse.core.event import (
    Asked,
    EngineEvent,
    ResumeToken,
    SessionStarted,
    TextDelta,
    ToolCall,
    ToolFinished,
    ToolStarted,
    TurnEnded,
    Usage,
)
from pilothouse.core.ids import AskId, CallId, EngineId
from pilothouse.core.turn import Prompt

PUPPET = EngineId("puppet")


class Strings:
    """What a turn of the puppet is pulled by."""

    def __init__(self, prompt: Prompt, brief: Brief, events: ObjectSendStream[EngineEvent]) -> None:
        self.prompt = prompt
        self.brief = brief
        self.interrupted = anyio.Event()
        self.steered: list[str] = []
        self._events = events
        self._answers: dict[AskId, Decision] = {}
        self._answered: dict[AskId, anyio.Event] = {}

    async def emit(self, *events: EngineEvent) -> None:
        for event in events:
            await self._events.send(event)

    async def start(self, value: str = "token") -> None:
        await self.emit(SessionStarted(ResumeToken(PUPPET, value, self.brief.workspace), model="m1"))

    async def say(self, text: str, block: str = "b1") -> None:
        await self.emit(TextDelta(block, text))

    async def tool(self, id: str = "call-1", kind: str = "command", title: str = "make") -> None:
        await self.emit(ToolStarted(ToolCall(CallId(id), kind, title)))  # type: ignore[arg-type]

    async def tool_done(self, id: str = "call-1", ok: bool = True) -> None:
        await self.emit(ToolFinished(CallId(id), ok))

    async def end(self, answer: str = "", cost_usd: float | None = None) -> None:
        await self.emit(TurnEnded("completed", answer, usage=Usage(cost_usd=cost_usd)))

    async def ask(self, ask: Ask) -> Decision:
        self._answered[ask.id] = anyio.Event()
        await self.emit(Asked(ask))
        await self._answered[ask.id].wait()
        return self._answers[ask.id]

    def answer(self, ask_id: AskId, decision: Decision) -> None:
        self._answers[ask_id] = decision
        self._answered[ask_id].set()


Play = Callable[[Strings], Awaitable[None]]


async def echo(strings: Strings) -> None:
    await strings.start()
    await strings.say(f"you said: {strings.prompt.text}")
    await strings.end()


class PuppetSession:
    accepts_images = True

    def __init__(self, engine: PuppetEngine, brief: Brief) -> None:
        self._engine = engine
        self._brief = brief
        self._strings: Strings | None = None

    async def run(self, prompt: Prompt) -> AsyncIterator[EngineEvent]:
        send, receive = anyio.create_memory_object_stream[EngineEvent](1000)
        self._strings = strings = Strings(prompt, self._brief, send)
        self._engine.turns.append(strings)
        play = self._engine.next_play()

        async def pull() -> None:
            async with send:
                await play(strings)

        self._engine.tasks.start_soon(pull)
        async with receive:
            async for event in receive:
                yield event

    async def interrupt(self) -> None:
        if self._strings is not None:
            self._strings.interrupted.set()

    async def steer(self, prompt: Prompt) -> bool:
        if self._strings is None or not self._engine.steerable:
            return False
        self._strings.steered.append(prompt.text)
        return True

    async def answer(self, ask_id: AskId, decision: Decision) -> None:
        if self._strings is not None:
            self._strings.answer(ask_id, decision)


class PuppetEngine:
    """Plays `plays` in order, the last one for ever."""

    def __init__(self, *plays: Play, steerable: bool = True) -> None:
        self.plays = list(plays) or [echo]
        self.steerable = steerable
        self.turns: list[Strings] = []
        self.briefs: list[Brief] = []

    async def __aenter__(self) -> Self:
        self._group = anyio.create_task_group()
        self.tasks = await self._group.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        self.tasks.cancel_scope.cancel()
        return await self._group.__aexit__(kind, error, trace)

    @asynccontextmanager
    async def open(self, brief: Brief) -> AsyncIterator[PuppetSession]:
        self.briefs.append(brief)
        yield PuppetSession(self, brief)

    def next_play(self) -> Play:
        return self.plays.pop(0) if len(self.plays) > 1 else self.plays[0]
