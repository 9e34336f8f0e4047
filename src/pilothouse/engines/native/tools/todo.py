"""`todo`: the list of things to do, which people see as the plan."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from pilothouse.core.event import PlanItem
from pilothouse.engines.native.tools.tool import Output, Tool, ToolError, Workbench

MAX_ITEMS = 100
_STATUSES: dict[str, Literal["pending", "active", "done"]] = {
    "pending": "pending",
    "in_progress": "active",
    "completed": "done",
}


class Item(Struct, frozen=True, forbid_unknown_fields=True):
    content: Annotated[str, Meta(min_length=1, max_length=500)]
    status: Literal["pending", "in_progress", "completed"] = "pending"


class Input(Struct, frozen=True, forbid_unknown_fields=True):
    items: Annotated[
        list[Item], Meta(max_length=MAX_ITEMS, description="The whole list; at most one in_progress.")
    ]


async def run(given: Input, bench: Workbench) -> Output:
    if sum(item.status == "in_progress" for item in given.items) > 1:
        raise ToolError("Only one item may be in_progress.")
    plan = tuple(PlanItem(item.content, _STATUSES[item.status]) for item in given.items)
    left = sum(item.status != "completed" for item in given.items)
    return Output(f"{len(plan)} items, {left} left.", plan=plan)


TOOL = Tool("todo", "Replace the list of things to do in this session.", "note", Input, run, is_cached=False)
