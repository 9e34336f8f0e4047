"""The asks of one running turn: the policy decides first, then a person, and the engine gets the decision."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from zlib import crc32

import msgspec

from pilothouse.core.ask import Ask, AskRow, Decision, ends_turn, is_secret
from pilothouse.core.engine import Answerable, EngineSession
from pilothouse.core.event import AskChanged, Asked, Notice
from pilothouse.core.ids import AskId, TurnId
from pilothouse.core.message import Content
from pilothouse.core.people import QUESTION, Authority
from pilothouse.core.policy import Site, denial_text
from pilothouse.core.store import Tx
from pilothouse.core.text import first_line
from pilothouse.runtime.asks.answers import Answers
from pilothouse.runtime.asks.outcome import decision_text
from pilothouse.runtime.asks.settle import held_back, lapse, supersede
from pilothouse.runtime.asks.show import brief_ask, make_ask, route_ask, show_ask, with_input, with_preview
from pilothouse.runtime.audit import record_ask
from pilothouse.runtime.outbox import say
from pilothouse.runtime.ports import INBOX, OUTBOX, Ports
from pilothouse.runtime.turns.record import Recorder
from pilothouse.runtime.turns.start import Started

TITLE_CHARS = 100


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
        self._workspace = started.session.workspace
        self._engine = started.session.engine
        self._recorder = recorder
        self._interrupt = interrupt
        self.site = Site(started.session.workspace, started.session.id)
        """The context in which asks are judged; replaced by the brief's once the session opens."""
        self._open: dict[AskId, AskRow] = {}
        self._asked: set[AskId] = set()

    @property
    def open(self) -> bool:
        return bool(self._open)

    @property
    def count(self) -> int:
        return len(self._open)

    async def asked(self, session: EngineSession, asked: Ask) -> None:
        ports = self._ports
        ask = make_ask(asked, ports.settings(), self._engine, ports.ids, ports.clock.now())
        ruling = await ports.policy.judge(ask, self.site)
        ports.trail.note_ruling(ports.clock.now(), ask, ruling, turn=self._turn.id)
        if not isinstance(session, Answerable):
            text = f"This engine cannot take an answer to: {ask.title}"
            self._recorder.take(Notice("warning", "unanswerable", text))
        elif ruling.outcome == "allow":
            await session.answer(asked.id, Decision("allow"))
        elif ruling.outcome == "deny":
            why = ruling.rule or "a rule forbids it"
            await self.tell_denial(ask.title, why)
            await session.answer(asked.id, Decision("deny", text=why))
        else:
            told = msgspec.structs.replace(ask, why=ruling.rule, offers=ruling.offers)
            await self._ask_people(session, asked, told)

    async def tell_denial(self, title: str, why: str) -> None:
        """Tell the conversation of a call that was denied without asking anybody: once per reason and turn."""
        ports, turn = self._ports, self._turn
        key = f"denied:{turn.id}:{crc32(why.encode())}"
        content = Content(denial_text(first_line(title, TITLE_CHARS), why), "notice", turn_id=turn.id)
        at = ports.clock.now()
        await self._recorder.commit(
            lambda tx: say(tx, ports.ids, turn.conversation_id, content, key=key, at=at)
        )
        ports.signals.poke(OUTBOX)

    def settled_in(self, tx: Tx) -> list[AskRow]:
        """Return our open asks that are settled in the store by now, including their reason."""
        if not self._open:
            return []
        rows = tx.asks.of_turn(self._turn.id)
        held = held_back(rows)
        return [
            row for row in rows if row.state != "open" and row.ask.id in self._open and row.ask.id not in held
        ]

    async def settle(self, session: EngineSession, row: AskRow) -> None:
        """Tell the engine. The decision is marked as used first, so that an approval never counts twice."""
        if self._open.pop(row.ask.id, None) is None:
            return
        decision = row.decision or Decision("deny", text=f"the question was {row.state}")
        decision = await self._within_rules(row.ask, decision)
        if not decision.reason_wanted:  # else the change was logged with the denial, before its reason came
            said = decision_text(row.ask, decision) if row.state == "answered" else ""
            self._recorder.take(AskChanged(row.ask.id, row.state, decision.by, said))
        self._expect_deeds(decision)
        await self._recorder.commit(lambda tx: self._go_on(tx, row))
        if isinstance(session, Answerable):
            await self._tell(session, AskId(row.engine_key), row.ask, decision)

    async def _within_rules(self, ask: Ask, decision: Decision) -> Decision:
        """Judge a changed input: a deny rule holds for it too."""
        if decision.verdict != "allow" or decision.input is None:
            return decision
        changed = with_input(ask, decision.input, partial(self._ports.read_call, self._engine))
        ruling = await self._ports.policy.judge(changed, self.site)
        self._ports.trail.note_ruling(self._ports.clock.now(), changed, ruling, turn=self._turn.id)
        if ruling.outcome != "deny":
            return decision
        return Decision("deny", text=f"the changed input is forbidden: {ruling.rule}", by=decision.by)

    async def settled_by_engine(self, event: AskChanged) -> None:
        """The engine withdrew the ask."""
        row = next((row for row in self._open.values() if row.engine_key == event.ask_id), None)
        if row is None:
            return
        del self._open[row.ask.id]
        self._recorder.take(AskChanged(row.ask.id, event.state, event.by))
        now = self._ports.clock.now()

        def unit(tx: Tx) -> None:
            for current in tx.asks.of_turn(self._turn.id):
                if current.state == "open" and row.ask.id in (current.ask.id, current.about):
                    changed = lapse(tx, self._ports.ids, current, now, because="it is not needed any more")
                    if current.about:
                        tx.events.append(self._turn.conversation_id, self._turn.id, [changed], now)
            self._go_on(tx, row)

        await self._recorder.commit(unit)

    async def _ask_people(self, session: Answerable, asked: Ask, ask: Ask) -> None:
        """Use an answer from before a restart, once; else ask, and let the turn wait."""
        stored = await self._stored_answer(ask)
        if stored is not None and stored.decision is not None:
            await self._use(session, asked, stored, stored.decision)
            return
        ask = await with_preview(ask, self._workspace, self._ports.look_at_file)
        now = self._ports.clock.now()
        row = await self._ports.read(lambda tx: self._row(tx, ask, asked.id, now))
        self._recorder.take(Asked(brief_ask(row.ask)))
        self._open[ask.id] = row
        self._asked.add(ask.id)
        await self._recorder.commit(lambda tx: self._wait(tx, row, now))
        self._ports.signals.poke(OUTBOX, INBOX)
        self._ports.log("ask.opened", turn_id=self._turn.id, ask_id=ask.id, kind=ask.kind)

    def _row(self, tx: Tx, ask: Ask, engine_key: str, now: float) -> AskRow:
        """Build the row, with the approvers for this class of call."""
        settings, turn = self._ports.settings(), tx.turns.get(self._turn.id) or self._turn
        approvers = QUESTION
        if ask.kind != "question":
            approvers = settings.approvals[self._ports.tool_class(ask.call, self._workspace)]
        authority = Authority(approvers, turn.prompt.authors, self._workspace)
        here, served = turn.conversation_id, self._ports.channels
        others, whose = route_ask(tx, settings.people, authority, here, served, now)
        return AskRow(
            msgspec.structs.replace(ask, whose=whose),
            here,
            self._session_id,
            turn.id,
            engine_key,
            "open",
            now,
            authority=authority,
            shown_in=others,
        )

    async def _stored_answer(self, ask: Ask) -> AskRow | None:
        """Find an answer given before a restart, to this turn or to the one that it continues. Later turns ask again."""
        ports = self._ports
        answers = Answers(ports.settings(), ports.ids, ports.tool_class, ports.topics, ports.read_call)

        def unit(tx: Tx) -> AskRow | None:
            found = self._unused_answer(tx, ask)
            return found if found is not None and answers.still_holds(tx, found) else None

        return await self._ports.read(unit)

    def _unused_answer(self, tx: Tx, ask: Ask) -> AskRow | None:
        for row in tx.asks.of_turn(self._turn.id):
            settled = row.state in ("answered", "expired") and not row.topic
            unused = settled and not row.used and row.ask.id not in self._asked
            if unused and row.ask.payload_hash == ask.payload_hash:
                return row
        if self._turn.cause != "answer":
            return None
        return tx.asks.unused_answer(self._session_id, ask.payload_hash)

    async def _use(self, session: Answerable, asked: Ask, stored: AskRow, decision: Decision) -> None:
        decision = await self._within_rules(stored.ask, decision)
        self._recorder.take(Asked(brief_ask(stored.ask)))
        said = decision_text(stored.ask, decision)
        self._recorder.take(AskChanged(stored.ask.id, "answered", decision.by, said))
        self._expect_deeds(decision)
        await self._recorder.commit(lambda tx: _use_up(tx, stored, self._turn.id))
        await self._tell(session, asked.id, stored.ask, decision)

    def _expect_deeds(self, decision: Decision) -> None:
        """Count an allowed call as begun: it may run before its event arrives."""
        if decision.verdict == "allow":
            self._recorder.began = True

    def _wait(self, tx: Tx, row: AskRow, now: float) -> None:
        for before in tx.asks.open_of(row.session_id):
            if before.turn_id != row.turn_id and before.ask.payload_hash == row.ask.payload_hash:
                supersede(tx, self._ports.ids, before, now)
        tx.asks.add(row)
        record_ask(tx, row, "asked", now, kind=row.ask.kind, title=row.ask.title)
        turn = tx.turns.get(row.turn_id)
        if turn is not None and turn.status == "running":
            tx.turns.move(row.turn_id, "waiting")
        show_ask(tx, self._ports.ids, row, now)

    def _go_on(self, tx: Tx, row: AskRow) -> None:
        _use_up(tx, row)
        turn = tx.turns.get(row.turn_id)
        if turn is not None and turn.status == "waiting" and not self._open:
            tx.turns.move(row.turn_id, "running")

    async def _tell(self, session: Answerable, engine_key: AskId, ask: Ask, decision: Decision) -> None:
        """Pass the decision on. A plain no stops the turn even if the engine ignores it."""
        try:
            await session.answer(engine_key, decision)
        except Exception as error:  # noqa: BLE001 - one turn: its stream reports how it ends
            self._ports.log("ask.tell_failed", turn_id=self._turn.id, level="error", error=error)
        if ends_turn(ask, decision):
            await self._interrupt()


def _use_up(tx: Tx, row: AskRow, turn_id: TurnId | None = None) -> None:
    """Mark the answer as used. A secret is forgotten."""
    tx.asks.mark_used(row.ask.id, turn_id=turn_id)
    if row.decision is not None and is_secret(row.ask):
        tx.asks.amend(row.ask.id, msgspec.structs.replace(row.decision, text=""))
