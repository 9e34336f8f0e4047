"""Topics of the gateway's own asks: one table from topic to the function that carries out the answer.

The function runs in the transaction that settles the ask. An ask that expired arrives here as a "deny".
"""

from __future__ import annotations

from pilothouse.runtime.admission import JOIN, settle_join
from pilothouse.runtime.agent_calls.agents import AGENT_MESSAGE, settle_agent_message
from pilothouse.runtime.agent_calls.groups import AGENT_GROUP_ASK, settle_group
from pilothouse.runtime.agent_calls.hosts import HOST_ASK, settle_host
from pilothouse.runtime.agent_calls.questions import AGENT_QUESTION, settle_question
from pilothouse.runtime.asks.settle import REASON, settle_reason
from pilothouse.runtime.budget.hold import BUDGET, settle_budget
from pilothouse.runtime.commands.mode import MODE, settle_mode
from pilothouse.runtime.ports import Topics
from pilothouse.runtime.schedules.runs import PAUSE, settle_pause
from pilothouse.runtime.schedules.script import SCRIPT, settle_script

TOPICS: Topics = {
    REASON: settle_reason,
    JOIN: settle_join,
    BUDGET: settle_budget,
    MODE: settle_mode,
    PAUSE: settle_pause,
    SCRIPT: settle_script,
    AGENT_QUESTION: settle_question,
    AGENT_MESSAGE: settle_agent_message,
    AGENT_GROUP_ASK: settle_group,
    HOST_ASK: settle_host,
}
