"""An ask that can no longer matter: it is closed wherever it is shown, and why is told there once.

Something newer stands in its place (superseded), or whoever asked does not want to know any more (withdrawn).
"""

from __future__ import annotations

from pilothouse.core.ask import AskRow, AskState
from pilothouse.core.event import AskChanged
from pilothouse.core.ids import IdMaker, UserId
from pilothouse.core.store import Tx
from pilothouse.runtime.auditing import record_ask
from pilothouse.runtime.closing import closed_line, show_closed
from pilothouse.runtime.raising import tell_places
from pilothouse.runtime.wording import first_line

TITLE_CHARS = 300
"""Of a title in a sentence about its ask; the ask itself stands above, whole."""


def supersede(tx: Tx, ids: IdMaker, row: AskRow, at: float, *, because: str = "") -> None:
    """Without a reason, only its own message says so: what took its place stands below."""
    _close(tx, ids, row, "superseded", because, at)
    log_change(tx, row, "superseded", None, at)


def lapse(tx: Tx, ids: IdMaker, row: AskRow, at: float, *, because: str) -> AskChanged:
    """Whoever asked does not want to know any more. The event is for the caller to write, among the turn's own."""
    _close(tx, ids, row, "withdrawn", because, at)
    return AskChanged(row.ask.id, "withdrawn")


def log_change(tx: Tx, row: AskRow, state: AskState, by: UserId | None, at: float, said: str = "") -> None:
    """Into the log of the turn that it is about, if it is about one."""
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
