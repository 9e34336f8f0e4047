"""The transactions that end a turn, one way or another (law 3).

finish    the stream ended: status, resume token, inbox rows and outbox rows in one transaction
park      it failed in a way that waiting mends: it keeps its place and runs again by itself
lose      its worker is gone: it runs again if that can do no harm, else it ends and says so
cancel    it never ran, and somebody does not want it any more
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from zlib import crc32

import msgspec
from msgspec import Struct

from pilothouse.core.event import AskChanged, EngineEvent, Notice, ResumeToken, TurnEnded
from pilothouse.core.failure import Failure, FailureKind
from pilothouse.core.ids import Epoch, IdMaker, TurnId
from pilothouse.core.message import Attachment, Content
from pilothouse.core.store import AskRow, QueueRow, Session, Tx
from pilothouse.core.turn import Prompt, Turn, TurnStatus, may_run_again
from pilothouse.runtime.asking import resume_with_answer, show_ask
from pilothouse.runtime.outgoing import say
from pilothouse.runtime.settings import Settings, backoff_s

MENDS_BY_ITSELF: frozenset[FailureKind] = frozenset({"transport", "overloaded", "rate_limit", "crash"})
LIMITS: frozenset[FailureKind] = frozenset({"quota", "rate_limit", "overloaded"})
JITTER_S = 20
RETIRE_AFTER = 2

LOST_AGAIN = "Pilothouse restarted while this ran. Nothing had been done yet, so it runs again."
LOST_FOR_GOOD = (
    "Pilothouse stopped in the middle of this. Some of it may be done already, so it was not run again. "
    "Say “continue” to go on in the same session."
)
LOST_UNBEGUN = (
    "Pilothouse stopped while this ran. Nothing had been done yet, but it was not run again by itself. "
    "Send it again if you still want it."
)
STILL_OPEN = "Pilothouse restarted; this is still open, and your answer continues the work.\n\n"
NO_WORDS = "Done. The engine finished without a word."
STATUS_OF: dict[str, TurnStatus] = {"completed": "done", "failed": "failed", "cancelled": "cancelled"}


class Ending(Struct, frozen=True):
    """What the runner knows when a stream has ended. `events` are those not written yet, the end excluded."""

    turn_id: TurnId
    end: TurnEnded
    events: tuple[EngineEvent, ...]
    text: str
    attachments: tuple[Attachment, ...]
    began: bool


def finish(tx: Tx, ids: IdMaker, settings: Settings, ending: Ending, at: float) -> Turn:
    turn = tx.turns.note(ending.turn_id, began=ending.began)
    retry_at = _retry_at(turn, ending.end, settings, at)
    _save_session(tx, turn, ending.end, at)
    if retry_at is not None:
        return _park(tx, ids, turn, ending, retry_at, at)
    end = _explained(turn, ending.end, settings)
    closing = _withdraw_asks(tx, turn, at)
    tx.events.append(turn.conversation_id, turn.id, [*ending.events, *closing, end], at)
    turn = _to(
        tx,
        turn,
        STATUS_OF[end.outcome],
        answer=end.answer or ending.text,
        failure=end.failure,
        usage=end.usage,
        ended_at=at,
    )
    _finish_rows(tx, turn, at)
    content = closing_content(
        end, ending.text, ending.attachments, turn_id=turn.id, show_cost=settings.show_cost
    )
    say(tx, ids, turn.conversation_id, content, key=f"end:{turn.id}", at=at)
    return turn


def lose(
    tx: Tx, ids: IdMaker, turn: Turn, rows: Sequence[QueueRow], at: float, *, run_again: bool = True
) -> None:
    """`rows` are the turn's inbox rows, claimed by this node."""
    turn = tx.turns.move(turn.id, "lost")
    open_asks = [row for row in tx.asks.of_turn(turn.id) if row.state == "open"]
    answered = [row for row in tx.asks.of_turn(turn.id) if row.state == "answered" and not row.used]
    if (open_asks or answered) and not turn.stop_requested:
        _lose_waiting(tx, ids, turn, rows, open_asks, answered, at)
    elif run_again and may_run_again(turn):
        tx.turns.move(turn.id, "queued")
        for row in tx.asks.of_turn(turn.id):
            tx.asks.give_back(row.ask.id)  # nobody is asked twice for what they have said
        tx.events.append(turn.conversation_id, turn.id, [Notice("warning", "restarted", LOST_AGAIN)], at)
    else:
        _withdraw_asks(tx, turn, at)
        text = "Stopped." if turn.stop_requested else LOST_FOR_GOOD if turn.began else LOST_UNBEGUN
        _fail(tx, ids, turn, rows, Failure("crash", text), at)
        say(
            tx,
            ids,
            turn.conversation_id,
            Content(text, "notice", turn_id=turn.id),
            key=f"end:{turn.id}",
            at=at,
        )


def recover(tx: Tx, ids: IdMaker, epoch: Epoch, at: float, *, run_again: bool = True) -> int:
    """Takes over all that a node which is gone had claimed. Returns how many turns it had running."""
    tx.nodes.fence(epoch)
    held = tx.turns.held_by(epoch)
    tx.outbox.reap(epoch)
    by_turn: dict[TurnId, list[QueueRow]] = {}
    for row in tx.inbox.reap(epoch):
        if row.turn_id is not None:
            by_turn.setdefault(row.turn_id, []).append(row)
    kept = {
        turn_id: tx.inbox.claim([row.id for row in rows], turn_id=turn_id)
        for turn_id, rows in by_turn.items()
    }
    for turn in held:
        lose(tx, ids, turn, kept.get(turn.id, []), at, run_again=run_again)
    return len(held)


def cancel(tx: Tx, ids: IdMaker, turn: Turn, at: float) -> None:
    """A queued or parked turn that somebody stopped: it is not resumed."""
    end = TurnEnded("cancelled")
    tx.events.append(turn.conversation_id, turn.id, [end], at)
    turn = tx.turns.move(turn.id, "cancelled", ended_at=at)
    _finish_rows(tx, turn, at)


def _lose_waiting(
    tx: Tx,
    ids: IdMaker,
    turn: Turn,
    rows: Sequence[QueueRow],
    open_asks: Sequence[AskRow],
    answered: Sequence[AskRow],
    at: float,
) -> None:
    """The ask outlives the turn: it is shown again, and its answer goes on in a new turn."""
    failure = Failure("crash", "Pilothouse restarted while this waited for an answer.")
    _fail(tx, ids, turn, rows, failure, at)
    for row in open_asks:
        show_ask(tx, ids, row, at, occasion=f"again:{turn.id}:{at}", before=STILL_OPEN)
    if answered and not open_asks:
        resume_with_answer(tx, ids, turn, answered[0], at)


def _fail(tx: Tx, ids: IdMaker, turn: Turn, rows: Sequence[QueueRow], failure: Failure, at: float) -> None:
    tx.events.append(turn.conversation_id, turn.id, [TurnEnded("failed", failure=failure)], at)
    tx.turns.move(turn.id, "failed", failure=failure, ended_at=at)
    for row in rows:
        tx.inbox.fail(row.id, at, failure.text)


def _park(tx: Tx, ids: IdMaker, turn: Turn, ending: Ending, retry_at: float, at: float) -> Turn:
    """The turn keeps its place. What had begun is continued; what had not is said again from the start."""
    failure = ending.end.failure
    text = failure.text if failure else "It failed."
    word = f"{text} It goes on by itself {_when(retry_at, at)}. /stop drops it."
    tx.events.append(turn.conversation_id, turn.id, [*ending.events, Notice("warning", "parked", word)], at)
    if failure is not None and failure.retry_at is not None:
        content = Content(word, "notice", turn_id=turn.id)
        say(tx, ids, turn.conversation_id, content, key=f"parked:{turn.id}:{turn.attempts}", at=at)
    prompt = Prompt("Continue.", by="pilothouse") if turn.began else turn.prompt
    if turn.status == "waiting":
        turn = tx.turns.move(turn.id, "running")
    return tx.turns.move(turn.id, "parked", retry_at=retry_at, prompt=prompt, began=False)


def _retry_at(turn: Turn, end: TurnEnded, settings: Settings, at: float) -> float | None:
    """When waiting would mend it; None if it would not, or if it was tried often enough."""
    failure = end.failure
    if end.outcome != "failed" or failure is None or turn.stop_requested:
        return None
    if failure.retry_at is not None and failure.kind in LIMITS:
        return max(at, failure.retry_at) + crc32(turn.id.encode()) % JITTER_S
    if failure.kind in MENDS_BY_ITSELF and not turn.began and turn.attempts < settings.max_attempts:
        return at + backoff_s(settings, turn.attempts)
    return None


def _explained(turn: Turn, end: TurnEnded, settings: Settings) -> TurnEnded:
    failure = end.failure
    if failure is None or failure.kind not in MENDS_BY_ITSELF or turn.attempts < settings.max_attempts:
        return end
    text = f"{failure.text} It was tried {turn.attempts} times and is set aside now."
    return msgspec.structs.replace(end, failure=msgspec.structs.replace(failure, text=text))


def _to(tx: Tx, turn: Turn, status: TurnStatus, **changes: object) -> Turn:
    if turn.status == "waiting" and status == "done":
        tx.turns.move(turn.id, "running")
    return tx.turns.move(turn.id, status, **changes)


def _withdraw_asks(tx: Tx, turn: Turn, at: float) -> list[EngineEvent]:
    """Whoever asked is gone: the asks cannot matter any more."""
    events: list[EngineEvent] = []
    for row in tx.asks.of_turn(turn.id):
        if row.state == "open":
            tx.asks.move(row.ask.id, "withdrawn", at=at)
            events.append(AskChanged(row.ask.id, "withdrawn"))
    return events


def _finish_rows(tx: Tx, turn: Turn, at: float) -> None:
    for row in tx.inbox.of_turn(turn.id):
        if row.status != "claimed":
            continue
        if turn.status == "failed":
            tx.inbox.fail(row.id, at, turn.failure.text if turn.failure else "failed")
        else:
            tx.inbox.done(row.id, at, turn.status)


def _save_session(tx: Tx, turn: Turn, end: TurnEnded, at: float) -> None:
    session = tx.sessions.get(turn.session_id)
    if session is None:
        return
    stale = end.failure is not None and end.failure.kind == "stale_session"
    failed = session.failed_resumes + 1 if stale else 0
    spent = end.usage.cost_usd if end.usage and end.usage.cost_usd else 0.0
    session = msgspec.structs.replace(
        session,
        used_at=at,
        resume=_kept_token(session, end.resume),
        turns=session.turns + 1,
        cost_usd=session.cost_usd + spent,
        failed_resumes=failed,
        retired=failed >= RETIRE_AFTER,
    )
    tx.sessions.save(session)


def _kept_token(session: Session, told: ResumeToken | None) -> ResumeToken | None:
    return told if told is not None else session.resume


def closing_content(
    end: TurnEnded,
    text: str,
    attachments: tuple[Attachment, ...],
    *,
    turn_id: TurnId | None = None,
    show_cost: bool = True,
) -> Content:
    """What people are told when a turn is over; `text` is what its blocks came to, should the end not repeat it."""
    text = end.answer or text
    if end.outcome == "completed":
        text = text or ("" if attachments else NO_WORDS)
        return Content(text, "answer", attachments, turn_id, usage=end.usage if show_cost else None)
    last = "Stopped." if end.outcome == "cancelled" else _failure_line(end.failure)
    body = f"{text}\n\n{last}" if text else last
    return Content(body, "notice", attachments, turn_id)


def _failure_line(failure: Failure | None) -> str:
    return f"Failed: {failure.text}" if failure else "Failed."


def _when(retry_at: float, now: float) -> str:
    if retry_at - now < 120:
        return f"in {max(1, round(retry_at - now))} s"
    return datetime.fromtimestamp(retry_at, UTC).strftime("at %H:%M UTC on %d %b")
