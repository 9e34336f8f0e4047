"""The transactions that end a turn (law 3).

finish    the stream ended: status, resume token, inbox rows and outbox rows in one transaction
park      a temporary failure: the turn keeps its place and runs again by itself
cancel    a queued or parked turn was stopped or refused

`recover.py` handles turns whose worker died.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import msgspec
from msgspec import Struct

from pilothouse.core.conversation import Session
from pilothouse.core.event import EngineEvent, Notice, ResumeToken, TurnEnded
from pilothouse.core.ids import EngineId, IdMaker, SessionId, TurnId
from pilothouse.core.message import Attachment, Content, DoneStep, clean_text
from pilothouse.core.outcome import Failure, FailureKind
from pilothouse.core.store import Tx
from pilothouse.core.turn import Prompt, Turn, TurnStatus, is_movable
from pilothouse.runtime.asks.settle import lapse, supersede
from pilothouse.runtime.budget.ledger import settle
from pilothouse.runtime.conversations.binding import session_owner, set_session, wishes_of
from pilothouse.runtime.conversations.exchange import answer_asker
from pilothouse.runtime.conversations.handover import fork_of, lineage, note_told
from pilothouse.runtime.facts import OUTAGE
from pilothouse.runtime.outbox import end_key, retired_key, say
from pilothouse.runtime.settings import Settings, backoff_s
from pilothouse.runtime.turns.last_message import (
    cause_heading,
    closing_content,
    elsewhere_buttons,
    elsewhere_text,
    is_parking_told,
    last_text,
    note_outage,
    parked_text,
    retry_buttons,
    tell_answerers,
    with_resume_line,
)
from pilothouse.runtime.turns.recap import retired_notice, with_recap, write_recap

OUTAGES: frozenset[FailureKind] = frozenset({"transport", "overloaded", "rate_limit"})
QUICK: frozenset[FailureKind] = frozenset({"crash", "stale_session"})
"""Failures of one process: tried again soon, and not often."""
LIMITS: frozenset[FailureKind] = frozenset({"quota", "rate_limit", "overloaded"})
JITTER_S = 20
LONGEST_PARK_S = 32 * 86_400.0
"""A reset more than a month away is taken for an error of the vendor."""
PARKS_COUNT_FOR_S = 600.0
"""After `max_attempts` parks within this time the vendor's reset times are ignored."""
RETIRE_AFTER = 2

PARKED = "parked"
STATUS_OF: dict[str, TurnStatus] = {"completed": "done", "failed": "failed", "cancelled": "cancelled"}


class Ending(Struct, frozen=True):
    """The result of a finished stream. `events` are those not written yet, without the end."""

    turn_id: TurnId
    end: TurnEnded
    events: tuple[EngineEvent, ...] = ()
    text: str = ""
    attachments: tuple[Attachment, ...] = ()
    began: bool = False
    resume: ResumeToken | None = None
    steps: tuple[DoneStep, ...] = ()
    others: tuple[EngineId, ...] = ()
    """Engines that work, if this one was not available."""


def finish(tx: Tx, ids: IdMaker, settings: Settings, ending: Ending, at: float) -> Turn:
    ending = _storable(ending)
    stored = tx.turns.get(ending.turn_id)
    assert stored is not None, "a turn that runs is stored"
    turn = msgspec.structs.replace(stored, began=ending.began)  # written with the move, whichever it is
    retry_at = _retry_at(tx, turn, ending.end, settings, at)
    retired = _save_session(tx, turn, ending, at)
    afresh = retired and _may_begin_afresh(turn, settings)
    _settle(tx, ids, settings, turn, ending, at, ended=retry_at is None and not afresh)
    if afresh:
        return _begin_afresh(tx, ids, settings, turn, ending, at)
    if retry_at is not None:
        return _park(tx, ids, settings, turn, ending, retry_at, at)
    note_outage(tx, ids, settings, turn, ending.end, at)
    others = _alternatives(tx, turn, ending)
    end = _explained(tx, turn, ending.end, settings, at, retired=retired, others=others)
    closing = withdraw_asks(tx, ids, turn, at)
    if end.outcome == "cancelled":
        close_questions(tx, ids, turn, at)
    tx.events.append(turn.conversation_id, turn.id, [*ending.events, *closing, end], at)
    turn = _to(
        tx,
        turn,
        STATUS_OF[end.outcome],
        began=turn.began,
        answer=_joined(turn.answer, end.answer or ending.text),
        failure=end.failure,
        usage=end.usage,
        ended_at=at,
    )
    _finish_rows(tx, turn, at)
    forget_answers(tx, turn)
    wished = wishes_of(tx, turn.conversation_id).show_cost
    show_cost = settings.show_cost if wished is None else wished
    content = closing_content(end, ending.text, ending.attachments, turn_id=turn.id, show_cost=show_cost)
    answer_asker(tx, ids, turn, content.text, content.attachments, at)
    content = with_resume_line(tx, settings, turn, content)
    content = msgspec.structs.replace(
        content,
        text=f"{cause_heading(tx, turn)}{content.text}",
        steps=_cleaned(ending.steps),
        buttons=retry_buttons(turn, end.failure, settings, others),
    )
    if not (
        turn.prompt.wake
        and end.outcome == "completed"
        and not (end.answer or ending.text or ending.attachments)
    ):
        say(tx, ids, turn.conversation_id, content, key=end_key(turn.id), at=at)
        told = closing_content(ending.end, ending.text, ()).text
        tell_answerers(tx, ids, settings, turn, end.outcome, told, at)
    return turn


def cancel(tx: Tx, ids: IdMaker, turn: Turn, at: float, refused: Failure | None = None) -> None:
    """End a queued or parked turn that was stopped, that was `refused`, or whose budget was."""
    if refused is None and turn.failure is not None and turn.failure.kind == "budget":
        refused = turn.failure
    end = TurnEnded("failed" if refused else "cancelled", failure=refused)
    tx.events.append(turn.conversation_id, turn.id, [end], at)
    if refused and turn.status == "parked":
        tx.turns.move(turn.id, "queued")
    turn = tx.turns.move(turn.id, STATUS_OF[end.outcome], failure=refused, ended_at=at)
    _finish_rows(tx, turn, at)
    content = closing_content(end, "", (), turn_id=turn.id)
    answer_asker(tx, ids, turn, content.text, (), at)
    if refused:  # a person who used /stop was told at once
        say(tx, ids, turn.conversation_id, content, key=end_key(turn.id), at=at)


def _settle(
    tx: Tx, ids: IdMaker, settings: Settings, turn: Turn, ending: Ending, at: float, *, ended: bool
) -> None:
    usage = ending.end.usage
    ran = usage is not None or ending.began or ending.end.outcome == "completed"
    cost_usd = usage.cost_usd if usage else None
    settle(tx, ids, settings, turn, cost_usd, at, ran=ran, ended=ended)


def _park(
    tx: Tx, ids: IdMaker, settings: Settings, turn: Turn, ending: Ending, retry_at: float, at: float
) -> Turn:
    """Park the turn. If it had begun, it continues later; if not, it gets its prompt again.

    The text so far is sent now; the next attempt sends only what follows.
    """
    failure = ending.end.failure or Failure("crash", "It failed.")
    others = _alternatives(tx, turn, ending)
    word = f"{parked_text(failure, retry_at, at)}{elsewhere_text(turn, settings, others)}"
    closing = withdraw_asks(tx, ids, turn, at)
    events = [*ending.events, *closing, Notice("warning", PARKED, word)]
    tx.events.append(turn.conversation_id, turn.id, events, at)
    if ending.text or ending.attachments:
        content = Content(ending.text, "notice", ending.attachments, turn_id=turn.id, formatted=True)
        say(tx, ids, turn.conversation_id, content, key=f"so_far:{turn.id}:{turn.attempts}", at=at)
    if is_parking_told(failure, retry_at, at):
        which = f"try{turn.attempts}" if failure.retry_at is None else f"{failure.retry_at:.0f}"
        content = Content(word, "notice", turn_id=turn.id, buttons=elsewhere_buttons(turn, settings, others))
        say(tx, ids, turn.conversation_id, content, key=f"parked:{turn.id}:{which}", at=at)
    if turn.status == "waiting":
        turn = tx.turns.move(turn.id, "running", began=turn.began)
    return tx.turns.move(
        turn.id,
        "parked",
        retry_at=retry_at,
        prompt=prompt_after(tx, turn),
        began=False,
        answer=_joined(turn.answer, ending.text),
        failure=failure,
    )


def _may_begin_afresh(turn: Turn, settings: Settings) -> bool:
    """Bounded, because an engine may report even a new session as stale."""
    return not (turn.began or turn.stop_requested) and turn.attempts < settings.max_attempts + RETIRE_AFTER


def _begin_afresh(tx: Tx, ids: IdMaker, settings: Settings, turn: Turn, ending: Ending, at: float) -> Turn:
    """Run the turn again in a new session, with a recap of the retired one."""
    old, conversation = tx.sessions.get(turn.session_id), tx.conversations.get(turn.conversation_id)
    assert old is not None and conversation is not None, "a turn has both"
    kept = session_owner(tx, settings, conversation, at)
    new = Session(SessionId(ids("session")), kept.id, old.engine, old.workspace, at, at, model=old.model)
    tx.sessions.add(new)
    if kept.session_id == old.id:
        set_session(tx, kept, conversation, new.id)
    if turn.cause == "answer":  # the answers were given in the old session
        for row in tx.asks.unused_of(old.id):
            tx.asks.mark_used(row.ask.id, turn_id=turn.id)
            tx.asks.mark_unused(row.ask.id)
    recap = write_recap(tx, conversation.id, lineage(tx, old.id))
    word = retired_notice(recap)
    events = [*ending.events, *withdraw_asks(tx, ids, turn, at), Notice("warning", "session_retired", word)]
    tx.events.append(conversation.id, turn.id, events, at)
    say(tx, ids, conversation.id, Content(word, "notice", turn_id=turn.id), key=retired_key(old.id), at=at)
    if turn.status == "waiting":
        turn = tx.turns.move(turn.id, "running", began=turn.began)
    return tx.turns.move(
        turn.id,
        "parked",
        began=turn.began,
        session_id=new.id,
        prompt=with_recap(turn.prompt, recap),
        retry_at=at,
        failure=ending.end.failure,
    )


def prompt_after(tx: Tx, turn: Turn) -> Prompt:
    """Return the prompt of the next attempt: "Continue." if the turn had begun, or is a wake, and its session can be
    resumed; else the same prompt."""
    if turn.prompt.engine_line:
        return turn.prompt
    session = tx.sessions.get(turn.session_id)
    found_again = session is not None and session.resume is not None
    if not ((turn.began or turn.prompt.wake) and found_again):
        return turn.prompt
    said = {"text": "Continue.", "attachments": (), "by": "pilothouse", "commands": False, "wake": ""}
    return msgspec.structs.replace(turn.prompt, **said)


def _retry_at(tx: Tx, turn: Turn, end: TurnEnded, settings: Settings, at: float) -> float | None:
    """The time of the next attempt; None if waiting does not help, or there were enough attempts."""
    failure = end.failure
    if end.outcome != "failed" or failure is None or turn.stop_requested:
        return None
    backed_off = at + backoff_s(settings, turn.attempts)
    if (
        failure.kind in LIMITS
        and failure.retry_at is not None
        and at < failure.retry_at < at + LONGEST_PARK_S
        and sum(when >= at - PARKS_COUNT_FOR_S for when in _parked_at(tx, turn)) < settings.max_attempts
    ):
        return max(failure.retry_at, backed_off) + crc32(turn.id.encode()) % JITTER_S
    if turn.prompt.wake:  # a wake cannot be repeated
        return None
    if turn.began:
        return None
    if failure.kind in OUTAGES and turn.attempts <= len(settings.outage_pauses_s):
        return at + settings.outage_pauses_s[turn.attempts - 1]
    return backed_off if failure.kind in QUICK and turn.attempts < settings.max_attempts else None


def _parked_at(tx: Tx, turn: Turn) -> list[float]:
    """List the times at which the turn was parked."""
    if turn.attempts < 2:
        return []
    logged = tx.events.of_turn(turn.id)
    return [row.at for row in logged if isinstance(row.event, Notice) and row.event.kind == PARKED]


def _cleaned(steps: Sequence[DoneStep]) -> tuple[DoneStep, ...]:
    return tuple(msgspec.structs.replace(step, label=clean_text(step.label)) for step in steps)


def _joined(*texts: str) -> str:
    return "\n\n".join(filter(None, texts))


def _storable(ending: Ending) -> Ending:
    """Clean all texts, so that the transaction that ends the turn cannot fail on them."""
    end, failure = ending.end, ending.end.failure
    if failure is not None:
        text, detail, fix = map(clean_text, (failure.text, failure.detail, failure.fix))
        failure = msgspec.structs.replace(failure, text=text, detail=detail, fix=fix)
    end = msgspec.structs.replace(end, answer=clean_text(end.answer), failure=failure)
    return msgspec.structs.replace(ending, end=end, text=clean_text(ending.text))


def _alternatives(tx: Tx, turn: Turn, ending: Ending) -> tuple[EngineId, ...]:
    """Return the engines to offer for a turn that its own engine could not begin, without those known to be out."""
    if not is_movable(turn):
        return ()
    return tuple(id for id in ending.others if not tx.get_fact(OUTAGE.of(id)))


def _explained(
    tx: Tx,
    turn: Turn,
    end: TurnEnded,
    settings: Settings,
    at: float,
    *,
    retired: bool,
    others: Sequence[EngineId] = (),
) -> TurnEnded:
    """Add to the failure what to do next, and that its session is retired."""
    failure = end.failure
    if failure is None:
        return end
    first_at = next(iter(_parked_at(tx, turn)), at)
    text = last_text(failure, turn, settings, tried_s=at - first_at) + elsewhere_text(turn, settings, others)
    if retired:
        text = f"{text} This session is given up; your next message starts a new one."
    return msgspec.structs.replace(end, failure=msgspec.structs.replace(failure, text=text))


def _to(tx: Tx, turn: Turn, status: TurnStatus, **changes: object) -> Turn:
    if turn.status == "waiting" and status == "done":
        tx.turns.move(turn.id, "running")
    return tx.turns.move(turn.id, status, **changes)


def withdraw_asks(tx: Tx, ids: IdMaker, turn: Turn, at: float) -> list[EngineEvent]:
    """Withdraw the turn's open asks; return the events for the log."""
    return [
        lapse(tx, ids, row, at, because="its turn ended")
        for row in tx.asks.of_turn(turn.id)
        if row.state == "open"
    ]


def close_questions(tx: Tx, ids: IdMaker, turn: Turn, at: float) -> None:
    """Close what the tool calls of a stopped turn still ask. These questions belong to no turn, and outlive any other end."""
    for row in tx.asks.open_in(turn.conversation_id):
        if row.caller == turn.id:
            supersede(tx, ids, row, at, because="its turn was stopped")


def forget_answers(tx: Tx, turn: Turn) -> None:
    """Mark unused answers as used: they hold only for the turn that asked, or the one that continued it."""
    for row in tx.asks.unused_of(turn.session_id):
        before = turn.cause == "answer" and (row.answered_at or 0.0) <= (turn.started_at or 0.0)
        if row.turn_id == turn.id or before:
            tx.asks.mark_used(row.ask.id)


def _finish_rows(tx: Tx, turn: Turn, at: float) -> None:
    for row in tx.inbox.of_turn(turn.id):
        if row.status != "claimed":
            continue
        if turn.status == "failed":
            tx.inbox.fail(row.id, at, turn.failure.text if turn.failure else "failed")
        else:
            tx.inbox.done(row.id, at, turn.status)


def _save_session(tx: Tx, turn: Turn, ending: Ending, at: float) -> bool:
    """Update the session; True if resuming failed too often and it is retired now."""
    session, end = tx.sessions.get(turn.session_id), ending.end
    if session is None:
        return False
    stale = end.failure is not None and end.failure.kind == "stale_session"
    failed = session.failed_resumes + 1 if stale else 0
    costs = (session.cost_usd, end.usage.cost_usd if end.usage else None)
    told = [cost for cost in costs if cost is not None]
    session = msgspec.structs.replace(
        session,
        used_at=at,
        resume=_own_token(tx, session, end.resume or ending.resume),
        turns=session.turns + 1,
        cost_usd=sum(told) if told else None,
        failed_resumes=failed,
        retired=failed >= RETIRE_AFTER,
    )
    tx.sessions.save(session)
    if (ending.began or end.outcome == "completed") and not turn.prompt.engine_line:
        note_told(tx, session.id)
    return session.retired


def _own_token(tx: Tx, session: Session, told: ResumeToken | None) -> ResumeToken | None:
    """Return the session's token. That of the session it was to go on from is never its own."""
    fork = fork_of(tx, session)
    if told is None or (fork is not None and told.value == fork.resume.value):
        return session.resume
    return told
