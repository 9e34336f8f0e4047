"""Closed asks: one line that replaces the question's message and says who answered what.

The line goes through the outbox, behind the question, so that a crash loses neither. Only channels that can edit show
it; the event log has the same line. A question that was never sent is withdrawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import anyio

from pilothouse.core.ask import Ask, AskRow, AskState, Decision
from pilothouse.core.channel import CanDelete, CanEdit, Channel
from pilothouse.core.errors import Rejected
from pilothouse.core.ids import AskId, IdMaker, TurnId
from pilothouse.core.message import Content, MessageRef
from pilothouse.core.queue import QueueRow
from pilothouse.core.store import Tx
from pilothouse.core.text import first_line
from pilothouse.runtime.asks.show import places_of, say_everywhere
from pilothouse.runtime.outbox import ask_key, is_unsent, parse_ask_key

REASON_CHARS = 200
IN_PLACE = "in place"
"""The `why` of a `closed` row whose line has replaced the question."""


def decision_text(ask: Ask, decision: Decision) -> str:
    """Describe a decision in one phrase."""
    if decision.verdict == "allow":
        changed = " with a change" if decision.input is not None else ""
        kept = {"once": "", "session": " for this session", "always": " always here"}[decision.remember]
        return f"allowed{changed}{kept}"
    if decision.verdict == "deny":
        return f"denied: {first_line(decision.text, REASON_CHARS)}" if decision.text else "denied"
    labels = {option.key: option.label for option in ask.options}
    chosen = [labels.get(key, key) for key in decision.options]
    return first_line(", ".join([*chosen, *filter(None, [decision.text])]), REASON_CHARS) or "answered"


def closed_line(
    ask: Ask, state: AskState, decision: Decision | None = None, name: str = "", because: str = ""
) -> str:
    said = decision_text(ask, decision) if state == "answered" and decision is not None else state
    by = name or (decision.by if state == "answered" and decision is not None and decision.by else "")
    return f"{first_line(ask.title)} · {said}{f', by {by}' if by else ''}{f' ({because})' if because else ''}"


def show_closed(tx: Tx, ids: IdMaker, row: AskRow, line: str, at: float) -> None:
    """Replace the question in every place; withdraw it where it was not sent yet."""
    keys = [ask_key(row, "asked", place) for place in places_of(row)]
    for asked in _questions(tx, row.ask.id, keys, row.turn_id):
        if is_unsent(tx, asked):
            tx.outbox.withdraw(asked.id, at, "it was closed before it was shown")
    say_everywhere(tx, ids, row, Content(line, "closed", turn_id=row.turn_id or None), "closed", at)


def shown_asks(tx: Tx, row: QueueRow) -> list[list[MessageRef]]:
    """Return the messages of a `closed` row's question in its conversation, one list for each time it was shown."""
    key = parse_ask_key(row)
    if key is None:
        return []
    asked = _questions(tx, key.ask, [key.on("asked")], row.turn_id)
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
