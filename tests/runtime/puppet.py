"""An engine in the same process, of the same shape as the real ones: each turn is an async function of the test's."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.abc import ObjectSendStream
from tests.calls import with_call

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
from pilothouse.core.outcome import Failure
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

    async def tool(self, id: str = "call-1", kind: Any = "command", title: str = "make") -> None:
        await self.emit(ToolStarted(ToolCall(CallId(id), kind, title)))

    async def tool_done(self, id: str = "call-1", ok: bool = True) -> None:
        await self.emit(ToolFinished(CallId(id), ok))

    async def end(self, answer: str = "", cost_usd: float | None = None) -> None:
        await self.emit(TurnEnded("completed", answer, usage=Usage(cost_usd=cost_usd)))

    async def fail(
        self, kind: Any, text: str = "It failed.", retry_at: float | None = None, fix: str = ""
    ) -> None:
        await self.emit(TurnEnded("failed", failure=Failure(kind, text, retry_at, fix=fix)))

    async def ask(self, ask: Ask) -> Decision:
        await self.emit(Asked(with_call(ask)))
        return await self.answer_to(ask)

    async def answer_to(self, ask: Ask) -> Decision:
        await self._event(ask.id).wait()
        return self._answers[ask.id]

    def answer(self, ask_id: AskId, decision: Decision) -> None:
        self._answers[ask_id] = decision
        self._event(ask_id).set()

    def _event(self, ask_id: AskId) -> anyio.Event:
        return self._answered.setdefault(ask_id, anyio.Event())


Play = Callable[[Strings], Awaitable[None]]


async def echo(strings: Strings) -> None:
    await strings.start()
    await strings.say(f"you said: {strings.prompt.text}")
    await strings.end()


async def until_interrupted(strings: Strings) -> None:
    """Works on something until somebody stops it."""
    await strings.start()
    await strings.interrupted.wait()
    await strings.emit(TurnEnded("cancelled"))


async def deaf(strings: Strings) -> None:
    """Starts, and then neither says nor hears anything."""
    await strings.start()
    await anyio.sleep_forever()


class BareSession:
    """A session that can do nothing but run. What its play raises, it raises."""

    def __init__(self, engine: PuppetEngine, brief: Brief) -> None:
        self._engine = engine
        self._brief = brief
        self._strings: Strings | None = None
        self._scope: anyio.CancelScope | None = None

    async def run(self, prompt: Prompt) -> AsyncIterator[EngineEvent]:
        send, receive = anyio.create_memory_object_stream[EngineEvent](1000)
        self._strings = strings = Strings(prompt, self._brief, send)
        self._engine.turns.append(strings)
        play = self._engine.next_play()
        self._scope = scope = anyio.CancelScope()
        raised: list[Exception] = []

        async def pull() -> None:
            with scope:
                async with send:
                    try:
                        await play(strings)
                    except anyio.BrokenResourceError:  # nobody listens any more
                        pass
                    except Exception as error:  # noqa: BLE001 - raised where the engine would raise it
                        raised.append(error)

        self._engine.tasks.start_soon(pull)
        async with receive:
            async for event in receive:
                yield event
        if raised:
            raise raised[0]

    def close(self) -> None:
        if self._scope is not None:
            self._scope.cancel()


class PuppetSession(BareSession):
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


async def _at_once() -> None:
    pass


class PuppetEngine:
    """Plays `plays` in order, the last one for ever. `opening` and `closing` are awaited around each session."""

    def __init__(
        self,
        *plays: Play,
        steerable: bool = True,
        session: type[BareSession] = PuppetSession,
        opening: Callable[[], Awaitable[None]] = _at_once,
        closing: Callable[[], Awaitable[None]] = _at_once,
    ) -> None:
        self.plays = list(plays) or [echo]
        self.steerable = steerable
        self.turns: list[Strings] = []
        self.briefs: list[Brief] = []
        self.open_sessions = 0
        self._session = session
        self._opening = opening
        self._closing = closing

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
    async def open(self, brief: Brief) -> AsyncIterator[BareSession]:
        self.briefs.append(brief)
        await self._opening()
        session = self._session(self, brief)
        self.open_sessions += 1
        try:
            yield session
            await self._closing()
        finally:
            session.close()
            self.open_sessions -= 1

    def next_play(self) -> Play:
        return self.plays.pop(0) if len(self.plays) > 1 else self.plays[0]
