"""`list_tasks`, `cancel_task`, `pause_task` and `resume_task`: the tasks of this conversation."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from pilothouse.agent_tools.tool import Arguments, Tool, ToolCall
from pilothouse.runtime.agent_calls.tasks import ChangeState, change_state, list_tasks
from pilothouse.runtime.schedules.operations import cancel_schedule, pause_schedule, resume_schedule

Id = Annotated[str, Meta(description="The id of the task.")]


class ListTasks(Arguments, frozen=True):
    pass


class OneTask(Arguments, frozen=True):
    task_id: Id


async def _list(call: ToolCall, given: ListTasks) -> str:
    return await list_tasks(call.ports, await call.caller())


def _tool(name: str, description: str, change: ChangeState) -> Tool:
    async def run(call: ToolCall, given: OneTask) -> str:
        return await change_state(call.ports, await call.caller(), given.task_id, change)

    return Tool(name, description, OneTask, run)


LIST_TASKS = Tool("list_tasks", "List the scheduled tasks of this conversation.", ListTasks, _list)
CANCEL_TASK = _tool("cancel_task", "Remove a task of this conversation.", cancel_schedule)
PAUSE_TASK = _tool("pause_task", "Pause a task of this conversation.", pause_schedule)
RESUME_TASK = _tool("resume_task", "Resume a paused task of this conversation.", resume_schedule)
