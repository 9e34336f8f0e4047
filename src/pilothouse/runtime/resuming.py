"""An answer whose turn is gone: a new turn goes on with the session, and the answer waits there for its ask."""

from __future__ import annotations

from pilothouse.core.ask import AskRow
from pilothouse.core.ids import IdMaker, TurnId
from pilothouse.core.store import Tx
from pilothouse.core.turn import Prompt, Turn

STOPPED = "Stopped."
GO_ON = "Continue. Pilothouse restarted while you waited for an answer to: {title}. Ask again; it is answered now."


def resume_with_answer(tx: Tx, ids: IdMaker, lost: Turn, row: AskRow, at: float) -> None:
    """Whoever wanted the lost turn wants this one."""
    prompt = Prompt(GO_ON.format(title=row.ask.title), by="pilothouse", authors=lost.prompt.authors)
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
