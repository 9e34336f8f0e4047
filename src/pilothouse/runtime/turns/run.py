"""One turn: open the session, read its events, end it in one transaction.

Three tasks share the turn. This one opens the session and reads the engine's events until the end; `Watch` carries
to it what others want; the recorder writes what was read. Whatever fails once the turn has begun is an event
(law 5), and nothing that an engine does takes down more than its turn.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import AsyncExitStack

import anyio
import msgspec

from pilothouse.core.engine import EngineSession
from pilothouse.core.errors import EngineError, fenced_in
from pilothouse.core.event import AskChanged, Asked, EngineEvent, TurnEnded, UsageChanged
from pilothouse.core.outcome import Failure
from pilothouse.core.store import Tx
from pilothouse.core.turn import LIVE
from pilothouse.runtime.budget.ledger import extend
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.signals import INBOX, OUTBOX, control_of, end_of, events_of
from pilothouse.runtime.turns.asks import TurnAsks
from pilothouse.runtime.turns.control import Watch
from pilothouse.runtime.turns.finish import Ending, finish
from pilothouse.runtime.turns.record import Recorder
from pilothouse.runtime.turns.recover import lose
from pilothouse.runtime.turns.start import Started, make_brief

CLOSE_WITHIN_S = 15.0
NOT_FORESEEN = "Something broke that we did not foresee. The log has the details."


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
        self._watch = Watch(ports, started.turn, self._recorder, self._asks, self._scope, hint)
        self._taken_usd = math.inf if started.budget_usd is None else started.budget_usd
        self._ended = False
        self._cut = False
        self._unsayable = False
        """What was read could not be written down: the turn ends with a plain word and nothing else."""

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

    def cut(self) -> None:
        self._cut = True
        self._scope.cancel()

    async def _interrupt(self) -> None:
        await self._watch.interrupt()

    async def _help(self) -> None:
        """Watches and writes. If that breaks, so does the turn, and no more than the turn."""
        try:
            async with self._helpers as tasks:
                tasks.start_soon(self._watch.run)
                await self._recorder.flush_for_ever(self._running)
        except Exception as error:
            if fenced_in(error):
                raise
            self._watch.give_up(self._unforeseen(error))

    async def _drive(self) -> None:
        try:
            async with AsyncExitStack() as stack:
                await self._read(stack)
                self._recorder.close(self._watch.failure)
                await self._finish()
                # The answer is on its way; an engine that lingers now may hold up nobody for long.
                self._scope.deadline = anyio.current_time() + CLOSE_WITHIN_S
        except Exception as error:
            if fenced_in(error):
                raise
            failure = self._unforeseen(error)
            if not self._ended:
                self._unsayable = self._recorder.end is not None
                self._watch.failure = self._watch.failure or failure

    async def _read(self, stack: AsyncExitStack) -> None:
        try:
            session = await self._open(stack)
            self._watch.session, self._watch.scope = session, anyio.CancelScope()
            with self._watch.scope:
                await self._listen(session, stack)
        except EngineError as error:
            self._recorder.close(error.failure)
        except Exception as error:
            if fenced_in(error):
                raise
            self._recorder.close(self._unforeseen(error))

    async def _open(self, stack: AsyncExitStack) -> EngineSession:
        engine = self._ports.engines.get(self._turn.engine)
        if engine is None:
            text = f"The engine {self._turn.engine!r} is not available here. /engine lists those that are."
            raise EngineError(Failure("bad_request", text))
        brief = await make_brief(self._ports, self._started)
        self._asks.site = brief.site
        return await stack.enter_async_context(engine.open(brief))

    async def _listen(self, session: EngineSession, stack: AsyncExitStack) -> None:
        """The stream is closed with the session, not here: closing may take time, and the answer waits for nobody."""
        events = session.run(self._turn.prompt)
        stack.push_async_callback(_close, events)
        async for event in events:
            self._watch.heard()
            await self._hear(session, event)
            if self._recorder.end is not None:
                return

    async def _hear(self, session: EngineSession, event: EngineEvent) -> None:
        match event:
            case Asked(ask=asked):
                await self._asks.asked(session, asked)
            case AskChanged():
                await self._asks.settled_by_engine(event)
            case UsageChanged(usage=usage):
                self._recorder.take(event)
                await self._mind_budget(usage.cost_usd)
            case _:
                self._recorder.take(event)
                if self._recorder.urgent:
                    await self._recorder.commit()

    async def _mind_budget(self, cost_usd: float | None) -> None:
        """An engine that tells what it spends while it works is stopped when the day's budget is used up."""
        if cost_usd is None or cost_usd <= self._taken_usd or self._watch.stopping:
            return
        self._taken_usd = cost_usd
        ports, turn = self._ports, self._turn
        failure = await self._recorder.commit(lambda tx: extend(tx, ports.settings(), turn, cost_usd))
        if failure is not None:
            self._watch.failure = failure
            await self._interrupt()

    async def _end_unread(self) -> None:
        """The turn was ended before its engine ended it: by a shutdown, or while it was still being opened."""
        if self._cut:
            await self._give_up()
            return
        self._recorder.close(self._watch.failure)
        await self._finish()

    async def _finish(self) -> None:
        """Law 3, and the one place that ends a turn which was not lost."""
        ports = self._ports
        await self._quiet()
        ending = self._ending()
        turn = await ports.persist(
            lambda tx: finish(tx, ports.ids, ports.settings(), ending, ports.clock.now())
        )
        self._recorder.drain()
        self._ended = True
        self._log("turn.ended", status=turn.status, outcome=ending.end.outcome)
        ports.signals.poke(OUTBOX)
        self._wake_followers()

    def _ending(self) -> Ending:
        recorder, view, failure = self._recorder, self._recorder.view, self._watch.failure
        if self._unsayable:
            return Ending(self._turn.id, TurnEnded("failed", failure=failure), began=recorder.began)
        return Ending(
            self._turn.id,
            self._judged(recorder.end or TurnEnded("failed", failure=failure)),
            recorder.pending,
            view.text,
            view.attachments,
            recorder.began,
            recorder.resume,
        )

    async def _quiet(self) -> None:
        """From here on nobody else writes into this turn.

        A commit that is under way is waited for first: it cannot be cancelled, and a cancellation that has to wait
        is tried again at every turn of the event loop.
        """
        await self._recorder.settle()
        self._helpers.cancel_scope.cancel()
        await self._recorder.settle()

    def _judged(self, end: TurnEnded) -> TurnEnded:
        """A turn that somebody stopped was cancelled, whatever the engine calls it; one that hung has failed."""
        if not self._watch.stopping or end.outcome == "completed":
            return end
        if self._watch.failure is not None:
            return msgspec.structs.replace(end, outcome="failed", failure=self._watch.failure)
        return msgspec.structs.replace(end, outcome="cancelled", failure=None)

    async def _give_up(self) -> None:
        """A shutdown cut the turn: what was read is kept, and its people are told."""
        ports, turn_id = self._ports, self._turn.id

        with anyio.CancelScope(shield=True), anyio.move_on_after(ports.settings().drain_s):
            await self._quiet()
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
            events_of(conversation_id), control_of(conversation_id), end_of(self._turn.id)
        )

    def _log(self, event: str, **fields: object) -> None:
        self._ports.log(event, turn_id=self._turn.id, **fields)


async def _close(events: AsyncIterator[EngineEvent]) -> None:
    """A generator that we stop reading is closed here and now, not when the collector finds it."""
    if isinstance(events, AsyncGenerator):
        await events.aclose()
