"""What becomes of an ask, each in one transaction (law 6): answered or expired.

If the turn that asked is gone, the answer starts a new turn in the same session, and waits there for the engine to ask
the same thing again; a plain no starts nothing, for it would have ended the turn.
"""

from __future__ import annotations

from pilothouse.core.ask import AskRow, AskState, Decision, hash_payload, stops
from pilothouse.core.ids import IdMaker
from pilothouse.core.message import Content
from pilothouse.core.store import Tx
from pilothouse.core.turn import LIVE, Turn
from pilothouse.runtime.auditing import HOUSE, record_ask
from pilothouse.runtime.closing import closed_line, decided, show_closed
from pilothouse.runtime.lapsing import TITLE_CHARS, lapse, log_change
from pilothouse.runtime.outgoing import say
from pilothouse.runtime.raising import tell_places
from pilothouse.runtime.reasons import REASON, want_reason
from pilothouse.runtime.resuming import STOPPED, resume_with_answer
from pilothouse.runtime.rule_keeping import remember_answer
from pilothouse.runtime.standing import note_name
from pilothouse.runtime.topics import TOPICS
from pilothouse.runtime.wording import first_line

NOBODY_ANSWERED = "nobody answered in time"


def apply_answer(tx: Tx, ids: IdMaker, row: AskRow, decision: Decision, at: float, *, name: str = "") -> None:
    """Settles an open ask. Raises `IllegalMove` if it is not open, and then nothing changed."""
    tx.asks.move(row.ask.id, "answered", at=at, decision=decision)
    if decision.by:
        note_name(tx, decision.by, name)
    instead = "" if decision.input is None else hash_payload(decision.input)
    record_ask(tx, row, decision.verdict, at, decision.by or HOUSE, instead=instead)
    remember_answer(tx, ids, row, decision, at)
    show_closed(tx, ids, row, closed_line(row.ask, "answered", decision, name), at)
    said, turn = decided(row.ask, decision), tx.turns.get(row.turn_id)
    if row.topic:
        _settle_topic(tx, ids, row, "answered", decision, at)
    elif decision.reason_wanted:
        log_change(tx, row, "answered", decision.by, at, said)
        want_reason(tx, ids, row, decision, at)
    elif turn is not None and turn.status not in LIVE:
        log_change(tx, row, "answered", decision.by, at, said)
        if stops(row.ask, decision):
            _stop_lost(tx, ids, turn, row, at)
        else:
            resume_with_answer(tx, ids, turn, row, at)


def _stop_lost(tx: Tx, ids: IdMaker, lost: Turn, row: AskRow, at: float) -> None:
    """No model is called to hear a no. One that goes on already, with an answer to another ask, hears it when it asks."""
    beside = tx.turns.of(lost.conversation_id, statuses=("queued", "parked", *LIVE))
    if any(turn.session_id == lost.session_id and turn.cause == "answer" for turn in beside):
        return
    for other in tx.asks.of_turn(lost.id):
        if other.state == "open":
            changed = lapse(tx, ids, other, at, because="its turn was stopped")
            tx.events.append(lost.conversation_id, lost.id, [changed], at)
    tx.asks.mark_used(row.ask.id)
    said = Content(STOPPED, "notice", turn_id=lost.id)
    say(tx, ids, lost.conversation_id, said, key=f"end:{lost.id}", at=at)


def expire(tx: Tx, ids: IdMaker, row: AskRow, at: float) -> None:
    """An ask that expires is a "no"."""
    decision = Decision("deny", text=NOBODY_ANSWERED)
    tx.asks.move(row.ask.id, "expired", at=at, decision=decision)
    record_ask(tx, row, "expired", at)
    show_closed(tx, ids, row, closed_line(row.ask, "expired"), at)
    turn = tx.turns.get(row.turn_id)
    if row.topic:
        _settle_topic(tx, ids, row, "expired", decision, at)
    elif turn is None or turn.status not in LIVE:
        log_change(tx, row, "expired", None, at)
    title = first_line(row.ask.title, TITLE_CHARS)
    text = "No reason came, so it stays a plain no." if row.topic == REASON else _a_no(title)
    tell_places(tx, ids, row, text, occasion="expired", at=at)


def _settle_topic(tx: Tx, ids: IdMaker, row: AskRow, state: AskState, decision: Decision, at: float) -> None:
    """No engine hears of it: what follows is done here and now."""
    tx.asks.mark_used(row.ask.id)
    log_change(tx, row, state, decision.by, at, decided(row.ask, decision) if state == "answered" else "")
    TOPICS[row.topic](tx, ids, row, decision, at)


def _a_no(title: str) -> str:
    return f"Nobody answered, so it is a no: {title}"
