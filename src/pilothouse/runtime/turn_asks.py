"""The asks of one running turn: policy first, a person second, and the decision carried back to the engine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pilothouse.core.ask import Ask, Decision
from pilothouse.core.engine import Answerable, EngineSession
from pilothouse.core.event import AskChanged, Asked, Notice
from pilothouse.core.ids import AskId
from pilothouse.core.store import AskRow, Tx
from pilothouse.runtime.asking import make_ask, show_ask
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.recording import Recorder
from pilothouse.runtime.signals import INBOX, OUTBOX
from pilothouse.runtime.starting import Started


class TurnAsks:
    def __init__(
        self,
        ports: Ports,
        started: Started,
        recorder: Recorder,
        interrupt: Callable[[], Awaitable[None]],
    ) -> None:
        self._ports = ports
        self._turn = started.turn
        self._session_id = started.session.id
        self._recorder = recorder
        self._interrupt = interrupt
        self._open: dict[AskId, AskRow] = {}

    @property
    def open(self) -> bool:
        return bool(self._open)

    async def asked(self, session: EngineSession, asked: Ask) -> None:
        ports = self._ports
        ask = make_ask(asked, ports.settings(), ports.ids, ports.clock.now())
        ruling = ports.policy.judge(ask)
        if not isinstance(session, Answerable):
            self._recorder.take(Notice("warning", "unanswerable", f"Nobody can answer here: {ask.title}"))
        elif ruling.outcome == "allow":
            await session.answer(asked.id, Decision("allow"))
        elif ruling.outcome == "deny":
            await session.answer(asked.id, Decision("deny", text=ruling.rule or "a rule forbids it"))
        else:
            await self._ask_people(session, asked, ask)

    def settled_in(self, tx: Tx) -> list[AskRow]:
        """Asks that we wait for and that somebody, or the time, has settled."""
        if not self._open:
            return []
        return [
            row for row in tx.asks.of_turn(self._turn.id) if row.state != "open" and row.ask.id in self._open
        ]

    async def settle(self, session: EngineSession, row: AskRow) -> None:
        """The decision is marked as used before the engine hears it: an approval never counts twice."""
        if self._open.pop(row.ask.id, None) is None:
            return
        decision = row.decision or Decision("deny", text=f"the question was {row.state}")
        self._recorder.take(AskChanged(row.ask.id, row.state, decision.by))
        self._expect_deeds(decision)
        await self._recorder.commit(lambda tx: self._go_on(tx, row))
        if isinstance(session, Answerable):
            await self._tell(session, AskId(row.engine_key), row.ask, decision)

    async def settled_by_engine(self, event: AskChanged) -> None:
        """The engine does not want to know any more."""
        row = next((row for row in self._open.values() if row.engine_key == event.ask_id), None)
        if row is None:
            return
        del self._open[row.ask.id]
        self._recorder.take(AskChanged(row.ask.id, event.state, event.by))
        now = self._ports.clock.now()

        def unit(tx: Tx) -> None:
            current = tx.asks.get(row.ask.id)
            if current is not None and current.state == "open":
                tx.asks.move(row.ask.id, "withdrawn", at=now)
            self._go_on(tx, row)

        await self._recorder.commit(unit)

    async def _ask_people(self, session: Answerable, asked: Ask, ask: Ask) -> None:
        """Uses an answer that was given before a restart, once; else asks, and the turn waits."""
        stored = await self._stored_answer(ask)
        if stored is not None and stored.decision is not None:
            await self._use(session, asked, stored, stored.decision)
            return
        now = self._ports.clock.now()
        row = AskRow(ask, self._turn.conversation_id, self._session_id, self._turn.id, asked.id, "open", now)
        self._recorder.take(Asked(ask))
        self._open[ask.id] = row
        await self._recorder.commit(lambda tx: self._wait(tx, row, now))
        self._ports.signals.poke(OUTBOX, INBOX)
        self._ports.log("ask.opened", turn_id=self._turn.id, ask_id=ask.id, kind=ask.kind)

    async def _stored_answer(self, ask: Ask) -> AskRow | None:
        """Only the turn that an answer started may use it: a later one asks anew, whatever was once allowed."""
        if self._turn.cause != "answer":
            return None
        return await self._ports.look(lambda tx: tx.asks.unused_answer(self._session_id, ask.payload_hash))

    async def _use(self, session: Answerable, asked: Ask, stored: AskRow, decision: Decision) -> None:
        self._recorder.take(Asked(stored.ask))
        self._recorder.take(AskChanged(stored.ask.id, "answered", decision.by))
        self._expect_deeds(decision)
        await self._recorder.commit(lambda tx: tx.asks.mark_used(stored.ask.id, turn_id=self._turn.id))
        await self._tell(session, asked.id, stored.ask, decision)

    def _expect_deeds(self, decision: Decision) -> None:
        """What was allowed may be done before we hear that it began, so it counts as begun already now."""
        if decision.verdict == "allow":
            self._recorder.began = True

    def _wait(self, tx: Tx, row: AskRow, now: float) -> None:
        before = tx.asks.open_like(row.session_id, row.ask.payload_hash)
        if before is not None and before.turn_id != row.turn_id:
            tx.asks.move(before.ask.id, "superseded", at=now)
        tx.asks.add(row)
        turn = tx.turns.get(row.turn_id)
        if turn is not None and turn.status == "running":
            tx.turns.move(row.turn_id, "waiting")
        show_ask(tx, self._ports.ids, row, now)

    def _go_on(self, tx: Tx, row: AskRow) -> None:
        tx.asks.mark_used(row.ask.id)
        turn = tx.turns.get(row.turn_id)
        if turn is not None and turn.status == "waiting" and not self._open:
            tx.turns.move(row.turn_id, "running")

    async def _tell(self, session: Answerable, engine_key: AskId, ask: Ask, decision: Decision) -> None:
        """A plain no stops the turn; a no with a reason, or to a question, lets the engine go on."""
        try:
            await session.answer(engine_key, decision)
        except Exception as error:  # noqa: BLE001 - one turn: the stream itself will tell how it ends
            self._ports.log(
                "ask.tell_failed", turn_id=self._turn.id, error=f"{type(error).__name__}: {error}"
            )
        if decision.verdict == "deny" and not decision.text and ask.kind != "question":
            await self._interrupt()
