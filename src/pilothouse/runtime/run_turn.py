"""One turn: open the session, read its events, carry asks and stops to it, end it in one transaction.

Three tasks share the turn. The reader reads the engine's events until the end. The watcher looks at the store
whenever somebody said something: a stop, an answer, words to steer with; it is also the one that notices silence.
The flusher writes what was read. Whatever fails once the turn has begun is an event (law 5).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import msgspec

from pilothouse.core.engine import EngineSession, Interruptible, Steerable
from pilothouse.core.errors import EngineError, StoreError
from pilothouse.core.event import AskChanged, Asked, EngineEvent, PromptAdded, TurnEnded
from pilothouse.core.failure import Failure
from pilothouse.core.message import InboundMessage
from pilothouse.core.store import AskRow, Conversation, QueueRow, Tx
from pilothouse.core.turn import LIVE, Prompt, Turn
from pilothouse.runtime.briefing import make_brief
from pilothouse.runtime.ending import Ending, finish, lose
from pilothouse.runtime.framing import frame
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.recording import Recorder
from pilothouse.runtime.signals import INBOX, OUTBOX, Signals, control_of, end_of, events_of
from pilothouse.runtime.starting import Started
from pilothouse.runtime.turn_asks import TurnAsks

_decode = msgspec.json.Decoder(InboundMessage).decode

WATCH_EVERY_S = 2.0
CLOSE_WITHIN_S = 15.0
NOT_FORESEEN = "Something broke that we did not foresee. The log has the details."


class TurnRun:
    """A running turn. `cut` ends it from outside; it is then lost, and the store says what becomes of it."""

    def __init__(self, ports: Ports, started: Started) -> None:
        self._ports = ports
        self._started = started
        self._turn = started.turn
        self._recorder = Recorder(ports, started)
        self._scope = anyio.CancelScope()
        self._reading = anyio.CancelScope()
        self._asks = TurnAsks(ports, started, self._recorder, self._interrupt)
        self._heard_at = ports.clock.monotonic()
        self._stop: Failure | None = None
        self._stopping = False
        self._ended = False
        self._cut = False

    async def run(self) -> None:
        self._log(
            "turn.started", engine=self._turn.engine, cause=self._turn.cause, attempt=self._turn.attempts
        )
        with self._scope:
            await self._drive()
        if self._cut and not self._ended:
            await self._give_up()

    @property
    def waiting(self) -> bool:
        return self._asks.open

    def cut(self) -> None:
        self._cut = True
        self._scope.cancel()

    async def _drive(self) -> None:
        async with AsyncExitStack() as stack:
            try:
                session = await self._open(stack)
            except EngineError as error:
                self._recorder.close(error.failure)
            except Exception as error:  # noqa: BLE001 - one turn: it becomes a failure
                self._recorder.close(self._unforeseen(error))
            else:
                await self._converse(session)
            await self._finish()
            # The answer is on its way; an engine that lingers now may hold up nobody for long.
            self._scope.deadline = anyio.current_time() + CLOSE_WITHIN_S

    async def _open(self, stack: AsyncExitStack) -> EngineSession:
        engine = self._ports.engines.get(self._turn.engine)
        if engine is None:
            text = f"The engine {self._turn.engine!r} is not available here. /engine lists those that are."
            raise EngineError(Failure("bad_request", text))
        brief = make_brief(self._ports, self._started)
        return await stack.enter_async_context(engine.open(brief))

    async def _converse(self, session: EngineSession) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._recorder.flush_for_ever)
            tasks.start_soon(self._watch, session)
            with self._reading:
                await self._read(session)
            await self._recorder.settle()
            tasks.cancel_scope.cancel()
        self._recorder.close(self._stop)

    async def _read(self, session: EngineSession) -> None:
        try:
            async with _closing(session.run(self._turn.prompt)) as events:
                async for event in events:
                    self._heard_at = self._ports.clock.monotonic()
                    await self._hear(session, event)
                    if self._recorder.end is not None:
                        return
        except StoreError:
            raise
        except Exception as error:  # noqa: BLE001 - one turn: it becomes a failure
            self._recorder.close(self._unforeseen(error))

    async def _hear(self, session: EngineSession, event: EngineEvent) -> None:
        match event:
            case Asked(ask=asked):
                await self._asks.asked(session, asked)
            case AskChanged():
                await self._asks.settled_by_engine(event)
            case _:
                self._recorder.take(event)
                if self._recorder.urgent:
                    await self._recorder.commit()

    async def _finish(self) -> None:
        """Law 3, and the one place that ends a turn which its engine has ended."""
        recorder, ports = self._recorder, self._ports
        end = self._judged(recorder.end or TurnEnded("failed", failure=self._stop))
        view = recorder.view
        ending = Ending(self._turn.id, end, recorder.drain(), view.text, view.attachments, recorder.began)
        turn = await ports.persist(
            lambda tx: finish(tx, ports.ids, ports.settings(), ending, ports.clock.now())
        )
        self._ended = True
        self._log("turn.ended", status=turn.status, outcome=end.outcome)
        ports.signals.poke(OUTBOX, INBOX)
        self._wake_followers()

    def _judged(self, end: TurnEnded) -> TurnEnded:
        """A turn that somebody stopped was cancelled, whatever the engine calls it; one that hung has failed."""
        if not self._stopping or end.outcome == "completed":
            return end
        if self._stop is not None:
            return msgspec.structs.replace(end, outcome="failed", failure=self._stop)
        return msgspec.structs.replace(end, outcome="cancelled", failure=None)

    async def _give_up(self) -> None:
        """A shutdown cut the turn: what was read is kept, and its people are told."""
        ports, turn_id = self._ports, self._turn.id
        events = self._recorder.drain()
        began = self._recorder.began

        def unit(tx: Tx) -> None:
            turn = tx.turns.get(turn_id)
            if turn is None or turn.status not in LIVE:
                return
            now = ports.clock.now()
            if events:
                tx.events.append(turn.conversation_id, turn.id, events, now)
            tx.turns.note(turn_id, began=began)
            lose(tx, ports.ids, tx.turns.get(turn_id) or turn, tx.inbox.of_turn(turn_id), now)

        with anyio.CancelScope(shield=True), anyio.move_on_after(ports.settings().drain_s):
            await ports.persist(unit)
            self._log("turn.lost", began=began)
            ports.signals.poke(OUTBOX)
            self._wake_followers()

    async def _watch(self, session: EngineSession) -> None:
        while True:
            ticket = self._ports.signals.ticket(control_of(self._turn.conversation_id))
            try:
                await self._look(session)
            except StoreError as error:
                self._log("turn.look_failed", error=str(error))
            self._notice_silence()
            await Signals.wait(ticket, min(WATCH_EVERY_S, self._ports.settings().hang_after_s / 4))

    async def _look(self, session: EngineSession) -> None:
        turn_id, conversation_id = self._turn.id, self._turn.conversation_id

        def unit(tx: Tx) -> tuple[Turn | None, list[AskRow], Conversation | None, list[QueueRow]]:
            settled = self._asks.settled_in(tx)
            conversation = tx.conversations.get(conversation_id)
            return tx.turns.get(turn_id), settled, conversation, tx.inbox.waiting(conversation_id)

        turn, settled, conversation, waiting = await self._ports.store.read(unit)
        if turn is not None and turn.stop_requested:
            await self._interrupt(session)
        for row in settled:
            self._heard_at = self._ports.clock.monotonic()
            await self._asks.settle(session, row)
        policy = (conversation.busy if conversation else None) or self._ports.settings().busy
        if policy == "steer" and isinstance(session, Steerable) and not self._stopping:
            await self._steer(session, [row for row in waiting if row.kind != "system"])

    async def _interrupt(self, session: object) -> None:
        """Ask nicely, then stop listening. Leaving the session ends whatever is left of the turn."""
        if self._stopping:
            return
        self._stopping = True
        self._log("turn.stopping")
        self._reading.deadline = anyio.current_time() + self._ports.settings().stop_grace_s
        if not isinstance(session, Interruptible):
            self._reading.cancel()
            return
        try:
            await session.interrupt()
        except Exception as error:  # noqa: BLE001 - one turn: it becomes a failure
            self._unforeseen(error)
            self._reading.cancel()

    def _notice_silence(self) -> None:
        """Silence is a hang only where nothing runs and nobody is asked."""
        quiet_s = self._ports.clock.monotonic() - self._heard_at
        if quiet_s < self._ports.settings().hang_after_s or self._stopping:
            return
        if self._recorder.view.open_actions or self._asks.open:
            return
        self._stop = Failure("hang", f"The engine said nothing for {quiet_s:.0f} s and was stopped.")
        self._stopping = True
        self._reading.cancel()

    async def _steer(self, session: Steerable, rows: list[QueueRow]) -> None:
        for row in rows:
            prompt = frame([_decode(row.body)])
            if not await session.steer(prompt):
                return
            self._recorder.take(PromptAdded(prompt.text, prompt.by))
            await self._recorder.commit(lambda tx, row=row, prompt=prompt: self._adopt(tx, row, prompt))

    def _adopt(self, tx: Tx, row: QueueRow, prompt: Prompt) -> None:
        """The turn owns the message now. If it must run again, the words that were steered in run along."""
        tx.inbox.claim([row.id], turn_id=self._turn.id)
        turn = tx.turns.get(self._turn.id)
        if turn is not None:
            text = f"{turn.prompt.text}\n\n{prompt.text}"
            tx.turns.note(turn.id, prompt=msgspec.structs.replace(turn.prompt, text=text))

    def _unforeseen(self, error: Exception) -> Failure:
        self._log("turn.broke", error=f"{type(error).__name__}: {error}")
        return Failure("crash", NOT_FORESEEN, detail=f"{type(error).__name__}: {error}")

    def _wake_followers(self) -> None:
        conversation_id = self._turn.conversation_id
        self._ports.signals.poke(
            events_of(conversation_id), control_of(conversation_id), end_of(self._turn.id)
        )

    def _log(self, event: str, **fields: object) -> None:
        self._ports.log(event, turn_id=self._turn.id, **fields)


@asynccontextmanager
async def _closing(events: AsyncIterator[EngineEvent]) -> AsyncIterator[AsyncIterator[EngineEvent]]:
    """A generator that we stop reading is closed here and now, not when the collector finds it."""
    try:
        yield events
    finally:
        if isinstance(events, AsyncGenerator):
            await events.aclose()
