"""What becomes of the answers to asks of the house itself: one table, topic → what is done.

It is done in the transaction that settles the ask. An ask that nobody answered in time arrives here as a "deny".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pilothouse.core.ask import AskRow, Decision
from pilothouse.core.ids import IdMaker
from pilothouse.core.store import Tx
from pilothouse.runtime.holding import BUDGET, settle_budget
from pilothouse.runtime.joining import JOIN, settle_join
from pilothouse.runtime.reasons import REASON, settle_reason

Settle = Callable[[Tx, IdMaker, AskRow, Decision, float], None]

TOPICS: Mapping[str, Settle] = {
    REASON: settle_reason,
    JOIN: settle_join,
    BUDGET: settle_budget,
}
