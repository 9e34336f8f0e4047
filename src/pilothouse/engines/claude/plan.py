"""The agent's own list of things to do, from whichever tool it keeps it with.

`TodoWrite` says the whole list; `TaskCreate`, `TaskUpdate` and `TaskList` change it one by one, and what they did is
only in the result. The list belongs to the session: it outlives a turn.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct, field

from pilothouse.core.event import PlanItem

LONGEST = 100

Status = Literal["pending", "active", "done"]
_STATUSES: dict[str, Status] = {"in_progress": "active", "completed": "done"}


class _Task(Struct, frozen=True):
    id: str
    subject: str = ""
    status: str = "pending"


class _Change(Struct, frozen=True):
    to: str = "pending"


class _Done(Struct, frozen=True):
    """The results of all three tools in one shape: each fills its own part."""

    task: _Task | None = None
    tasks: list[_Task] | None = None
    task_id: str = field(default="", name="taskId")
    change: _Change | None = field(default=None, name="statusChange")


_done = msgspec.json.Decoder(_Done)


class Plan:
    def __init__(self) -> None:
        self._tasks: dict[str, PlanItem] = {}

    @property
    def items(self) -> tuple[PlanItem, ...]:
        return tuple(self._tasks.values())[:LONGEST]

    def written(self, given: dict[str, Any]) -> bool:
        """`TodoWrite` was called; True if the list is another now."""
        before, todos = self._tasks, given.get("todos")
        listed = [todo for todo in todos if isinstance(todo, dict)] if isinstance(todos, list) else []
        self._tasks = {
            str(n): _item(todo.get("content"), todo.get("status")) for n, todo in enumerate(listed)
        }
        return self._tasks != before

    def changed(self, result: Raw) -> bool:
        """One of the task tools has answered; True if the list is another now."""
        try:
            done = _done.decode(result)
        except (msgspec.MsgspecError, UnicodeError):
            return False
        before = dict(self._tasks)
        self._apply(done)
        return self._tasks != before

    def _apply(self, done: _Done) -> None:
        if done.task is not None:
            self._tasks[done.task.id] = _item(done.task.subject, done.task.status)
        if done.tasks is not None:
            self._tasks = {task.id: _item(task.subject, task.status) for task in done.tasks}
        if done.change is not None and done.change.to == "deleted":
            self._tasks.pop(done.task_id, None)
        elif done.change is not None:
            old = self._tasks.get(done.task_id)
            self._tasks[done.task_id] = _item(old.text if old else f"#{done.task_id}", done.change.to)


def _item(text: object, status: object) -> PlanItem:
    return PlanItem(str(text)[:200], _STATUSES.get(str(status), "pending"))
