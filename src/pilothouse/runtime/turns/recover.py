"""Recovery of turns whose worker died: by a crash, a shutdown, or a node that was replaced.

A lost turn runs again, once, if that can do no harm; else it ends with a notice that says how to continue. The ask of a
turn that waited stays open, and its answer continues the work in a new turn.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pilothouse.core.ask import AskRow, ends_turn
from pilothouse.core.errors import PilothouseError
from pilothouse.core.event import EngineEvent, Notice, ToolFinished, ToolStarted, TurnEnded
from pilothouse.core.ids import AskId, CallId, Epoch, IdMaker, TurnId
from pilothouse.core.message import Content
from pilothouse.core.outcome import Failure
from pilothouse.core.queue import QueueRow
from pilothouse.core.store import Tx
from pilothouse.core.turn import Turn, may_run_again
from pilothouse.runtime.asks.settle import STOPPED, held_back, resume_with_answer
from pilothouse.runtime.asks.show import is_being_delivered, places_of, show_ask_in
from pilothouse.runtime.budget.ledger import settle_lost
from pilothouse.runtime.outbox import end_key, say
from pilothouse.runtime.settings import Settings
from pilothouse.runtime.turns.finish import forget_answers, withdraw_asks

LOST_AGAIN = "Pilothouse stopped while this ran. Nothing had been done yet, so it runs again by itself."
LOST_FOR_GOOD = (
    "Pilothouse stopped in the middle of this. Some of it may be done already, so it was not run again. "
    "Say “continue” to go on in the same session."
)
LOST_UNBEGUN = (
    "Pilothouse stopped while this ran. Nothing had been done yet, but it was not run again by itself. "
    "Send it again to continue in the same session."
)
LOST_WAKE = (
    "Pilothouse stopped while the engine worked by itself. Say “continue” to go on in the same session."
)
LOST_WAITING = "Pilothouse restarted while this waited for an answer."
LEFT_WAITING = "Pilothouse was closed while this waited for an answer."
STAYS_OPEN = "The question stays open, and its answer continues the work."
IS_ANSWERED = "It has been answered by now, so the work continues by itself."
STILL_OPEN = "This is still open.\n\n"


def lose(
    tx: Tx,
    ids: IdMaker,
    settings: Settings,
    turn: Turn,
    rows: Sequence[QueueRow],
    at: float,
    *,
    run_again: bool = True,
    on_purpose: bool = False,
) -> None:
    """End or requeue a lost turn. `rows` are its inbox rows, claimed by this node; `on_purpose` means a normal shutdown."""
    turn = tx.turns.move(turn.id, "lost")
    tx.events.append(turn.conversation_id, turn.id, _close_tools(tx, turn), at)
    asked = tx.asks.of_turn(turn.id)
    open_asks = [row for row in asked if row.state == "open"]
    answered = [row for row in asked if row.state == "answered" and not row.used]
    stopped = turn.stop_requested or _was_stopped(answered, held_back(asked))
    waited = bool(open_asks or answered) and not stopped
    again = not waited and not stopped and run_again and may_run_again(turn)
    settle_lost(tx, ids, settings, turn, at, ended=not again)
    if waited:
        _lose_waiting(tx, ids, turn, rows, open_asks, answered, at, on_purpose=on_purpose)
    elif again:
        tx.turns.move(turn.id, "queued")
        for row in tx.asks.of_turn(turn.id):
            tx.asks.mark_unused(row.ask.id)  # so that people are not asked again
        tx.events.append(turn.conversation_id, turn.id, [Notice("warning", "restarted", LOST_AGAIN)], at)
        _tell(tx, ids, turn, LOST_AGAIN, f"lost:{turn.id}:{turn.attempts}", at)
    else:
        tx.events.append(turn.conversation_id, turn.id, withdraw_asks(tx, ids, turn, at), at)
        forget_answers(tx, turn)
        text = STOPPED if stopped else _last_word(turn)
        if stopped:
            _cancel(tx, turn, rows, at)
        else:
            _fail(tx, turn, rows, Failure("crash", text), at)
        _tell(tx, ids, turn, text, end_key(turn.id), at)


def _was_stopped(answered: Sequence[AskRow], held: Collection[AskId]) -> bool:
    """True after a plain no that has not reached the engine; one whose reason may still come does not count."""
    return any(
        row.decision and ends_turn(row.ask, row.decision) and row.ask.id not in held for row in answered
    )


def _last_word(turn: Turn) -> str:
    if turn.prompt.wake:
        return LOST_WAKE
    return LOST_FOR_GOOD if turn.began else LOST_UNBEGUN


def recover(
    tx: Tx, ids: IdMaker, settings: Settings, epoch: Epoch, at: float, *, run_again: bool = True
) -> int:
    """Fence a dead node and take over its claims. Returns how many turns it had running."""
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
        lose(tx, ids, settings, turn, kept.get(turn.id, []), at, run_again=run_again)
    return len(held)


def _close_tools(tx: Tx, turn: Turn) -> list[EngineEvent]:
    """Return events that close the turn's open tools. An unreadable log is ignored: it must not block the start."""
    open_tools: dict[CallId, None] = {}
    try:
        logged = tx.events.of_turn(turn.id)
    except PilothouseError:
        return []
    for row in logged:
        match row.event:
            case ToolStarted(call=call):
                open_tools[call.id] = None
            case ToolFinished(call_id=call_id):
                open_tools.pop(call_id, None)
    return [ToolFinished(call_id, ok=False) for call_id in open_tools]


def _lose_waiting(
    tx: Tx,
    ids: IdMaker,
    turn: Turn,
    rows: Sequence[QueueRow],
    open_asks: Sequence[AskRow],
    answered: Sequence[AskRow],
    at: float,
    *,
    on_purpose: bool,
) -> None:
    """End a turn that waited for an answer: show its asks again; their answer continues in a new turn."""
    if on_purpose:  # nothing failed
        _cancel(tx, turn, rows, at)
    else:
        _fail(tx, turn, rows, Failure("crash", LOST_WAITING), at)
    text = f"{LEFT_WAITING if on_purpose else LOST_WAITING} {STAYS_OPEN if open_asks else IS_ANSWERED}"
    _tell(tx, ids, turn, text, f"lost:{turn.id}:{turn.attempts}", at)
    for row in open_asks:
        for place in places_of(row):
            if not is_being_delivered(tx, row, place):
                again = f"again:{turn.id}:{at}"
                show_ask_in(tx, ids, row, place, at, occasion=again, before=STILL_OPEN)
    if answered and not open_asks:
        resume_with_answer(tx, ids, turn, answered[0], at)


def _fail(tx: Tx, turn: Turn, rows: Sequence[QueueRow], failure: Failure, at: float) -> None:
    tx.events.append(turn.conversation_id, turn.id, [TurnEnded("failed", failure=failure)], at)
    tx.turns.move(turn.id, "failed", failure=failure, ended_at=at)
    for row in rows:
        tx.inbox.fail(row.id, at, failure.text)


def _cancel(tx: Tx, turn: Turn, rows: Sequence[QueueRow], at: float) -> None:
    """End the turn as cancelled: a person stopped it, or the gateway."""
    tx.events.append(turn.conversation_id, turn.id, [TurnEnded("cancelled")], at)
    tx.turns.move(turn.id, "cancelled", ended_at=at)
    for row in rows:
        tx.inbox.done(row.id, at, "cancelled")


def _tell(tx: Tx, ids: IdMaker, turn: Turn, text: str, key: str, at: float) -> None:
    say(tx, ids, turn.conversation_id, Content(text, "notice", turn_id=turn.id), key=key, at=at)
