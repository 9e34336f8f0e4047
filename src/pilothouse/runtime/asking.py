"""Asks: policy first, a person second; a durable wait; one answer (law 6).

An ask is a row before anybody sees it. Its answer is applied in one transaction that checks what was asked, who
answers and whether it is still open. If the turn that asked is gone, the answer starts a new turn in the same
session, and waits there for the engine to ask the same thing again.
"""

from __future__ import annotations

import msgspec

from pilothouse.core.ask import Ask, Decision, Option, hash_payload
from pilothouse.core.channel import Answered
from pilothouse.core.errors import Fenced, StoreError
from pilothouse.core.event import AskChanged, clean_values
from pilothouse.core.ids import AskId, IdMaker, TurnId
from pilothouse.core.message import Author, Content, clean_text
from pilothouse.core.store import AskRow, Tx
from pilothouse.core.turn import LIVE, Prompt, Turn
from pilothouse.runtime.outgoing import say
from pilothouse.runtime.ports import Ports
from pilothouse.runtime.settings import Settings
from pilothouse.runtime.signals import ASKS, INBOX, OUTBOX, Signals, control_of

NOBODY_ANSWERED = "nobody answered in time"
GO_ON = "Continue. Pilothouse restarted while you waited for an answer to: {title}. Ask again; it is answered now."


def make_ask(asked: Ask, settings: Settings, ids: IdMaker, now: float) -> Ask:
    """The engine's ask, under our id, with the hash that an answer must name and the time it has."""
    wait_s = settings.question_timeout_s if asked.kind == "question" else settings.ask_timeout_s
    title = clean_text(asked.title)
    payload = clean_values(asked.payload) or {"title": title}
    return msgspec.structs.replace(
        asked,
        id=AskId(ids("ask")),
        title=title,
        options=tuple(Option(clean_text(o.key), clean_text(o.label)) for o in asked.options),
        payload=payload,
        payload_hash=hash_payload(payload),
        expires_at=asked.expires_at or now + wait_s,
    )


def show_ask(
    tx: Tx, ids: IdMaker, row: AskRow, at: float, *, occasion: str = "asked", before: str = ""
) -> None:
    content = Content(before + row.ask.title, "ask", turn_id=row.turn_id, ask=row.ask)
    say(tx, ids, row.conversation_id, content, key=f"ask:{row.ask.id}:{occasion}", at=at)


def apply_answer(tx: Tx, ids: IdMaker, row: AskRow, decision: Decision, at: float) -> None:
    """Settles an open ask. Raises `IllegalMove` if it is not open, and then nothing changed."""
    tx.asks.move(row.ask.id, "answered", at=at, decision=decision)
    tx.audit.add(at, decision.by or "", f"ask.{decision.verdict}", f"{row.ask.id} {row.ask.payload_hash}")
    turn = tx.turns.get(row.turn_id)
    if turn is not None and turn.status not in LIVE:
        tx.events.append(
            row.conversation_id, row.turn_id, [AskChanged(row.ask.id, "answered", decision.by)], at
        )
        resume_with_answer(tx, ids, turn, row, at)


def resume_with_answer(tx: Tx, ids: IdMaker, lost: Turn, row: AskRow, at: float) -> None:
    """The turn that asked is gone: a new one continues the session, where the stored answer waits for its ask."""
    prompt = Prompt(GO_ON.format(title=row.ask.title), by="pilothouse")
    turn = Turn(
        TurnId(ids("turn")),
        lost.session_id,
        lost.conversation_id,
        lost.engine,
        "queued",
        "answer",
        prompt,
        at,
    )
    tx.turns.add(turn)


def supersede(tx: Tx, ids: IdMaker, row: AskRow, at: float, *, because: str) -> None:
    """The ask can no longer matter: said once, where it was asked."""
    tx.asks.move(row.ask.id, "superseded", at=at)
    tx.events.append(row.conversation_id, row.turn_id, [AskChanged(row.ask.id, "superseded")], at)
    text = f"No longer open: {row.ask.title} ({because})"
    say(tx, ids, row.conversation_id, Content(text, "notice"), key=f"ask:{row.ask.id}:superseded", at=at)


class Asking:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports

    async def answer(self, ask_id: AskId, payload_hash: str, decision: Decision, by: Author) -> Answered:
        ports, at = self._ports, self._ports.clock.now()
        text = clean_text(decision.text)
        if len(text) > ports.settings().max_message_chars:
            return Answered(False, "This answer is too long and was not taken.")
        decision = msgspec.structs.replace(decision, by=by.id, text=text)
        at -= ports.jumped_s()  # the ask's time is that of before the jump, until the jump was made up for

        def unit(tx: Tx) -> tuple[Answered, AskRow | None]:
            row = tx.asks.get(ask_id)
            refusal = _refusal(row, payload_hash, by, ports.settings(), at)
            if row is None or refusal:
                return Answered(False, refusal), None
            apply_answer(tx, ports.ids, row, decision, at)
            return Answered(True, _settled(row.ask, decision, by)), row

        answered, row = await ports.store.write(unit)
        if row is not None:
            ports.signals.poke(INBOX, ASKS, control_of(row.conversation_id))
        ports.log(
            "ask.answered", ask_id=ask_id, by=by.id, verdict=decision.verdict, accepted=answered.accepted
        )
        return answered

    async def run(self) -> None:
        """Expires asks for ever. An ask that expires is a "no"."""
        ports = self._ports
        while True:
            ticket = ports.signals.ticket(ASKS)
            try:
                if not ports.jumped_s():
                    await self.expire()
                next_at = await ports.store.read(lambda tx: tx.asks.next_expiry())
            except Fenced:
                raise
            except StoreError as error:
                ports.log("asks.expiry_postponed", error=str(error))
                next_at = None
            pause_s = 5.0 if next_at is None else min(5.0, max(0.05, next_at - ports.clock.now()))
            await Signals.wait(ticket, pause_s)

    async def expire(self) -> None:
        ports, now = self._ports, self._ports.clock.now()
        if not await ports.store.read(lambda tx: tx.asks.expired(now)):
            return

        def unit(tx: Tx) -> list[AskRow]:
            rows = tx.asks.expired(now)
            for row in rows:
                _expire_one(tx, ports.ids, row, now)
            return rows

        rows = await ports.store.write(unit)
        ports.signals.poke(ASKS, OUTBOX, *(control_of(row.conversation_id) for row in rows))


def _expire_one(tx: Tx, ids: IdMaker, row: AskRow, now: float) -> None:
    tx.asks.move(row.ask.id, "expired", at=now, decision=Decision("deny", text=NOBODY_ANSWERED))
    turn = tx.turns.get(row.turn_id)
    if turn is None or turn.status not in LIVE:
        tx.events.append(row.conversation_id, row.turn_id, [AskChanged(row.ask.id, "expired")], now)
    content = Content(f"Nobody answered, so it is a no: {row.ask.title}", "notice")
    say(tx, ids, row.conversation_id, content, key=f"ask:{row.ask.id}:expired", at=now)


def _refusal(row: AskRow | None, payload_hash: str, by: Author, settings: Settings, now: float) -> str:
    """Why this answer does not count; empty if it does."""
    if row is None:
        return "There is no such question."
    if not settings.people.may(by.id, "answer"):
        return "You may not answer this."
    if row.ask.payload_hash != payload_hash:
        return "This is not what was asked any more. Nothing was done; look at the question again."
    if row.state == "answered" and row.decision is not None:
        return f"Already answered by {row.decision.by or 'a rule'}: {_word(row.ask, row.decision)}."
    if row.state != "open" or (row.ask.expires_at is not None and row.ask.expires_at <= now):
        return f"This question is no longer open ({row.state if row.state != 'open' else 'expired'})."
    return ""


def _settled(ask: Ask, decision: Decision, by: Author) -> str:
    return f"{ask.title} · {_word(ask, decision)}, by {by.name}"


def _word(ask: Ask, decision: Decision) -> str:
    if decision.verdict == "allow":
        return "allowed"
    if decision.verdict == "deny":
        return "denied"
    labels = {option.key: option.label for option in ask.options}
    return decision.text or ", ".join(labels.get(key, key) for key in decision.options) or "answered"
