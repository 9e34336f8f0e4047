"""One leased session: turns in, events out.

Rules: once `run` has begun, a failure is an event. Every call is judged before it runs; one that ran unjudged ends the turn.
A stop also ends the commands that Codex would leave running. `leave` frees everything in bounded time, also when it is
cancelled. A session whose process died opens its thread again on the next one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import anyio
from msgspec import Struct

from pilothouse.core.ask import Decision
from pilothouse.core.engine import Blobs, Brief, Judge, Step
from pilothouse.core.errors import EngineError
from pilothouse.core.event import EngineEvent, Notice, TurnEnded
from pilothouse.core.ids import AskId
from pilothouse.core.outcome import Failure
from pilothouse.core.turn import Prompt
from pilothouse.engines.codex import wire
from pilothouse.engines.codex.config import Price
from pilothouse.engines.codex.dialogue import Dialogue
from pilothouse.engines.codex.failures import explain_refusal
from pilothouse.engines.codex.link import ENDED, CodexLink, CodexPort, WokenThread
from pilothouse.engines.codex.prompt import PromptComposer
from pilothouse.engines.codex.thread_list import RunningTurn, thread_of
from pilothouse.engines.codex.translate import TurnTranslator
from pilothouse.engines.codex.usage import TurnUsage
from pilothouse.engines.codex.woken import OTHER_CLIENT
from pilothouse.engines.dialogue import judge_in
from pilothouse.engines.link import Exit, explain_exit
from pilothouse.engines.media import keep_media

BUSY = Failure(
    "bad_request", "This session's last turn has not ended yet. Read it to its end, or leave the session."
)
LEAKS = Failure(
    "permission",
    "Codex ran a call without asking Pilothouse first, so the turn was stopped. Run `pilothouse doctor`.",
)


PILOTHOUSE = "pilothouse"
"""The sender of a prompt that only tells the engine to go on."""


class Access(Struct, frozen=True):
    """The part of the engine that a session uses."""

    lease: Callable[[Brief], Awaitable[tuple[CodexLink, CodexPort]]]
    watch: Callable[[CodexLink, CodexPort], None]
    blobs: Blobs
    judge: Judge
    new_id: Callable[[], str]
    tell_s: float
    woken: WokenThread | None = None
    """The running turn that the session is opened for, if others began it."""
    settled: tuple[EngineEvent, ...] = ()
    """The whole stream of such a turn, if it cannot be read any more."""


class ThreadPlan(Struct, frozen=True):
    """Parameters of the thread and of each turn, and what people are told at the start."""

    thread: dict[str, Any]
    turn: dict[str, Any]
    prices: dict[str, Price]
    notices: tuple[Notice, ...] = ()
    guarded: bool = True
    """A call that was not judged ends the turn."""


class CodexSession:
    accepts_images = True

    def __init__(self, access: Access, brief: Brief, plan: ThreadPlan, composer: PromptComposer) -> None:
        self._access = access
        self._brief = brief
        self._plan = plan
        self._composer = composer
        self._thread = brief.resume.value if brief.resume else ""
        self._fork_at = brief.resume_at if brief.resume else ""
        self._model = ""
        self._link: CodexLink | None = None
        self._port: CodexPort | None = None
        self._turn: TurnTranslator | None = None
        self._dialogue: Dialogue | None = None
        self._woken = access.woken
        self._found: RunningTurn | None = None
        """A turn that ran already when the thread was opened."""
        self._notices: tuple[Notice, ...] = plan.notices
        self._ran_commands = False
        self.completed = False
        """True once a turn of this session has completed."""

    async def run(self, prompt: Prompt) -> AsyncIterator[EngineEvent]:
        if self._running or self._access.settled:
            for event in self._access.settled or (TurnEnded("failed", failure=BUSY),):
                yield event
            return
        turn, steps = await self._begin(prompt)
        while True:
            for step in steps:
                event = await keep_media(self._access.blobs, step)
                if isinstance(event, TurnEnded):
                    await self._end(event)
                yield event
            if turn.ended:
                return
            steps = await self._next(turn)

    async def interrupt(self) -> None:
        turn, link, port = self._turn, self._link, self._port
        if turn is None or turn.ended or link is None or port is None or not port.busy:
            return
        turn.interrupted = True
        self._access.watch(link, port)
        await link.stop_turn(port)

    async def steer(self, prompt: Prompt) -> bool:
        turn = self._turn
        if turn is None or turn.ended or turn.interrupted or not turn.turn_id:
            return False
        return await self._push((await self._composer.compose(prompt)).input)

    async def answer(self, ask_id: AskId, decision: Decision) -> None:
        dialogue, link = self._dialogue, self._link
        if dialogue is None or link is None or (answer := dialogue.answer(ask_id, decision)) is None:
            return
        if answer.words:  # first: the model then reads them together with the refusal
            await self._push([{"type": "text", "text": answer.words}], told=False)
        if answer.request is not None:
            await link.answer(answer.request, answer.reply)
        if answer.stops:
            await self.interrupt()

    async def enter(self) -> None:
        """Open the thread on a living process. Raises `EngineError`."""
        if self._access.settled:
            return
        woken, self._woken = self._woken, None
        if woken is not None:
            self._link, self._port, self._thread = woken.link, woken.port, woken.session
            reply, self._found = woken.link.take_woken(woken)
            self._model = str(reply.result.get("model") or "")
            return
        self._link, self._port = await self._access.lease(self._brief)
        link, port, params = self._link, self._port, self._plan.thread
        if self._fork_at:
            reply = await link.fork_thread(port, self._thread, self._fork_at, params)
        else:
            reply = await link.open_thread(port, self._thread, params)
        if reply.error is not None:
            raise EngineError(await self._explain(reply.error))
        self._thread, self._fork_at = thread_of(reply), ""
        self._model = str(reply.result.get("model") or "")
        self._found = await link.find_running(port)

    async def leave(self) -> None:
        """Give the session back, after stopping a turn that still runs."""
        with anyio.CancelScope(shield=True):
            link, port = self._link, self._port
            if link is None or port is None:
                return
            port.mailbox.discard()
            if port.busy:
                await self.interrupt()
                await link.expect_end(port)
            if not link.alive:
                await link.ended.wait()
            elif self._ran_commands or (self._turn is not None and self._turn.ran_commands):
                await link.send("thread/backgroundTerminals/clean", {"threadId": self._thread})
            await link.give_back(port)
            self._link = self._port = None

    @property
    def _running(self) -> bool:
        return self._turn is not None and not self._turn.ended

    async def _begin(self, prompt: Prompt) -> tuple[TurnTranslator, Sequence[Step]]:
        message = await self._composer.compose(prompt)
        turn = self._turn = self._translator()
        try:
            reply = await self._start(prompt, message.input)
            if reply.error is ENDED:  # it had died since the last turn, and nothing has begun
                reply = await self._start(prompt, message.input)
        except EngineError as error:
            return self._turn, self._turn.fail(error.failure)
        turn = self._turn
        notices, self._notices = (*self._notices, *message.notices), ()
        opening = [*turn.begin(), *turn.emit(notices)]
        if reply.error is not None:
            assert self._port is not None
            self._port.over.set()
            return turn, [*opening, *turn.fail(await self._explain(reply.error))]
        turn.turn_id = str(reply.result.get("turn", {}).get("id") or "")
        if turn.interrupted:  # before there was a turn to stop
            await self.interrupt()
        return turn, opening

    async def _start(self, prompt: Prompt, given: list[dict[str, Any]]) -> wire.Reply:
        """Start a turn on a living process, or join the one that runs, with a new translator. Raises `EngineError`."""
        link, port = await self._ready()
        turn = self._translator()
        turn.interrupted = self._turn is not None and self._turn.interrupted
        self._turn = turn
        # The window that began a turn decides which of its calls are asked about.
        elsewhere = prompt.wake and self._access.woken and self._access.woken.wake_source == OTHER_CLIENT
        guarded = self._plan.guarded and not elsewhere
        judge = judge_in(self._access.judge, link.isolation)
        self._dialogue = Dialogue(turn, judge, self._brief, guarded=guarded)
        found, self._found = self._found, None
        if found is not None and await self._join(found, prompt, given):
            return wire.Reply(0, {"turn": {"id": found.id}})
        port.begin()
        return await link.start_turn(port, {"threadId": self._thread, "input": given, **self._plan.turn})

    async def _join(self, found: RunningTurn, prompt: Prompt, given: list[dict[str, Any]]) -> bool:
        """Stream the turn that runs already, after a restart of the gateway. A message that it does not have is added to it.

        Returns False if it has ended: also if it waits for an answer to a request that nobody can read any more.
        """
        turn, link, port = self._turn, self._link, self._port
        assert turn is not None and link is not None and port is not None
        if not found.readable:
            await link.stop_turn(port)
            await link.expect_end(port)
            return False
        turn.turn_id, turn.joined, turn.ran_commands = found.id, True, True
        known = prompt.wake or prompt.by == PILOTHOUSE or given[0].get("text") in found.texts
        return bool(known) or await self._push(given)

    def _translator(self) -> TurnTranslator:
        usage = TurnUsage(self._model, self._plan.prices)
        return TurnTranslator(self._thread, usage, model=self._model, cwd=self._brief.workspace)

    async def _ready(self) -> tuple[CodexLink, CodexPort]:
        """Return a living process on which this thread is open and idle; or the one that runs a turn to join."""
        joins = self._found is not None
        if self._link is not None and self._port is not None and self._port.busy and not joins:
            await self._link.expect_end(self._port)
        if self._link is None or (not self._link.alive and not joins):
            await self.leave()
            await self.enter()
        assert self._link is not None and self._port is not None
        return self._link, self._port

    async def _next(self, turn: TurnTranslator) -> Sequence[Step]:
        assert self._port is not None and self._link is not None and self._dialogue is not None
        match await self._port.mailbox.get():
            case Exit() as last:
                return turn.end(last)
            case None:  # the session is left while it is read
                return turn.end(Exit())
            case Failure() as failure:
                await self.interrupt()
                return turn.fail(failure)
            case wire.ServerRequest() as request:
                return await self._consider(request)
            case heard:
                turn.limits = self._link.limits
                if self._dialogue.leaks(heard):
                    await self.interrupt()
                    return turn.fail(LEAKS)
                return [*self._dialogue.note(heard), *turn.take(heard)]

    async def _consider(self, request: wire.ServerRequest) -> Sequence[Step]:
        """Judge a request: answer it at once, or ask."""
        assert self._link is not None and self._dialogue is not None
        considered = await self._dialogue.consider(request)
        if considered is None:
            await self._link.refuse(request)
            return ()
        if considered.words:
            await self._push([{"type": "text", "text": considered.words}], told=False)
        if considered.reply is not None:
            await self._link.answer(request, considered.reply)
        return considered.steps

    async def _push(self, given: list[dict[str, Any]], *, told: bool = True) -> bool:
        """Add input to the running turn. With `told`, somebody is told if it never reaches the model."""
        turn, link = self._turn, self._link
        if turn is None or link is None or turn.ended:
            return False
        id = self._access.new_id()
        named = {"clientUserMessageId": id, "expectedTurnId": turn.turn_id}
        reply = await link.request(
            "turn/steer", {"threadId": self._thread, "input": given, **named}, self._access.tell_s
        )
        if reply.error is None and told and not turn.ended:
            turn.unread.add(id)
        return reply.error is None

    async def _end(self, end: TurnEnded) -> None:
        """Stop the commands of a turn that did not complete: Codex leaves them running."""
        self._ran_commands = self._ran_commands or (self._turn is not None and self._turn.ran_commands)
        self.completed = self.completed or end.outcome == "completed"
        if end.outcome != "completed" and self._link is not None and self._link.alive:
            await self._link.request(
                "thread/backgroundTerminals/clean", {"threadId": self._thread}, self._access.tell_s
            )

    async def _explain(self, error: wire.WireError) -> Failure:
        link = self._link
        if link is None or (link.alive and error is not ENDED):
            return explain_refusal(error.message)
        await link.ended.wait()
        return explain_exit(link.exit)
