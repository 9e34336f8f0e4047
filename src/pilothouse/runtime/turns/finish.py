"""The transactions that end a turn (law 3).

finish    the stream ended: status, resume token, inbox rows and outbox rows in one transaction
park      a temporary failure: the turn keeps its place and runs again by itself
cancel    a queued or parked turn was stopped or refused

`recover.py` handles turns whose worker died.
"""

from __future__ import annotations

from datetime import UTC, datetime
from zlib import crc32

import msgspec
from msgspec import Struct

from pilothouse.core.conversation import Session
from pilothouse.core.event import EngineEvent, Notice, ResumeToken, TurnEnded
from pilothouse.core.ids import IdMaker, SessionId, TurnId
from pilothouse.core.message import Attachment, Content, clean_text
from pilothouse.core.outcome import Failure, FailureKind
from pilothouse.core.store import Tx
from pilothouse.core.turn import Prompt, Turn, TurnStatus
from pilothouse.runtime.asks.settle import lapse
from pilothouse.runtime.budget.ledger import settle
from pilothouse.runtime.conversations.binding import session_owner, set_session, wishes_of
from pilothouse.runtime.outbox import end_key, retired_key, say
from pilothouse.runtime.settings import Settings, backoff_s
from pilothouse.runtime.turns.prompt import retired_notice, with_recap, write_recap

TEMPORARY: frozenset[FailureKind] = frozenset({"transport", "overloaded", "rate_limit", "crash"})
LIMITS: frozenset[FailureKind] = frozenset({"quota", "rate_limit", "overloaded"})
JITTER_S = 20
LONGEST_PARK_S = 32 * 86_400.0
"""A reset more than a month away is taken for an error of the vendor."""
PARKS_COUNT_FOR_S = 600.0
"""After `max_attempts` parks within this time the vendor's reset times are ignored."""
RETIRE_AFTER = 2

PARKED = "parked"
NO_WORDS = "Done. The engine sent no text."
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
        return _park(tx, ids, turn, ending, retry_at, at)
    end = _explained(turn, ending.end, settings, retired=retired)
    closing = withdraw_asks(tx, ids, turn, at)
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
    content = _with_resume_line(tx, settings, turn, content)
    if not (
        turn.prompt.wake
        and end.outcome == "completed"
        and not (end.answer or ending.text or ending.attachments)
    ):
        say(tx, ids, turn.conversation_id, content, key=end_key(turn.id), at=at)
    return turn


def cancel(tx: Tx, ids: IdMaker, turn: Turn, at: float) -> None:
    """End a queued or parked turn that was stopped, or whose budget was refused."""
    refused = turn.failure if turn.failure is not None and turn.failure.kind == "budget" else None
    end = TurnEnded("failed" if refused else "cancelled", failure=refused)
    tx.events.append(turn.conversation_id, turn.id, [end], at)
    if refused and turn.status == "parked":
        tx.turns.move(turn.id, "queued")
    turn = tx.turns.move(turn.id, STATUS_OF[end.outcome], failure=refused, ended_at=at)
    _finish_rows(tx, turn, at)
    if refused:  # a person who used /stop was told at once
        content = closing_content(end, "", (), turn_id=turn.id)
        say(tx, ids, turn.conversation_id, content, key=end_key(turn.id), at=at)


def _settle(
    tx: Tx, ids: IdMaker, settings: Settings, turn: Turn, ending: Ending, at: float, *, ended: bool
) -> None:
    usage = ending.end.usage
    ran = usage is not None or ending.began or ending.end.outcome == "completed"
    cost_usd = usage.cost_usd if usage else None
    settle(tx, ids, settings, turn, cost_usd, at, ran=ran, ended=ended)


def _park(tx: Tx, ids: IdMaker, turn: Turn, ending: Ending, retry_at: float, at: float) -> Turn:
    """Park the turn. If it had begun, it continues later; if not, it gets its prompt again.

    The text so far is sent now; the next attempt sends only what follows.
    """
    failure = ending.end.failure
    text = failure.text if failure else "It failed."
    word = f"{text} It continues by itself {_when(retry_at, at)}. /stop drops it."
    closing = withdraw_asks(tx, ids, turn, at)
    events = [*ending.events, *closing, Notice("warning", PARKED, word)]
    tx.events.append(turn.conversation_id, turn.id, events, at)
    if ending.text or ending.attachments:
        content = Content(ending.text, "notice", ending.attachments, turn_id=turn.id, formatted=True)
        say(tx, ids, turn.conversation_id, content, key=f"so_far:{turn.id}:{turn.attempts}", at=at)
    if failure is not None and failure.retry_at is not None:
        content = Content(word, "notice", turn_id=turn.id)
        say(tx, ids, turn.conversation_id, content, key=f"parked:{turn.id}:{failure.retry_at:.0f}", at=at)
    if turn.status == "waiting":
        turn = tx.turns.move(turn.id, "running", began=turn.began)
    return tx.turns.move(
        turn.id,
        "parked",
        retry_at=retry_at,
        prompt=_prompt_after(tx, turn),
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
    recap = write_recap(tx, conversation.id, old.id)
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


def _prompt_after(tx: Tx, turn: Turn) -> Prompt:
    """Return the prompt of the next attempt: "Continue." if the turn had begun, or is a wake, and its session can be
    resumed; else the same prompt."""
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
        and _parks(tx, turn, at - PARKS_COUNT_FOR_S) < settings.max_attempts
    ):
        return max(failure.retry_at, backed_off) + crc32(turn.id.encode()) % JITTER_S
    if turn.prompt.wake:  # a wake cannot be repeated
        return None
    temporary = failure.kind in TEMPORARY or failure.kind == "stale_session"
    if temporary and not turn.began and turn.attempts < settings.max_attempts:
        return backed_off
    return None


def _parks(tx: Tx, turn: Turn, since: float) -> int:
    """How often the turn was parked since then."""
    if turn.attempts < 2:
        return 0
    logged = [row.event for row in tx.events.of_turn(turn.id) if row.at >= since]
    return sum(isinstance(event, Notice) and event.kind == PARKED for event in logged)


def _joined(*texts: str) -> str:
    return "\n\n".join(filter(None, texts))


def _storable(ending: Ending) -> Ending:
    """Clean all texts, so that the transaction that ends the turn cannot fail on them."""
    end, failure = ending.end, ending.end.failure
    if failure is not None:
        text, detail = clean_text(failure.text), clean_text(failure.detail)
        failure = msgspec.structs.replace(failure, text=text, detail=detail)
    end = msgspec.structs.replace(end, answer=clean_text(end.answer), failure=failure)
    return msgspec.structs.replace(ending, end=end, text=clean_text(ending.text))


def _explained(turn: Turn, end: TurnEnded, settings: Settings, *, retired: bool) -> TurnEnded:
    """Add to the failure that the turn was tried often, or that its session is retired."""
    failure = end.failure
    if failure is None:
        return end
    text = failure.text
    if failure.kind in TEMPORARY | LIMITS and turn.attempts >= settings.max_attempts:
        text = f"{text} It was tried {turn.attempts} times and is set aside now."
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
        resume=end.resume or ending.resume or session.resume,
        turns=session.turns + 1,
        cost_usd=sum(told) if told else None,
        failed_resumes=failed,
        retired=failed >= RETIRE_AFTER,
    )
    tx.sessions.save(session)
    return session.retired


def closing_content(
    end: TurnEnded,
    text: str,
    attachments: tuple[Attachment, ...],
    *,
    turn_id: TurnId | None = None,
    show_cost: bool = True,
) -> Content:
    """The last message of a turn; `text` is its streamed text, used if the end repeats no answer."""
    text = end.answer or text
    if end.outcome == "completed":
        text = text or ("" if attachments else NO_WORDS)
        return Content(text, "answer", attachments, turn_id, usage=end.usage if show_cost else None)
    last = "Stopped." if end.outcome == "cancelled" else _failure_line(end.failure)
    body = f"{text}\n\n{last}" if text else last
    return Content(body, "notice", attachments, turn_id, formatted=bool(text))


def _with_resume_line(tx: Tx, settings: Settings, turn: Turn, content: Content) -> Content:
    session, lines = tx.sessions.get(turn.session_id), settings.resume_lines.get(turn.engine)
    if lines is None or not lines.shown or session is None or session.resume is None:
        return content
    text = _joined(content.text, lines.line(session.resume))
    return msgspec.structs.replace(content, text=text)


def _failure_line(failure: Failure | None) -> str:
    return f"Failed: {failure.text}" if failure else "Failed."


def _when(retry_at: float, now: float) -> str:
    if retry_at - now < 120:
        return f"in {max(1, round(retry_at - now))} s"
    return datetime.fromtimestamp(retry_at, UTC).strftime("at %H:%M UTC on %d %b")
