"""Settling an ask, each way in one transaction (law 6): answered, expired, superseded or withdrawn.

If the turn that asked has died, an answer starts a new turn in the same session and waits there for the engine to ask
again; a plain no starts nothing. Our own asks are settled by their topic's function; an expired one counts as a "deny".
“Deny, and say why” counts at once and asks the denier for a reason. The engine gets the no with the reason, or without
one after `HOLD_S`. All of that is stored in rows, so a crash changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from pilothouse.core.ask import Ask, AskRow, AskState, Decision, ends_turn, hash_payload
from pilothouse.core.event import AskChanged
from pilothouse.core.ids import AskId, IdMaker, SessionId, TurnId, UserId
from pilothouse.core.message import Content
from pilothouse.core.people import Approvers, Authority
from pilothouse.core.store import Tx
from pilothouse.core.text import first_line
from pilothouse.core.turn import LIVE, Prompt, Turn
from pilothouse.runtime.asks.closed import closed_line, decision_text, show_closed
from pilothouse.runtime.asks.rules import remember_answer
from pilothouse.runtime.asks.show import raise_ask, tell_places
from pilothouse.runtime.audit import APP, record_ask
from pilothouse.runtime.outbox import end_key, say
from pilothouse.runtime.ports import Topics
from pilothouse.runtime.roles import note_name, private_chat_of

TITLE_CHARS = 300
"""Length of a title in a sentence about its ask."""

STOPPED = "Stopped."
GO_ON = "Continue. Pilothouse restarted while you waited for an answer to: {title}. Ask again; it is answered now."

REASON = "reason"
HOLD_S = 60.0
WHY = (
    "Denied: {title}\nWhy not? Say it within a minute, and the work goes on with your reason; else it stops."
)


NOBODY_ANSWERED = "nobody answered in time"


def supersede(tx: Tx, ids: IdMaker, row: AskRow, at: float, *, because: str = "") -> None:
    """Close an ask that something newer replaced. Without a reason, only its own message shows that."""
    _close(tx, ids, row, "superseded", because, at)
    log_change(tx, row, "superseded", None, at)


def supersede_lost(tx: Tx, ids: IdMaker, sessions: Iterable[SessionId | None], at: float) -> None:
    """A person went on in these sessions: close their open asks whose turn was lost. Until then, or until they are
    answered or expire, nothing starts there (`InboxQueue.startable`)."""
    for row in [row for id in sessions if id for row in tx.asks.open_of(id)]:
        turn = tx.turns.get(row.turn_id)
        if turn is not None and turn.ended_at is not None:
            supersede(tx, ids, row, at, because="you went on without answering")


def lapse(tx: Tx, ids: IdMaker, row: AskRow, at: float, *, because: str) -> AskChanged:
    """Withdraw an ask. The caller writes the returned event among the turn's own."""
    _close(tx, ids, row, "withdrawn", because, at)
    return AskChanged(row.ask.id, "withdrawn")


def log_change(tx: Tx, row: AskRow, state: AskState, by: UserId | None, at: float, said: str = "") -> None:
    """Log the change in the ask's turn, if it has one."""
    turn = tx.turns.get(row.turn_id)
    if turn is not None:
        tx.events.append(turn.conversation_id, turn.id, [AskChanged(row.ask.id, state, by, said)], at)


def _close(tx: Tx, ids: IdMaker, row: AskRow, state: AskState, because: str, at: float) -> None:
    tx.asks.move(row.ask.id, state, at=at)
    record_ask(tx, row, state, at)
    show_closed(tx, ids, row, closed_line(row.ask, state, because=because), at)
    if because:
        text = f"No longer open: {first_line(row.ask.title, TITLE_CHARS)} ({because})"
        tell_places(tx, ids, row, text, occasion=state, at=at)


def resume_with_answer(tx: Tx, ids: IdMaker, lost: Turn, row: AskRow, at: float) -> None:
    """Queue a turn that continues a lost one, for the same authors."""
    prompt = Prompt(GO_ON.format(title=row.ask.title), by="pilothouse", authors=lost.prompt.authors)
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


def want_reason(tx: Tx, ids: IdMaker, denied: AskRow, decision: Decision, at: float) -> None:
    """Ask the denier for a reason, in the place where they saw the ask."""
    by, turn = decision.by, tx.turns.get(denied.turn_id)
    home = private_chat_of(tx, by) if by else None
    place = home if home in denied.shown_in else None
    asked = Ask(
        AskId(""),
        "question",
        WHY.format(title=first_line(denied.ask.title, 200)),
        {"reason_for": denied.ask.id},
        free_text=True,
        expires_at=at + HOLD_S,
    )
    authority = Authority(Approvers(("member",)), workspace=denied.authority.workspace, only=by)
    raise_ask(
        tx,
        ids,
        asked,
        topic=REASON,
        authority=authority,
        places=(place or denied.conversation_id,),
        at=at,
        turn=turn,
        about=denied.ask.id,
    )


def held_back(rows: Iterable[AskRow]) -> set[AskId]:
    """Return the denied asks whose reason may still come."""
    return {row.about for row in rows if row.topic == REASON and row.state == "open" and row.about}


def settle_reason(tx: Tx, ids: IdMaker, row: AskRow, decision: Decision, at: float) -> None:
    """Add the reason to the denial, if one came; the denial holds in any case."""
    denied = tx.asks.get(row.about) if row.about else None
    if denied is None or denied.decision is None:
        return
    if decision.verdict != "answer":
        turn = tx.turns.get(denied.turn_id)
        if turn is not None and turn.status not in LIVE:
            tx.asks.mark_used(denied.ask.id)  # it must not answer a later ask
        return
    denied = tx.asks.amend(denied.ask.id, msgspec.structs.replace(denied.decision, text=decision.text))
    turn = tx.turns.get(denied.turn_id)
    if turn is not None and turn.status not in LIVE:
        resume_with_answer(tx, ids, turn, denied, at)


def apply_answer(
    tx: Tx, ids: IdMaker, topics: Topics, row: AskRow, decision: Decision, at: float, *, name: str = ""
) -> None:
    """Settle an open ask. Raises `IllegalMove` if it is not open, and then nothing changed."""
    tx.asks.move(row.ask.id, "answered", at=at, decision=decision)
    if decision.by:
        note_name(tx, decision.by, name)
    instead = "" if decision.input is None else hash_payload(decision.input)
    record_ask(tx, row, decision.verdict, at, decision.by or APP, instead=instead)
    remember_answer(tx, ids, row, decision, at)
    show_closed(tx, ids, row, closed_line(row.ask, "answered", decision, name), at)
    said, turn = decision_text(row.ask, decision), tx.turns.get(row.turn_id)
    if row.topic:
        _settle_topic(tx, ids, topics, row, "answered", decision, at)
    elif decision.reason_wanted:
        log_change(tx, row, "answered", decision.by, at, said)
        want_reason(tx, ids, row, decision, at)
    elif turn is not None and turn.status not in LIVE:
        log_change(tx, row, "answered", decision.by, at, said)
        if ends_turn(row.ask, decision):
            _stop_lost(tx, ids, turn, row, at)
        else:
            resume_with_answer(tx, ids, turn, row, at)


def _stop_lost(tx: Tx, ids: IdMaker, lost: Turn, row: AskRow, at: float) -> None:
    """Stop a lost turn without calling a model. A turn that already continues it gets the no when it asks again."""
    beside = tx.turns.of(lost.conversation_id, statuses=("queued", "parked", *LIVE))
    if any(turn.session_id == lost.session_id and turn.cause == "answer" for turn in beside):
        return
    for other in tx.asks.of_turn(lost.id):
        if other.state == "open":
            changed = lapse(tx, ids, other, at, because="its turn was stopped")
            tx.events.append(lost.conversation_id, lost.id, [changed], at)
    tx.asks.mark_used(row.ask.id)
    said = Content(STOPPED, "notice", turn_id=lost.id)
    say(tx, ids, lost.conversation_id, said, key=end_key(lost.id), at=at)


def expire(tx: Tx, ids: IdMaker, topics: Topics, row: AskRow, at: float) -> None:
    """Expire an ask, which counts as a "no"."""
    decision = Decision("deny", text=NOBODY_ANSWERED)
    tx.asks.move(row.ask.id, "expired", at=at, decision=decision)
    record_ask(tx, row, "expired", at)
    show_closed(tx, ids, row, closed_line(row.ask, "expired"), at)
    turn = tx.turns.get(row.turn_id)
    if row.topic:
        _settle_topic(tx, ids, topics, row, "expired", decision, at)
    elif turn is None or turn.status not in LIVE:
        log_change(tx, row, "expired", None, at)
    title = first_line(row.ask.title, TITLE_CHARS)
    text = "No reason came, so it stays a plain no." if row.topic == REASON else _a_no(title)
    tell_places(tx, ids, row, text, occasion="expired", at=at)


def _settle_topic(
    tx: Tx, ids: IdMaker, topics: Topics, row: AskRow, state: AskState, decision: Decision, at: float
) -> None:
    """Run the topic's function in this transaction; no engine is involved."""
    tx.asks.mark_used(row.ask.id)
    log_change(
        tx, row, state, decision.by, at, decision_text(row.ask, decision) if state == "answered" else ""
    )
    topics[row.topic](tx, ids, row, decision, at)


def _a_no(title: str) -> str:
    return f"Nobody answered, so it is a no: {title}"
