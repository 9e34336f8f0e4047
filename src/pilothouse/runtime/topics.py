"""Topics of the gateway's own asks: one table from topic to the function that carries out the answer.

The function runs in the transaction that settles the ask. An ask that expired arrives here as a "deny".
"""

from __future__ import annotations

from pilothouse.runtime.admission import JOIN, settle_join
from pilothouse.runtime.asks.settle import REASON, settle_reason
from pilothouse.runtime.budget.hold import BUDGET, settle_budget
from pilothouse.runtime.ports import Topics

TOPICS: Topics = {
    REASON: settle_reason,
    JOIN: settle_join,
    BUDGET: settle_budget,
}
