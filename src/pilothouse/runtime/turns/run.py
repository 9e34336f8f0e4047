"""One running turn: opens the session, reads its events, and ends in one transaction.

Three tasks share the turn: this one opens the session and reads events until the end; `TurnControl` passes on stops,
answers and steering; the recorder writes. Once the turn has begun, every failure is an event (law 5), and no engine
fault ends more than its turn.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack

import anyio
import msgspec

from pilothouse.core.engine import EngineSession
from pilothouse.core.errors import EngineError, find_fenced
from pilothouse.core.event import (
    AskChanged,
    Asked,
    EngineEvent,
    Notice,
    SessionStarted,
    ToolFinished,
    TurnEnded,
    UsageChanged,
)
from pilothouse.core.ids import CallId, EngineId, TurnId
from pilothouse.core.outcome import Failure, FailureKind
from pilothouse.core.store import Tx
from pilothouse.core.turn import LIVE, Turn
from pilothouse.runtime.budget.ledger import extend
from pilothouse.runtime.ports import INBOX, OUTBOX, TRANSCRIPTS, Ports, control_of, end_of, events_of
from pilothouse.runtime.turns.asks import TurnAsks
from pilothouse.runtime.turns.brief import make_brief
from pilothouse.runtime.turns.control import TurnControl
from pilothouse.runtime.turns.finish import Ending, finish
from pilothouse.runtime.turns.record import Recorder
from pilothouse.runtime.turns.recover import lose
from pilothouse.runtime.turns.start import Started

CLOSE_WITHIN_S = 15.0
FALLBACK_KINDS: frozenset[FailureKind] = frozenset({"overloaded", "quota"})
FALLS_BACK = "{why} Going on with the model {model}."
NOT_FORESEEN = "An unexpected error occurred. The log has the details."


class TurnRun:
    """A running turn. `cut` ends it from outside; it is then lost, and the store says what becomes of it.

    `running` counts the turns of this process, this one included.
    """

    def __init__(
        self, ports: Ports, started: Started, hint: anyio.Event, running: Callable[[], int] = lambda: 1
    ) -> None:
        self._ports = ports
        self._running = running
        self._started = started
        self._turn = started.turn
        self._recorder = Recorder(ports, started)
        self._scope = anyio.CancelScope()
        self._helpers = anyio.create_task_group()
        self._asks = TurnAsks(ports, started, self._recorder, self._interrupt)
        self._control = TurnControl(
            ports, started.turn, self._recorder, self._asks, self._scope, hint, self._release
        )
        self._taken_usd = math.inf if started.budget_usd is None else started.budget_usd
        self._fallback = ""
        """The engine's other model, if the turn has not chosen it already."""
        self._refused: Failure | None = None
        """Why the turn goes on with that one."""
        self._ended = False
        self._abandoned = False
        self.is_released = False
        """The turn waits for an answer, and its engine was let go."""
        self._unwritable = False
        """The result could not be stored: the turn ends with a failure and no text."""

    @property
    def turn_id(self) -> TurnId:
        return self._turn.id

    @property
    def is_waiting(self) -> bool:
        """True while only a person's answer is needed."""
        return self._asks.open

    async def run(self) -> None:
        self._log(
            "turn.started", engine=self._turn.engine, cause=self._turn.cause, attempt=self._turn.attempts
        )
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._help)
            with self._scope:
                await self._drive()
            if not self._ended:
                await self._end_unread()
            self._helpers.cancel_scope.cancel()

    def abandon(self) -> None:
        self._abandoned = True
        self._scope.cancel()

    def _release(self) -> None:
        """Let the engine go. The row keeps waiting, and the answer queues the turn again."""
        self.is_released = True
        self._scope.cancel()

    async def _interrupt(self) -> None:
        await self._control.interrupt()

    async def _help(self) -> None:
        """Run control and recorder. If one fails, only this turn fails."""
        try:
            async with self._helpers as tasks:
                tasks.start_soon(self._control.run)
                await self._recorder.flush_for_ever(self._running)
        except Exception as error:
            if find_fenced(error):
                raise
            self._control.give_up(self._unforeseen(error))

    async def _drive(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                await self._read(stack)
                self._recorder.close(self._control.failure)
                await self._finish()
                # The answer is on its way; bound the time that a slow engine takes to close.
                self._scope.deadline = anyio.current_time() + CLOSE_WITHIN_S
        except Exception as error:
            if find_fenced(error):
                raise
            failure = self._unforeseen(error)
            if not self._ended:
                self._unwritable = self._recorder.end is not None
                self._control.failure = self._control.failure or failure

    async def _read(self, stack: AsyncExitStack) -> None:
        try:
            await self._play(stack)
            if self._refused is not None:
                await self._leave(stack)
                if self._recorder.view.started_at is not None:
                    self._tell_fallback(self._refused)
                await self._play(stack, self._fallback)
        except EngineError as error:
            self._recorder.close(error.failure)
        except Exception as error:
            if find_fenced(error):
                raise
            self._recorder.close(self._unforeseen(error))

    async def _leave(self, stack: AsyncExitStack) -> None:
        """Close the refused session, which must be free for the next attempt. Until that has its own, the turn is as
        one that is being opened: a stop cancels it, and messages wait."""
        self._control.session, self._control.scope = None, self._scope
        self._scope.deadline = anyio.current_time() + CLOSE_WITHIN_S
        await stack.aclose()
        self._scope.deadline = math.inf

    async def _play(self, stack: AsyncExitStack, model: str = "") -> None:
        session = await self._open(stack, model)
        self._control.session, self._control.scope = session, anyio.CancelScope()
        with self._control.scope:
            await self._listen(session, stack)

    async def _open(self, stack: AsyncExitStack, model: str = "") -> EngineSession:
        engine = self._ports.engines.get(self._turn.engine)
        if engine is None:
            text = f"The engine {self._turn.engine!r} is not available here. /engine lists those that are."
            raise EngineError(Failure("bad_request", text))
        brief = await make_brief(self._ports, self._started)
        if model:
            brief = msgspec.structs.replace(brief, model=model)
        elif brief.model != (other := self._ports.settings().fallback_models.get(self._turn.engine, "")):
            self._fallback = other
        configured = await self._ports.mcp_servers(brief.workspace, brief.trusted)
        sent = self._ports.client_servers(brief.conversation_id)
        own = stack.enter_context(self._ports.tools.lease(self._ports, brief.session_id))
        wished = await self._ports.preferences(brief.workspace, brief.trusted)
        brief = msgspec.structs.replace(brief, mcp_servers={**sent, **configured, **own}, preferences=wished)
        self._asks.site = brief.site
        return await stack.enter_async_context(engine.open(brief))

    async def _listen(self, session: EngineSession, stack: AsyncExitStack) -> None:
        """Read events until the end. The stream is closed with the session, because the answer must not wait for that."""
        events = session.run(self._turn.prompt)
        stack.push_async_callback(_close, events)
        async for event in events:
            self._control.note_activity()
            await self._hear(session, event)
            if self._recorder.end is not None or (self._refused and isinstance(event, TurnEnded)):
                return

    async def _hear(self, session: EngineSession, event: EngineEvent) -> None:
        match event:
            case TurnEnded(failure=Failure() as failure) if self._falls_back(failure):
                self._refused = failure
            case SessionStarted() if self._refused and self._recorder.view.started_at is None:
                self._recorder.take(event)  # live progress begins anew with it
                self._tell_fallback(self._refused)
            case Asked(ask=asked):
                await self._asks.asked(session, asked)
            case AskChanged():
                await self._asks.settled_by_engine(event)
            case ToolFinished(call_id=call_id, denied=why) if why:
                self._recorder.take(event)
                await self._asks.tell_denial(self._title_of(call_id), why)
            case UsageChanged(usage=usage):
                self._recorder.take(event)
                await self._check_budget(usage.cost_usd)
            case _:
                self._recorder.take(event)
                if self._recorder.urgent:
                    await self._recorder.commit()

    def _falls_back(self, failure: Failure) -> bool:
        """Tell whether the turn begins again with the engine's fallback model: once, and before anything was said or done."""
        untouched = not self._recorder.began and not self._recorder.view.recent_actions
        control, wake = self._control, self._turn.prompt.wake
        may = self._fallback and not (wake or control.stopping or control.has_steered)
        return bool(may) and untouched and self._refused is None and failure.kind in FALLBACK_KINDS

    def _tell_fallback(self, refused: Failure) -> None:
        text = FALLS_BACK.format(why=refused.text, model=self._fallback)
        self._recorder.take(Notice("warning", "fallback_model", text))

    def _title_of(self, call_id: CallId) -> str:
        recent = self._recorder.view.recent_actions
        return next((action.call.title for action in reversed(recent) if action.id == call_id), "")

    async def _check_budget(self, cost_usd: float | None) -> None:
        """Stop an engine that reports its cost while it works once the day's budget is used up."""
        if cost_usd is None or cost_usd <= self._taken_usd or self._control.stopping:
            return
        self._taken_usd = cost_usd
        ports, turn = self._ports, self._turn
        failure = await self._recorder.commit(lambda tx: extend(tx, ports.settings(), turn, cost_usd))
        if failure is not None:
            self._control.failure = failure
            await self._interrupt()

    async def _end_unread(self) -> None:
        """End a turn that its engine did not end: after a shutdown, or a stop while it was being opened."""
        if self._abandoned:
            await self._give_up()
            return
        if self.is_released:
            await self._recorder.settle()
            await self._recorder.commit()
            await self._stop_helpers()
            self._log("turn.released")
            return
        self._recorder.close(self._control.failure or self._refused)
        await self._finish()

    async def _finish(self) -> None:
        """End the turn in one transaction (law 3). The only place that ends a turn that is not lost."""
        ports = self._ports
        await self._stop_helpers()
        ending = await self._with_alternatives(self._ending())
        turn = await ports.persist(
            lambda tx: finish(tx, ports.ids, ports.settings(), ending, ports.clock.now())
        )
        self._recorder.drain()
        self._ended = True
        self._log_end(turn, ending.end)
        ports.signals.poke(OUTBOX)
        self._wake_followers()

    async def _with_alternatives(self, ending: Ending) -> Ending:
        failure = ending.end.failure
        if ending.began or ending.end.outcome != "failed":
            return ending
        others = await find_alternatives(self._ports, self._turn.engine, failure)
        return msgspec.structs.replace(ending, others=others)

    def _ending(self) -> Ending:
        recorder, view, failure = self._recorder, self._recorder.view, self._control.failure
        if self._unwritable:
            return Ending(self._turn.id, TurnEnded("failed", failure=failure), began=recorder.began)
        return Ending(
            self._turn.id,
            self._final(recorder.end or TurnEnded("failed", failure=failure)),
            recorder.pending,
            view.text,
            view.attachments,
            recorder.began,
            recorder.resume,
            recorder.steps.listed(),
        )

    async def _stop_helpers(self) -> None:
        """Stop control and recorder; nothing else writes into this turn afterwards.

        Wait for a commit under way first: it is shielded, and anyio retries a blocked cancellation on every pass of the
        event loop.
        """
        await self._recorder.settle()
        self._helpers.cancel_scope.cancel()
        await self._recorder.settle()

    def _final(self, end: TurnEnded) -> TurnEnded:
        """Report a stopped turn as cancelled, and one that we stopped as failed, whatever the engine says."""
        if not self._control.stopping or end.outcome == "completed":
            return end
        if self._control.failure is not None:
            return msgspec.structs.replace(end, outcome="failed", failure=self._control.failure)
        return msgspec.structs.replace(end, outcome="cancelled", failure=None)

    async def _give_up(self) -> None:
        """Lose the turn at shutdown: keep the events read so far, and notify its people."""
        ports, turn_id = self._ports, self._turn.id

        with anyio.CancelScope(shield=True), anyio.move_on_after(ports.settings().drain_s):
            await self._stop_helpers()
            events, began = self._recorder.drain(), self._recorder.began

            def unit(tx: Tx) -> None:
                turn = tx.turns.get(turn_id)
                if turn is None or turn.status not in LIVE:
                    return
                now = ports.clock.now()
                if events:
                    tx.events.append(turn.conversation_id, turn.id, events, now)
                turn = tx.turns.note(turn_id, began=began)
                rows = tx.inbox.of_turn(turn_id)
                lose(tx, ports.ids, ports.settings(), turn, rows, now, on_purpose=True)

            await ports.persist(unit)
            self._log("turn.lost", began=began)
            ports.signals.poke(OUTBOX, INBOX)
            self._wake_followers()

    def _unforeseen(self, error: Exception) -> Failure:
        self._log("turn.broke", level="error", error=error)
        return Failure("crash", NOT_FORESEEN, detail=f"{type(error).__name__}: {error}")

    def _wake_followers(self) -> None:
        conversation_id = self._turn.conversation_id
        self._ports.signals.poke(
            events_of(conversation_id), control_of(conversation_id), end_of(self._turn.id), TRANSCRIPTS
        )

    def _log_end(self, turn: Turn, end: TurnEnded) -> None:
        """Log the end, with its reason: the text before next steps were added to it."""
        failure = end.failure
        why = {} if failure is None else {"level": "warning", "failure": failure.kind, "why": failure.text}
        self._log("turn.ended", status=turn.status, outcome=end.outcome, **why)

    def _log(self, event: str, **fields: object) -> None:
        self._ports.log(event, turn_id=self._turn.id, **fields)


async def _close(events: AsyncIterator[EngineEvent]) -> None:
    """Close the generator now, not when it is garbage-collected."""
    if isinstance(events, AsyncGenerator):
        await events.aclose()


UNAVAILABLE: frozenset[FailureKind] = frozenset({"auth", "quota"})
CHECKED_WITHIN_S = 5.0
MOST = 2


async def find_alternatives(ports: Ports, engine: EngineId, failure: Failure | None) -> tuple[EngineId, ...]:
    """Return engines that work, if the failure says that this one is not available. The checks may start programs, and
    the end of the turn waits for them, so their time is limited."""
    settings = ports.settings()
    known = set(settings.engine_names.values()) & set(ports.engines)
    others = known - {engine, settings.demo_engine}
    with anyio.move_on_after(CHECKED_WITHIN_S):
        if not others or failure is None or not await _is_unavailable(ports, engine, failure):
            return ()
        reports = await ports.engine_reports()
        return tuple(EngineId(one.id) for one in reports if one.works and one.id in others)[:MOST]
    return ()


async def _is_unavailable(ports: Ports, engine: EngineId, failure: Failure) -> bool:
    if failure.kind in UNAVAILABLE:
        return True
    return failure.kind == "bad_request" and (
        engine not in ports.engines or bool(await ports.engine_problem(engine))
    )
