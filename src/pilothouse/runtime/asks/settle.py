"""Settling an ask, each way in one transaction (law 6): answered, expired, superseded or withdrawn.

If the turn that asked has died, an answer starts a new turn in the same session and waits there for the engine to ask
again; a plain no starts nothing. Our own asks are settled by their topic's function; an expired one counts as a "deny".
“Deny, and say why” counts at once and asks the denier for a reason. The engine gets the no with the reason, or without
one after `HOLD_S`. All of that is stored in rows, so a crash changes nothing.

A closed ask's message is replaced by one line that says who answered what. The line goes through the outbox, behind the
question. Only channels that can edit show it; the event log has the same line. An unsent question is withdrawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import anyio
import msgspec

from pilothouse.core.ask import Ask, AskRow, AskState, Decision, ends_turn, hash_payload
from pilothouse.core.ask_view import subject
from pilothouse.core.channel import CanDelete, CanEdit, Channel
from pilothouse.core.errors import Rejected
from pilothouse.core.event import AskChanged
from pilothouse.core.ids import AskId, ConversationId, IdMaker, SessionId, TurnId, UserId
from pilothouse.core.message import Content, MessageRef
from pilothouse.core.people import Approvers, Authority
from pilothouse.core.queue import QueueRow
from pilothouse.core.store import Tx
from pilothouse.core.turn import LIVE, Prompt, Turn
from pilothouse.runtime.asks.outcome import closed_line, decision_text, reason_line, waited
from pilothouse.runtime.asks.rules import remember_answer
from pilothouse.runtime.asks.show import REMINDER, places_of, raise_ask, tell_places
from pilothouse.runtime.audit import APP, record_ask
from pilothouse.runtime.outbox import ask_key, end_key, is_unsent, parse_ask_key, say
from pilothouse.runtime.ports import Topics
from pilothouse.runtime.roles import note_name, private_chat_of

IN_PLACE = "in place"
"""The `why` of a `closed` row whose line has replaced the question."""


def show_closed(tx: Tx, ids: IdMaker, row: AskRow, line: str, at: float) -> None:
    """Replace the question in every place; withdraw it where it was not sent yet."""
    for asked in _questions(tx, row.ask.id, _shown_keys(row), row.turn_id):
        if is_unsent(tx, asked):
            tx.outbox.withdraw(asked.id, at, "it was closed before it was shown")
    content = Content(line, "closed", turn_id=row.turn_id or None)
    for place in places_of(row):
        say(tx, ids, place, content, key=ask_key(row, "closed", place), at=at)


def unseen_places(tx: Tx, row: AskRow) -> set[ConversationId]:
    """Return the places whose question was withdrawn before anybody saw it: nobody there is told how it ended."""
    asked = {place: tx.outbox.by_key(ask_key(row, "asked", place)) for place in places_of(row)}
    return {place for place, sent in asked.items() if sent is not None and sent.status == "withdrawn"}


def _shown_keys(row: AskRow) -> list[str]:
    """Return the keys of the messages that showed the ask: the first ones, and the reminders."""
    return [ask_key(row, occasion, place) for place in places_of(row) for occasion in ("asked", REMINDER)]


def shown_asks(tx: Tx, row: QueueRow) -> list[list[MessageRef]]:
    """Return the messages of a `closed` row's question in its conversation, one list for each time it was shown."""
    key = parse_ask_key(row)
    if key is None:
        return []
    asked = _questions(tx, key.ask, [key.on("asked"), key.on(REMINDER)], row.turn_id)
    here = [one for one in asked if one.conversation_id == row.conversation_id]
    return [[part.ref for part in tx.outbox.parts(one.id) if part.ref is not None] for one in here]


def _questions(tx: Tx, id: AskId, keys: Iterable[str], turn_id: TurnId | None) -> list[QueueRow]:
    """Return every outbox row that showed the ask: under these keys, and again during its turn."""
    again = tx.outbox.of_turn(turn_id) if turn_id else []
    found = [*map(tx.outbox.by_key, keys), *(one for one in again if _is_about(one, id))]
    return list({one.id: one for one in found if one is not None and one.kind == "ask"}.values())


def _is_about(row: QueueRow, id: AskId) -> bool:
    key = parse_ask_key(row)
    return key is not None and key.ask == id


def is_shown_in_place(tx: Tx, row: QueueRow) -> bool:
    """True if the question's own message already shows what this row would say."""
    key = parse_ask_key(row)
    if key is None or key.occasion not in ("settled", "superseded", "withdrawn"):
        return False
    closed = tx.outbox.by_key(key.on("closed"))
    return closed is not None and closed.why == IN_PLACE


def has_dead_buttons(tx: Tx, id: AskId, ref: MessageRef) -> bool:
    """True if this message still shows a settled ask and will not be replaced soon: its id was lost in a crash, or the
    platform rejected or delayed the edit."""
    row = tx.asks.get(id)
    if row is None or row.state == "open":
        return False
    asked = tx.outbox.find_ref(ref)
    if asked is None or not _is_about(asked, id):
        return True
    closed = tx.outbox.by_key(ask_key(row, "closed", asked.conversation_id))
    if closed is None:
        return True
    if closed.status == "queued":
        return closed.attempts > 0  # the next try may be half an hour away
    return closed.ended_at is not None and closed.why != IN_PLACE


async def _leave(ref: MessageRef) -> None:
    """Do nothing: the platform cannot delete messages."""


async def replace_question(
    channel: Channel, content: Content, shown: Sequence[Sequence[MessageRef]], within_s: float
) -> str:
    """Edit the first message of each question into the line, and delete its other messages.

    Returns `IN_PLACE` if at least one edit succeeded, else the reason. Errors worth a retry are raised."""
    if not isinstance(channel, CanEdit):
        return "this channel cannot edit messages"
    part = channel.render(content)[0]
    remove = channel.delete if isinstance(channel, CanDelete) else _leave
    edited, why = False, "the question was not shown"
    for first, *others in filter(None, shown):
        with anyio.fail_after(within_s):
            try:
                await channel.edit(first, part)
                edited = True
                for other in others:
                    await remove(other)
            except Rejected as error:  # deleted, or too old to edit: the log has the line anyway
                why = error.reason
    return IN_PLACE if edited else why


STOPPED = "Stopped."
GO_ON = "Continue. Pilothouse restarted while you waited for an answer to: {title}. Ask again; it is answered now."

REASON = "reason"
HOLD_S = 60.0
WHY = (
    "Denied: {what}\nWhy? Tell me within a minute, and the work goes on with your reason; otherwise it stops."
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
    line = closed_line(row.ask, state, because=because)
    show_closed(tx, ids, row, line, at)
    if because:
        tell_places(tx, ids, row, line, occasion=state, at=at, but=unseen_places(tx, row))


def resume_with_answer(tx: Tx, ids: IdMaker, lost: Turn, row: AskRow, at: float) -> None:
    """Queue a turn that continues a lost one, for the same authors."""
    said = lost.prompt
    go_on = Prompt(GO_ON.format(title=row.ask.title), by="pilothouse", authors=said.authors, chain=said.chain)
    prompt = said if said.engine_line else go_on
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


def place_of_answer(tx: Tx, row: AskRow, by: UserId | None) -> ConversationId:
    """Return the private chat in which a person saw the ask, or else the ask's own conversation."""
    home = private_chat_of(tx, by) if by else None
    return home if home is not None and home in row.shown_in else row.conversation_id


def want_reason(tx: Tx, ids: IdMaker, denied: AskRow, decision: Decision, at: float) -> None:
    """Ask the denier for a reason, in the place where they saw the ask."""
    by, turn = decision.by, tx.turns.get(denied.turn_id)
    asked = Ask(
        AskId(""),
        "question",
        WHY.format(what=subject(denied.ask, 200)),
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
        places=(place_of_answer(tx, denied, by),),
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
    line = closed_line(row.ask, "answered", decision, name)
    if row.topic == REASON and decision.text:
        line = reason_line(decision, name)
    show_closed(tx, ids, row, line, at)
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
    tell_places(tx, ids, row, _expiry_text(row, turn), occasion="expired", at=at)


def _settle_topic(
    tx: Tx, ids: IdMaker, topics: Topics, row: AskRow, state: AskState, decision: Decision, at: float
) -> None:
    """Run the topic's function in this transaction; no engine is involved."""
    tx.asks.mark_used(row.ask.id)
    log_change(
        tx, row, state, decision.by, at, decision_text(row.ask, decision) if state == "answered" else ""
    )
    topics[row.topic](tx, ids, row, decision, at)


def _expiry_text(row: AskRow, turn: Turn | None) -> str:
    """Say what becomes of the work. Where no engine waits any more, none is called for it."""
    if row.topic == REASON:
        return "No reason came, so it is denied and the work stops."
    what = subject(row.ask)
    asked_by_tool = row.topic and row.ask.kind == "question" and row.ask.asker
    if row.topic and not asked_by_tool:
        return f"No answer in {waited(row)}, so it was denied: {what}"
    if asked_by_tool or (turn is not None and turn.status in LIVE):
        return f"No answer in {waited(row)}; {row.ask.asker or 'the engine'} goes on without one: {what}"
    return f"No answer in {waited(row)}, so the work has stopped. Send a message to go on: {what}"
