"""`lane_create`, `lane_list`, `lane_status`, `lane_close`, `lane_gc`: worktrees in which other agents work meanwhile.

They are offered where Pilothouse can hold lanes. An answer is JSON, with the commands for the person and the next calls.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from pilothouse.core.errors import PilothouseError
from pilothouse.core.lane import Lane, LaneDesk, NewLane
from pilothouse.engines.native.tools.tool import Output, Tool, ToolError, Workbench

IDLE_MINUTES = 24 * 60
ENGINE = "native"
LaneId = Annotated[str, Meta(min_length=1, description="The lane's id, or its beginning.")]


class CreateInput(Struct, frozen=True, forbid_unknown_fields=True):
    task: Annotated[str, Meta(description="What the lane is for, in a few words.")]
    seed_context: Annotated[
        str, Meta(description="The first message to its agent. Without one the chat waits.")
    ] = ""
    base: Annotated[str, Meta(description="The commit or branch to begin at. Default HEAD.")] = "HEAD"
    worktree_path: Annotated[
        str, Meta(description="Where the worktree is made. Default: Pilothouse's own folder.")
    ] = ""
    backend: Annotated[str, Meta(description="What holds the chat. Default tmux.")] = "tmux"


class ListInput(Struct, frozen=True, forbid_unknown_fields=True):
    pass


class StatusInput(Struct, frozen=True, forbid_unknown_fields=True):
    lane_id: LaneId


class CloseInput(Struct, frozen=True, forbid_unknown_fields=True):
    lane_id: LaneId
    force: Annotated[bool, Meta(description="Also if it runs or has uncommitted changes. Default false.")] = (
        False
    )
    keep_worktree: Annotated[bool, Meta(description="Leave the folder. Default false.")] = False


class CollectInput(Struct, frozen=True, forbid_unknown_fields=True):
    idle_minutes: Annotated[
        int, Meta(ge=0, description="Ended at least so long ago, in minutes. Default 1440.")
    ] = IDLE_MINUTES


async def create(given: CreateInput, bench: Workbench) -> Output:
    wish = NewLane(
        task=given.task,
        folder=bench.workspace,
        seed=given.seed_context,
        base=given.base,
        worktree_path=given.worktree_path,
        backend=given.backend,
        engine=ENGINE,
        approval_mode=bench.approval_mode,
    )
    try:
        return _told(_with_hints(await _desk(bench).create_here(wish)))
    except PilothouseError as error:
        raise ToolError(str(error)) from error


async def list_lanes(given: ListInput, bench: Workbench) -> Output:
    return _told({"lanes": [_with_hints(lane) for lane in await _desk(bench).all()]})


async def status(given: StatusInput, bench: Workbench) -> Output:
    try:
        return _told(_with_hints(await _desk(bench).status(given.lane_id)))
    except PilothouseError as error:
        raise ToolError(str(error)) from error


async def close(given: CloseInput, bench: Workbench) -> Output:
    try:
        lane = await _desk(bench).close(given.lane_id, force=given.force, keep_worktree=given.keep_worktree)
    except PilothouseError as error:
        raise ToolError(str(error)) from error
    return _told({"closed": lane.id, "branch": lane.branch})


async def collect(given: CollectInput, bench: Workbench) -> Output:
    closed = await _desk(bench).collect(given.idle_minutes * 60)
    return _told({"closed": [{"id": lane.id, "branch": lane.branch} for lane in closed]})


def _desk(bench: Workbench) -> LaneDesk:
    if bench.lanes is None:
        raise ToolError("Lanes are not available here.")
    return bench.lanes


def _with_hints(lane: Lane) -> dict[str, Any]:
    return {**msgspec.to_builtins(lane), **lane.hints}


def _told(value: Any) -> Output:
    return Output(msgspec.json.format(msgspec.json.encode(value), indent=1).decode())


TOOLS = (
    Tool(
        "lane_create",
        "Create a git worktree on its own branch, with an agent in tmux that works there.",
        "tool",
        CreateInput,
        create,
        title=("new lane: ", "task"),
    ),
    Tool("lane_list", "List the lanes, oldest first.", "note", ListInput, list_lanes, only_reads=True),
    Tool(
        "lane_status",
        "Show one lane and how to look at it.",
        "note",
        StatusInput,
        status,
        title=("lane: ", "lane_id"),
        only_reads=True,
    ),
    Tool(
        "lane_close",
        "End a lane and remove its worktree; its branch stays.",
        "tool",
        CloseInput,
        close,
        title=("close lane: ", "lane_id"),
    ),
    Tool(
        "lane_gc",
        "Close the lanes that ended a while ago and have no uncommitted changes.",
        "tool",
        CollectInput,
        collect,
    ),
)
