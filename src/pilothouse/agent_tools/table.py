"""Every tool, in the order in which agents see them."""

from __future__ import annotations

from collections.abc import Mapping

from pilothouse.agent_tools.agents import REGISTER_AGENT_GROUP, SEND_TO_AGENT
from pilothouse.agent_tools.ask_user_question import TOOL as ASK_USER_QUESTION
from pilothouse.agent_tools.messages import ADD_REACTION, EDIT_MESSAGE, SEND_FILE, SEND_MESSAGE
from pilothouse.agent_tools.send_card import TOOL as SEND_CARD
from pilothouse.agent_tools.tasks import (
    CANCEL_TASK,
    LIST_TASKS,
    PAUSE_TASK,
    RESUME_TASK,
    SCHEDULE_TASK,
    UPDATE_TASK,
    WATCH_PULL_REQUEST,
)
from pilothouse.agent_tools.tool import Tool

_SPEAK = (SEND_MESSAGE, SEND_FILE, SEND_CARD, ASK_USER_QUESTION, EDIT_MESSAGE, ADD_REACTION)
_TASKS = (SCHEDULE_TASK, LIST_TASKS, CANCEL_TASK, PAUSE_TASK, RESUME_TASK, UPDATE_TASK)
_AGENTS = (SEND_TO_AGENT, REGISTER_AGENT_GROUP)
TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in (*_SPEAK, *_TASKS, *_AGENTS, WATCH_PULL_REQUEST)}
