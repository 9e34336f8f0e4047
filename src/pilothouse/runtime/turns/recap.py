"""The recap: what a session is told of the turns that other sessions of its conversation had.

It is written for the first prompt after a session that could not be resumed, and after the conversation moved to another
engine. It comes from our own rows: prompts, answers, decided asks, and from the event log the changed files and the open
plan. It is bounded, keeps the newest turns, and is escaped. It tells what was done and runs nothing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from html import escape

import msgspec
from msgspec import Struct

from pilothouse.core.ask_view import subject
from pilothouse.core.conversation import Session
from pilothouse.core.errors import PilothouseError
from pilothouse.core.event import EngineEvent, PlanChanged, PlanItem
from pilothouse.core.ids import ConversationId, SessionId, TurnId
from pilothouse.core.store import Tx
from pilothouse.core.text import first_line
from pilothouse.core.turn import Prompt, Turn
from pilothouse.runtime.asks.outcome import decision_text
from pilothouse.runtime.conversations.handover import handover_of
from pilothouse.runtime.turns.last_message import DoneSteps
from pilothouse.runtime.turns.prompt import without_recap

MAX_CHARS = 8000
MAX_TURNS = 20
ASKED_CHARS = 800
ANSWERED_CHARS = 2000
MAX_DECISIONS = 5
MAX_FILES = 50
MAX_PLAN = 20
LINE_CHARS = 200

GIVEN_UP = "The previous session could not be resumed and is given up. This continues in a new one{how}."
WITH_RECAP = ", with a recap of what was said"
LOST = "The session before this one is lost. What was said in it, oldest first, shortened:"
MOVED = (
    "This conversation moved here from another agent. What was asked, answered and done so far, oldest first, shortened. "
    "It is done: go on from here, and repeat none of it."
)
MEANWHILE = (
    "Since your last turn this conversation went on with another agent. What was asked, answered and done there, oldest "
    "first, shortened. It is done: go on from here, and repeat none of it."
)
_FILE_MENTION = re.compile(r"(?<![\w/])@(?=\S)")
"""`@file`, which Claude Code would open in text mode."""


class Notes(Struct, frozen=True):
    """Contents of the rows beside the turns: decisions by turn, changed files, and the steps of the plan that are left."""

    decided: dict[TurnId, list[str]] = {}
    files: Sequence[str] = ()
    plan: Sequence[PlanItem] = ()


def write_recap(
    tx: Tx,
    conversation_id: ConversationId,
    sessions: Collection[SessionId],
    *,
    since: float = 0.0,
    head: str = LOST,
) -> str:
    """Write the recap of these sessions' turns in a conversation; empty if nothing was said or done."""
    ended = tx.turns.of(conversation_id, statuses=("done", "failed", "cancelled"), limit=MAX_TURNS * 5)
    turns = [
        turn
        for turn in ended
        if turn.session_id in sessions and turn.created_at >= since and (turn.answer or turn.began)
    ][:MAX_TURNS]
    return recap_of(turns, head, _notes(tx, turns))


def recap_of(turns: Sequence[Turn], head: str = LOST, notes: Notes = Notes()) -> str:  # noqa: B008 - frozen
    """`turns` are newest first; as many are told as there is room for."""
    told: list[str] = []
    room = MAX_CHARS
    for text in (_turn(turn, notes.decided.get(turn.id, ())) for turn in turns[:MAX_TURNS]):
        room -= len(text)
        if room < 0:
            break
        told.append(text)
    if not told:
        return ""
    plan = [f"[{item.status}] {_short(item.text, LINE_CHARS)}" for item in notes.plan[:MAX_PLAN]]
    files = [_short(file, LINE_CHARS) for file in notes.files[:MAX_FILES]]
    below = [*_block("changed_files", files), *_block("open_plan", plan)]
    return "\n".join(["<recap>", head, *reversed(told), *below, "</recap>"])


def with_recap(prompt: Prompt, recap: str) -> Prompt:
    """Put the recap before the prompt, instead of one that it has. A model wrote part of it, so no command of an engine
    counts in such a prompt."""
    own = without_recap(prompt.text)
    if not recap:
        return msgspec.structs.replace(prompt, text=own)
    return msgspec.structs.replace(prompt, text=f"{recap}\n\n{own}", commands=False)


def retired_notice(recap: str) -> str:
    """The notice to people that a session is given up."""
    return GIVEN_UP.format(how=WITH_RECAP if recap else "")


def _notes(tx: Tx, turns: Sequence[Turn]) -> Notes:
    files: dict[str, None] = {}
    plan: tuple[PlanItem, ...] = ()
    for turn in reversed(turns):
        steps = DoneSteps()
        for event in _logged(tx, turn.id):
            steps.note(event)
            if isinstance(event, PlanChanged):
                plan = event.items
        files |= {step.label: None for step in steps.listed() if step.ok and not step.is_command}
    open_items = [item for item in plan if item.status != "done"]
    return Notes({turn.id: _decisions(tx, turn.id) for turn in turns}, list(files), open_items)


def _logged(tx: Tx, turn_id: TurnId) -> list[EngineEvent]:
    """Return the turn's events. A log that cannot be read is left out: a recap must not block the next turn."""
    try:
        return [row.event for row in tx.events.of_turn(turn_id)]
    except PilothouseError:
        return []


def _decisions(tx: Tx, turn_id: TurnId) -> list[str]:
    rows = [row for row in tx.asks.of_turn(turn_id) if row.state == "answered" and not row.topic]
    return [
        f"{subject(row.ask, LINE_CHARS)}: {decision_text(row.ask, row.decision)}"
        for row in rows
        if row.decision is not None
    ][-MAX_DECISIONS:]


def _turn(turn: Turn, decided: Sequence[str]) -> str:
    lines = [f"<asked>{_short(without_recap(turn.prompt.text), ASKED_CHARS)}</asked>"]
    lines += [
        f"<decided>{_short(first_line(one, LINE_CHARS * 2), LINE_CHARS * 2)}</decided>" for one in decided
    ]
    if turn.answer:
        lines.append(f"<answered>{_short(turn.answer, ANSWERED_CHARS)}</answered>")
    return "\n".join(lines)


def _block(name: str, lines: Sequence[str]) -> list[str]:
    return [f"<{name}>", *lines, f"</{name}>"] if lines else []


def _short(text: str, limit: int) -> str:
    text = _FILE_MENTION.sub("@ ", text.strip())
    return escape(text if len(text) <= limit else text[: limit - 1] + "…", quote=False)


def recap_for(tx: Tx, conversation_id: ConversationId, session: Session) -> str:
    """Write the recap that is due to a session after a move."""
    due = handover_of(tx, session.id)
    head = MEANWHILE if due.since else MOVED
    return write_recap(tx, conversation_id, due.told, since=due.since, head=head)
