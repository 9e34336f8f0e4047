"""Parts of a turn's last message besides the answer: the steps that ran, and the sentences about a failure; and its
copies, for people who answered an ask of the turn in another place.

A failure that waiting mends parks the turn, and people see when it is tried again. One that a person must mend at the
machine (`Failure.fix`) is told to its conversation each time, and to the owners once per outage.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace

from pilothouse.core.event import (
    EngineEvent,
    Outcome,
    ToolCall,
    ToolFinished,
    ToolStarted,
    ToolUpdated,
    TurnEnded,
)
from pilothouse.core.ids import CallId, ConversationId, EngineId, IdMaker, TurnId
from pilothouse.core.message import Attachment, CommandButton, Content, DoneStep
from pilothouse.core.outcome import Failure, FailureKind
from pilothouse.core.people import OWNERS, Authority
from pilothouse.core.schedule import split_task_place
from pilothouse.core.store import Tx
from pilothouse.core.text import beginning, first_line, format_long, moment, reveal_hidden
from pilothouse.core.turn import Turn, retry_button
from pilothouse.runtime.asks.settle import place_of_answer
from pilothouse.runtime.asks.show import NO_PLACE, origin
from pilothouse.runtime.facts import OUTAGE
from pilothouse.runtime.outbox import end_elsewhere_key, say
from pilothouse.runtime.roles import approver_chats, may
from pilothouse.runtime.settings import Settings

MAX_STEPS = 50
LABEL_CHARS = 100
COPY_CHARS = 800
"""A place other than the turn's own conversation gets this much of an answer."""
_MARKUP = re.compile(r"[\[\]()<>*_`~|#]")
_PREFIX = re.compile(r"^[a-z]+: ?")


class DoneSteps:
    """Notes steps as events come. Several changes of one file are one step; calls of sub-agents count too."""

    def __init__(self) -> None:
        self._steps: dict[CallId, DoneStep] = {}

    def note(self, event: EngineEvent) -> None:
        match event:
            case ToolStarted(call=call) if call.kind in ("command", "file_change"):
                if len(self._steps) < MAX_STEPS:
                    self._steps[call.id] = _step(call)
            case ToolUpdated(call_id=id, title=str(title)) if id in self._steps:
                self._steps[id] = replace(self._steps[id], label=_label(title, self._steps[id].is_command))
            case ToolFinished(call_id=id, ok=ok) if id in self._steps:
                self._steps[id] = replace(self._steps[id], ok=ok)
            case _:
                pass

    def listed(self) -> tuple[DoneStep, ...]:
        """Return the steps in the order in which they began."""
        merged: dict[tuple[bool, str, CallId | None], DoneStep] = {}
        for id, step in self._steps.items():
            merged[step.is_command, step.label, id if step.is_command else None] = step
        return tuple(merged.values())


def _step(call: ToolCall) -> DoneStep:
    is_command = call.kind == "command"
    return DoneStep(_label(call.title, is_command), ok=False, is_command=is_command)


def _label(title: str, is_command: bool) -> str:
    words = title if is_command else _PREFIX.sub("", title.strip(), count=1)
    return first_line(reveal_hidden(words), LABEL_CHARS) or ("a command" if is_command else "a file")


RETRYABLE: frozenset[FailureKind] = frozenset(
    {"auth", "quota", "rate_limit", "overloaded", "transport", "crash", "hang"}
)
"""Failures that time or a login mends."""
NO_WORDS = "Done. The engine sent no text."
SAID_FROM_S = 30.0
"""A shorter pause before the next attempt is not worth a message."""


def parked_text(failure: Failure, retry_at: float, at: float) -> str:
    does = "It continues by itself" if failure.retry_at is not None else "I try again"
    return f"{failure.text} {does} {_when(retry_at, at)}. /stop drops it."


def is_parking_told(failure: Failure, retry_at: float, at: float) -> bool:
    return failure.retry_at is not None or retry_at - at >= SAID_FROM_S


def last_text(failure: Failure, turn: Turn, settings: Settings, *, tried_s: float) -> str:
    """Return the final sentences. `tried_s` is the time between the first failed attempt and the last one."""
    retry = retry_command(turn)
    if failure.fix:
        return f"{failure.text} {_fix(failure, settings)}, then send {retry}."
    if failure.kind not in RETRYABLE:
        return failure.text
    if turn.attempts < 2:
        return f"{failure.text} {retry} tries again."
    over = f" over {format_long(tried_s)}" if tried_s >= 1 else ""
    return f"{failure.text} I gave up after {turn.attempts} tries{over}. {retry} tries again."


def retry_command(turn: Turn) -> str:
    """Return the words that run the turn again. In a chat, a plain `/retry` means the chat's own turn, not a task's."""
    return f"/retry {turn.id}" if split_task_place(turn.conversation_id)[1] else "/retry"


def cause_heading(tx: Tx, turn: Turn) -> str:
    """Return the line above the last message of a turn that no person started: of a schedule, of another agent's request, or
    of a follow-up. It appears between other messages."""
    id, chain = split_task_place(turn.conversation_id)[1], turn.prompt.chain
    schedule = tx.schedules.get(id) if id else None
    if chain is not None:
        return f"{'↪' if chain.is_follow_up else '🤝'} {_MARKUP.sub('', chain.heading)}\n\n"
    return f"⏰ {_MARKUP.sub('', first_line(schedule.prompt))}\n\n" if schedule else ""


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


def with_resume_line(tx: Tx, settings: Settings, turn: Turn, content: Content) -> Content:
    session, lines = tx.sessions.get(turn.session_id), settings.resume_lines.get(turn.engine)
    if lines is None or not lines.shown or session is None or session.resume is None:
        return content
    text = f"{content.text}\n\n{lines.line(session.resume)}" if content.text else lines.line(session.resume)
    return replace(content, text=text)


def _failure_line(failure: Failure | None) -> str:
    return f"Failed: {failure.text}" if failure else "Failed."


def retry_buttons(
    turn: Turn, failure: Failure | None, settings: Settings | None = None, others: Sequence[EngineId] = ()
) -> tuple[CommandButton, ...]:
    """Return the buttons below a failure. They name the turn, so that they never repeat another."""
    may_retry = failure is not None and failure.kind in RETRYABLE and not turn.prompt.wake
    elsewhere = elsewhere_buttons(turn, settings, others) if settings is not None else ()
    return (*((retry_button(turn),) if may_retry else ()), *elsewhere)


def elsewhere_buttons(
    turn: Turn, settings: Settings, others: Sequence[EngineId]
) -> tuple[CommandButton, ...]:
    """Return the buttons that run the turn with another engine."""
    titles = settings.engine_titles
    return tuple(
        CommandButton(f"Continue with {titles.get(id, id)}", f"/retry {turn.id} {id}") for id in others
    )


def elsewhere_text(turn: Turn, settings: Settings, others: Sequence[EngineId]) -> str:
    """Return the sentence for channels without buttons."""
    if not others:
        return ""
    retry, titles = retry_command(turn), settings.engine_titles
    how = " or ".join(f"{titles.get(id, id)} ({retry} {id})" for id in others)
    return f" Or continue with {how}."


def tell_answerers(
    tx: Tx, ids: IdMaker, settings: Settings, turn: Turn, outcome: Outcome, text: str, at: float
) -> None:
    """Send the result of a turn, shortened, to owners who answered one of its asks in a private chat of their own."""
    session = tx.sessions.get(turn.session_id)
    if outcome == "cancelled" or session is None:  # the person who stopped it knows
        return
    places: dict[ConversationId, None] = {}
    for row in tx.asks.of_turn(turn.id):
        by = row.decision.by if row.decision is not None else None
        if by and may(tx, settings.people, by, "query.across", session.workspace):
            places[place_of_answer(tx, row, by)] = None
    for place in places:
        if place not in (NO_PLACE, turn.conversation_id):
            content = _copy(origin(tx, turn.prompt.authors, turn.conversation_id), turn, text)
            say(tx, ids, place, content, key=end_elsewhere_key(turn.id, place), at=at)


def _copy(whence: str, turn: Turn, text: str) -> Content:
    shown = beginning(text, COPY_CHARS) or first_line(text, COPY_CHARS)
    if shown == text:
        return Content(f"{whence}\n\n{text}", "answer")
    command = f"/show {turn.id}"
    told = f"{whence}\n\n{shown}\n\n… `{command}` shows all of it."
    return Content(told, "answer", buttons=(CommandButton("Show all", command),))


def note_outage(tx: Tx, ids: IdMaker, settings: Settings, turn: Turn, end: TurnEnded, at: float) -> None:
    """Tell the owners, wherever they are, of a failure that only a person can mend. A completed turn ends the outage."""
    key, failure = OUTAGE.of(turn.engine), end.failure
    was_told = bool(tx.get_fact(key))
    if end.outcome == "completed" and was_told:
        tx.set_fact(key, "")
    if failure is None or not failure.fix or was_told:
        return
    tx.set_fact(key, failure.kind)
    text = f"{failure.text} {_fix(failure, settings)}. Until then, no turn of {turn.engine} can run."
    for home in approver_chats(tx, settings.people, Authority(OWNERS)):
        if home != turn.conversation_id:
            say(tx, ids, home, Content(text, "notice", dated=True), key=f"outage:{turn.id}:{home}", at=at)


def _fix(failure: Failure, settings: Settings) -> str:
    return failure.fix.replace("{machine}", settings.machine)


def _when(retry_at: float, now: float) -> str:
    wait_s = retry_at - now
    return f"in {max(1, round(wait_s))} s" if wait_s < 120 else moment(retry_at, now)
