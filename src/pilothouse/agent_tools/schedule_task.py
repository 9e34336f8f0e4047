"""`schedule_task` and `update_task`: let a prompt run at a time, once or again and again."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from pilothouse.agent_tools.tool import Arguments, Tool, ToolCall
from pilothouse.core.schedule import Missed, Overlap
from pilothouse.runtime.agent_calls.tasks import add_task, update_task
from pilothouse.runtime.schedules.operations import NewSchedule, ScheduleChange

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


async def schedule(call: ToolCall, given: ScheduleTask) -> str:
    caller = await call.caller()
    make = partial(
        NewSchedule,
        conversation_id=caller.conversation.id,
        prompt=given.prompt,
        cron=given.recurrence,
        every=given.every,
        at=given.process_after,
        zone=given.timezone,
        script=given.script,
        missed=given.missed,
        overlap=given.overlap,
    )
    return await add_task(call.ports, caller, lambda by: make(by=by), given.script)


async def update(call: ToolCall, given: UpdateTask) -> str:
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


SCHEDULE_TASK = Tool(
    "schedule_task",
    "Schedule a prompt to run later in this conversation, once or repeatedly.",
    ScheduleTask,
    schedule,
)
UPDATE_TASK = Tool("update_task", "Change a task of this conversation.", UpdateTask, update)
