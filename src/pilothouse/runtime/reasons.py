"""“Deny, and say why”: the no counts at once, and a question for the reason goes to whoever said it.

The engine hears the no when the reason came, or without one after `HOLD_S`. All of it is rows: the denied ask knows that
a reason was wanted, and as long as the question about it is open, it is held back. A crash changes nothing of that.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from pilothouse.core.ask import Ask, AskRow, Decision
from pilothouse.core.ids import AskId, IdMaker
from pilothouse.core.people import Approvers, Authority
from pilothouse.core.store import Tx
from pilothouse.core.turn import LIVE
from pilothouse.runtime.raising import raise_ask
from pilothouse.runtime.resuming import resume_with_answer
from pilothouse.runtime.standing import home_of
from pilothouse.runtime.wording import first_line

REASON = "reason"
HOLD_S = 60.0
WHY = (
    "Denied: {title}\nWhy not? Say it within a minute, and the work goes on with your reason; else it stops."
)


def want_reason(tx: Tx, ids: IdMaker, denied: AskRow, decision: Decision, at: float) -> None:
    """Asks the denier alone, where they saw the ask."""
    by, turn = decision.by, tx.turns.get(denied.turn_id)
    home = home_of(tx, by) if by else None
    place = home if home in denied.shown_in else None
    asked = Ask(
        AskId(""),
        "question",
        WHY.format(title=first_line(denied.ask.title, 200)),
        {"reason_for": denied.ask.id},
        free_text=True,
        expires_at=at + HOLD_S,
    )
    authority = Authority(Approvers(("member",)), workspace=denied.authority.workspace, only=by)
    raise_ask(
        tx,
        ids,
        asked,
        topic=REASON,
        authority=authority,
        places=(place or denied.conversation_id,),
        at=at,
        turn=turn,
        about=denied.ask.id,
    )


def held_back(rows: Iterable[AskRow]) -> set[AskId]:
    """Of a turn's asks: those that are denied and whose reason may still come."""
    return {row.about for row in rows if row.topic == REASON and row.state == "open" and row.about}


def settle_reason(tx: Tx, ids: IdMaker, row: AskRow, decision: Decision, at: float) -> None:
    """The reason came, or it did not; in either case the no of before stands."""
    denied = tx.asks.get(row.about) if row.about else None
    if denied is None or denied.decision is None:
        return
    if decision.verdict != "answer":
        turn = tx.turns.get(denied.turn_id)
        if turn is not None and turn.status not in LIVE:
            tx.asks.mark_used(denied.ask.id)  # nobody goes on with it: it is no answer to what is asked later
        return
    denied = tx.asks.amend(denied.ask.id, msgspec.structs.replace(denied.decision, text=decision.text))
    turn = tx.turns.get(denied.turn_id)
    if turn is not None and turn.status not in LIVE:
        resume_with_answer(tx, ids, turn, denied, at)
