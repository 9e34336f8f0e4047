"""Every tool, in the order in which agents see them."""

from __future__ import annotations

from collections.abc import Mapping

from pilothouse.agent_tools.add_reaction import TOOL as ADD_REACTION
from pilothouse.agent_tools.ask_user_question import TOOL as ASK_USER_QUESTION
from pilothouse.agent_tools.edit_message import TOOL as EDIT_MESSAGE
from pilothouse.agent_tools.register_agent_group import TOOL as REGISTER_AGENT_GROUP
from pilothouse.agent_tools.schedule_task import SCHEDULE_TASK, UPDATE_TASK
from pilothouse.agent_tools.send_card import TOOL as SEND_CARD
from pilothouse.agent_tools.send_file import TOOL as SEND_FILE
from pilothouse.agent_tools.send_message import TOOL as SEND_MESSAGE
from pilothouse.agent_tools.send_to_agent import TOOL as SEND_TO_AGENT
from pilothouse.agent_tools.tasks import CANCEL_TASK, LIST_TASKS, PAUSE_TASK, RESUME_TASK
from pilothouse.agent_tools.tool import Tool
from pilothouse.agent_tools.watch_pull_request import TOOL as WATCH_PULL_REQUEST

_SPEAK = (SEND_MESSAGE, SEND_FILE, SEND_CARD, ASK_USER_QUESTION, EDIT_MESSAGE, ADD_REACTION)
_TASKS = (SCHEDULE_TASK, LIST_TASKS, CANCEL_TASK, PAUSE_TASK, RESUME_TASK, UPDATE_TASK)
_AGENTS = (SEND_TO_AGENT, REGISTER_AGENT_GROUP)
TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in (*_SPEAK, *_TASKS, *_AGENTS, WATCH_PULL_REQUEST)}
