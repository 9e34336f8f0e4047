"""The tools by which an agent is woken later: scheduled tasks, and `watch_pull_request`, which does what `/watch` does."""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from pilothouse.agent_tools.tool import Arguments, Tool, ToolCall
from pilothouse.core.schedule import Missed, Overlap
from pilothouse.core.store import Tx
from pilothouse.runtime.agent_calls.caller import check_live
from pilothouse.runtime.agent_calls.tasks import ChangeState, add_task, change_state, list_tasks, update_task
from pilothouse.runtime.audit import record
from pilothouse.runtime.commands.watch import set_watch
from pilothouse.runtime.schedules.operations import (
    NewSchedule,
    ScheduleChange,
    cancel_schedule,
    pause_schedule,
    resume_schedule,
)

Words = Annotated[str, Meta(description="What to do then.")]
First = Annotated[str, Meta(description="The first run: ISO 8601, or a span from now such as 2h.")]
Recurrence = Annotated[str, Meta(description="A cron expression of five fields, or @daily and its like.")]
Every = Annotated[str, Meta(description="A span such as 15m, instead of a cron expression.")]
Zone = Annotated[str, Meta(description="The time zone, such as Europe/Berlin.")]
Program = Annotated[
    str,
    Meta(description='A bash script to run first; its last line is JSON: {"wakeAgent": bool, "data": any}.'),
]
Id = Annotated[str, Meta(description="The id of the task.")]
Pull = Annotated[str, Meta(description="The pull request: owner/name#7, or its address.")]
Stop = Annotated[bool, Meta(description="True to stop watching it.")]


class ScheduleTask(Arguments, frozen=True, kw_only=True):
    prompt: Words
    process_after: First = ""
    recurrence: Recurrence = ""
    every: Every = ""
    timezone: Zone = ""
    script: Program = ""
    missed: Missed = "once"
    overlap: Overlap = "skip"


class UpdateTask(Arguments, frozen=True, kw_only=True):
    task_id: Id
    prompt: Words | UnsetType = UNSET
    process_after: First | UnsetType = UNSET
    recurrence: Recurrence | UnsetType = UNSET
    every: Every | UnsetType = UNSET
    timezone: Zone | UnsetType = UNSET
    script: Program | UnsetType = UNSET


class ListTasks(Arguments, frozen=True):
    pass


class OneTask(Arguments, frozen=True):
    task_id: Id


class WatchPullRequest(Arguments, frozen=True, kw_only=True):
    pull_request: Pull
    stop: Stop = False


async def _schedule(call: ToolCall, given: ScheduleTask) -> str:
    caller = await call.caller()
    wish = NewSchedule(
        conversation_id=caller.place,
        prompt=given.prompt,
        cron=given.recurrence,
        every=given.every,
        at=given.process_after,
        zone=given.timezone,
        script=given.script,
        missed=given.missed,
        overlap=given.overlap,
    )
    return await add_task(call.ports, caller, wish)


async def _update(call: ToolCall, given: UpdateTask) -> str:
    change = ScheduleChange(
        prompt=given.prompt,
        cron=given.recurrence,
        every=given.every,
        at=given.process_after,
        zone=given.timezone,
        script=given.script,
    )
    script = given.script if isinstance(given.script, str) else ""
    return await update_task(call.ports, await call.caller(), given.task_id, change, script)


async def _list(call: ToolCall, given: ListTasks) -> str:
    return await list_tasks(call.ports, await call.caller())


def _tool(name: str, description: str, change: ChangeState) -> Tool:
    async def run(call: ToolCall, given: OneTask) -> str:
        return await change_state(call.ports, await call.caller(), given.task_id, change)

    return Tool(name, description, OneTask, run)


async def _watch(call: ToolCall, given: WatchPullRequest) -> str:
    caller = await call.caller()

    def unit(tx: Tx) -> str:
        check_live(tx, caller)
        place, by = caller.place, f"engine:{caller.turn.engine}"
        told = set_watch(tx, place, given.pull_request, ends=given.stop)
        what = "watch.ended" if given.stop else "watch.began"
        record(tx, call.ports.clock.now(), by, what, pull=given.pull_request, conversation=place)
        return told

    return await call.ports.store.write(unit)


SCHEDULE_TASK = Tool(
    "schedule_task",
    "Schedule a prompt to run later in this conversation, once or repeatedly.",
    ScheduleTask,
    _schedule,
)
UPDATE_TASK = Tool("update_task", "Change a task of this conversation.", UpdateTask, _update)
LIST_TASKS = Tool("list_tasks", "List the scheduled tasks of this conversation.", ListTasks, _list)
CANCEL_TASK = _tool("cancel_task", "Remove a task of this conversation.", cancel_schedule)
PAUSE_TASK = _tool("pause_task", "Pause a task of this conversation.", pause_schedule)
RESUME_TASK = _tool("resume_task", "Resume a paused task of this conversation.", resume_schedule)
WATCH_PULL_REQUEST = Tool(
    "watch_pull_request",
    "Be woken here when a check of a pull request fails or people review it; call it after you opened one.",
    WatchPullRequest,
    _watch,
)
