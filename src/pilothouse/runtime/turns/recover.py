"""Recovery of turns whose worker died: by a crash, a shutdown, or a node that was replaced.

A lost turn runs again, once, if that can do no harm; else it ends with a notice that says how to continue. The ask of a
turn that waited stays open, and its answer continues the work in a new turn.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import msgspec

from pilothouse.core.ask import AskRow, Decision, ends_turn
from pilothouse.core.ask_view import subject
from pilothouse.core.channel import LoggedEvent
from pilothouse.core.conversation import Session
from pilothouse.core.errors import PilothouseError
from pilothouse.core.event import EngineEvent, Notice, ToolFinished, ToolStarted, TurnEnded
from pilothouse.core.ids import AskId, CallId, Epoch, IdMaker, TurnId
from pilothouse.core.message import Content
from pilothouse.core.outcome import Failure
from pilothouse.core.queue import QueueRow
from pilothouse.core.schedule import split_task_place
from pilothouse.core.store import Tx
from pilothouse.core.turn import Turn, may_run_again
from pilothouse.runtime.asks.settle import STOPPED, held_back, resume_with_answer
from pilothouse.runtime.asks.show import is_being_delivered, places_of, show_ask_in
from pilothouse.runtime.budget.ledger import settle_lost
from pilothouse.runtime.conversations.exchange import answer_asker
from pilothouse.runtime.outbox import end_key, say
from pilothouse.runtime.ports import Topics
from pilothouse.runtime.settings import Settings
from pilothouse.runtime.turns.finish import close_questions, forget_answers, prompt_after, withdraw_asks
from pilothouse.runtime.turns.last_message import cause_heading, retry_buttons, retry_command
from pilothouse.runtime.turns.recap import recap_for, with_recap
from pilothouse.runtime.turns.start import open_session

GO_ON = "Continue. You waited for an answer to: {about}. Ask again; it is answered now."
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
LOST_TASK = (
    "Pilothouse stopped in the middle of this task. Some of it may be done already, so it was not run again. "
    "{retry} goes on in its own session."
)
LOST_TASK_UNBEGUN = (
    "Pilothouse stopped while this task ran. Nothing had been done yet, but it was not run again by itself. "
    "{retry} runs it again."
)
LOST_WAITING = "Pilothouse restarted while this waited for an answer."
LEFT_WAITING = "Pilothouse was closed while this waited for an answer."
STAYS_OPEN = "Answer it, and the work goes on."
IS_ANSWERED = "It has been answered by now, so the work continues by itself."
STILL_OPEN = "This is still open.\n\n"
LATEST_ANSWERS = 100
"""The number of answers that are searched for questions of a lost turn."""


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
        if stopped:
            close_questions(tx, ids, turn, at)
        failure = None if stopped else Failure("crash", _last_word(turn))
        if failure is None:
            _cancel(tx, ids, turn, rows, at)
        else:
            _fail(tx, ids, turn, rows, failure, at)
        _tell(tx, ids, turn, failure.text if failure else STOPPED, end_key(turn.id), at, failure)


def is_settled(tx: Tx, turn_id: TurnId) -> bool:
    """True if a turn that waits without an engine has its answers, or was stopped."""
    turn = tx.turns.get(turn_id)
    if turn is None or turn.status != "waiting" or turn.stop_requested:
        return True
    return all(row.state != "open" for row in tx.asks.of_turn(turn_id))


def resume_released(tx: Tx, ids: IdMaker, settings: Settings, turn_id: TurnId, at: float) -> None:
    """Queue a turn that waited without an engine: it asks again, and gets the answers. A stopped one ends."""
    turn = tx.turns.get(turn_id)
    if turn is None or turn.status != "waiting" or not is_settled(tx, turn_id):
        return
    asked = [row for row in tx.asks.of_turn(turn.id) if not row.used]
    if turn.stop_requested or _was_stopped([row for row in asked if row.state == "answered"], ()):
        lose(tx, ids, settings, turn, tx.inbox.of_turn(turn.id), at, on_purpose=True)
        return
    turn = tx.turns.move(turn.id, "lost")
    tx.events.append(turn.conversation_id, turn.id, _close_tools(tx, turn), at)
    settle_lost(tx, ids, settings, turn, at, ended=False)
    about = "; ".join(subject(row.ask) for row in asked if not row.topic)
    said = {"text": GO_ON.format(about=about), "attachments": (), "by": "pilothouse", "commands": False}
    go_on = msgspec.structs.replace(turn.prompt, wake="", **said)
    tx.turns.move(turn.id, "queued", prompt=turn.prompt if turn.prompt.engine_line else go_on)


def _was_stopped(answered: Sequence[AskRow], held: Collection[AskId]) -> bool:
    """True after a plain no that has not reached the engine; one whose reason may still come does not count."""
    return any(
        row.decision and ends_turn(row.ask, row.decision) and row.ask.id not in held for row in answered
    )


def _last_word(turn: Turn) -> str:
    if split_task_place(turn.conversation_id)[1]:  # a message in the chat would reach the chat's session
        lost = LOST_TASK if turn.began or turn.prompt.wake else LOST_TASK_UNBEGUN
        return lost.format(retry=retry_command(turn))
    if turn.prompt.wake:
        return LOST_WAKE
    return LOST_FOR_GOOD if turn.began else LOST_UNBEGUN


def retry_turn(tx: Tx, ids: IdMaker, settings: Settings, failed: Turn, at: float) -> Turn | None:
    """Queue a failed turn again, for the same authors: with its prompt, or "Continue." if it had begun.

    Returns None for a turn that cannot be repeated: one that the engine began by itself and that is not resumable.
    """
    conversation, prompt = tx.conversations.get(failed.conversation_id), prompt_after(tx, failed)
    if conversation is None or prompt.wake:
        return None
    session = tx.sessions.get(failed.session_id)
    if session is None or session.retired:
        session = open_session(tx, ids, settings, conversation, at)
    cause = "continue" if failed.cause == "wake" else failed.cause
    id = TurnId(ids("turn"))
    again = Turn(id, session.id, conversation.id, session.engine, "queued", cause, prompt, at)
    tx.turns.add(again)
    return again


def run_elsewhere(tx: Tx, ids: IdMaker, turn: Turn, session: Session, at: float) -> None:
    """Queue a turn that could not begin for a session of another engine, with the recap that is due to it."""
    prompt = with_recap(turn.prompt, recap_for(tx, turn.conversation_id, session))
    if turn.status == "parked":
        moved = {"session_id": session.id, "engine": session.engine, "prompt": prompt, "retry_at": None}
        tx.turns.move(turn.id, "queued", **moved)
        return
    id = TurnId(ids("turn"))
    tx.turns.add(Turn(id, session.id, turn.conversation_id, session.engine, "queued", turn.cause, prompt, at))


def recover(
    tx: Tx,
    ids: IdMaker,
    settings: Settings,
    epoch: Epoch,
    at: float,
    *,
    run_again: bool = True,
    topics: Topics | None = None,
) -> int:
    """Fence a dead node and take over its claims. Returns how many turns it had running.

    `topics` settle the questions that a lost turn asked by a tool: an answer that its call no longer hears is passed on.
    """
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
        unheard = _unheard_answers(tx, turn)
        lose(tx, ids, settings, turn, kept.get(turn.id, []), at, run_again=run_again)
        for row, decision in unheard if _has_ended(tx, turn.id) else ():
            if topics is not None and row.topic in topics:
                topics[row.topic](tx, ids, row, decision, at)
    return len(held)


def _has_ended(tx: Tx, id: TurnId) -> bool:
    turn = tx.turns.get(id)
    return turn is not None and turn.ended_at is not None


def _unheard_answers(tx: Tx, turn: Turn) -> list[tuple[AskRow, Decision]]:
    """Return the answers to questions that the turn asked by a tool, unless a call of it succeeded after the answer."""
    answered = [
        (row, row.decision)
        for row in tx.asks.newest(states=("answered",), limit=LATEST_ANSWERS)
        if row.topic and row.decision is not None and row.ask.payload.get("turn") == turn.id
    ]
    logged = _logged(tx, turn) if answered else ()
    heard_at = max(
        (one.at for one in logged if isinstance(one.event, ToolFinished) and one.event.ok), default=0.0
    )
    return [(row, decision) for row, decision in answered if heard_at < (row.answered_at or 0.0)]


def _close_tools(tx: Tx, turn: Turn) -> list[EngineEvent]:
    """Return events that close the turn's open tools."""
    open_tools: dict[CallId, None] = {}
    for row in _logged(tx, turn):
        match row.event:
            case ToolStarted(call=call):
                open_tools[call.id] = None
            case ToolFinished(call_id=call_id):
                open_tools.pop(call_id, None)
    return [ToolFinished(call_id, ok=False) for call_id in open_tools]


def _logged(tx: Tx, turn: Turn) -> Sequence[LoggedEvent]:
    """Return the turn's events. An unreadable log is ignored: it must not block the start."""
    try:
        return tx.events.of_turn(turn.id)
    except PilothouseError:
        return ()


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
        _cancel(tx, ids, turn, rows, at)
    else:
        _fail(tx, ids, turn, rows, Failure("crash", LOST_WAITING), at)
    text = f"{LEFT_WAITING if on_purpose else LOST_WAITING} {STAYS_OPEN if open_asks else IS_ANSWERED}"
    _tell(tx, ids, turn, text, f"lost:{turn.id}:{turn.attempts}", at)
    for row in open_asks:
        for place in places_of(row):
            if not is_being_delivered(tx, row, place):
                again = f"again:{turn.id}:{at}"
                show_ask_in(tx, ids, row, place, at, occasion=again, before=STILL_OPEN)
    if answered and not open_asks:
        resume_with_answer(tx, ids, turn, answered[0], at)


def _fail(tx: Tx, ids: IdMaker, turn: Turn, rows: Sequence[QueueRow], failure: Failure, at: float) -> None:
    tx.events.append(turn.conversation_id, turn.id, [TurnEnded("failed", failure=failure)], at)
    turn = tx.turns.move(turn.id, "failed", failure=failure, ended_at=at)
    answer_asker(tx, ids, turn, failure.text, (), at)
    for row in rows:
        tx.inbox.fail(row.id, at, failure.text)


def _cancel(tx: Tx, ids: IdMaker, turn: Turn, rows: Sequence[QueueRow], at: float) -> None:
    """End the turn as cancelled: a person stopped it, or the gateway."""
    tx.events.append(turn.conversation_id, turn.id, [TurnEnded("cancelled")], at)
    turn = tx.turns.move(turn.id, "cancelled", ended_at=at)
    answer_asker(tx, ids, turn, STOPPED, (), at)
    for row in rows:
        tx.inbox.done(row.id, at, "cancelled")


def _tell(
    tx: Tx, ids: IdMaker, turn: Turn, text: str, key: str, at: float, failure: Failure | None = None
) -> None:
    whole = f"{cause_heading(tx, turn)}{text}"
    content = Content(whole, "notice", turn_id=turn.id, buttons=retry_buttons(turn, failure))
    say(tx, ids, turn.conversation_id, content, key=key, at=at)
