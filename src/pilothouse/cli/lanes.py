"""`pilothouse lanes`: creates, lists and closes lanes. A lane is a worktree with a chat in tmux."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import click
import msgspec
from anyio import to_thread

from pilothouse.bootstrap.terminal_text import say
from pilothouse.cli.options import approval_mode_option, json_option
from pilothouse.cli.store import read_store, write_store
from pilothouse.cli.table import ago, plain, print_json, print_table
from pilothouse.core.policy import parse_mode

if TYPE_CHECKING:
    from pilothouse.core.lane import Lane
    from pilothouse.core.store import Tx
    from pilothouse.lanes.operations import Lanes

NONE = "No lanes. To create one: pilothouse lanes create 'Fix the parser'"
IDLE_MINUTES = 24 * 60
T = TypeVar("T")


@click.group("lanes", invoke_without_command=True)
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Let an agent work in a git worktree on its own branch, with a chat in tmux."""
    if context.invoked_subcommand is None:
        _print(_with(lambda lanes: lanes.all()), as_json)


@command.command("list")
@json_option
def list_lanes(as_json: bool) -> None:
    """List the lanes, oldest first."""
    _print(_with(lambda lanes: lanes.all()), as_json)


@command.command("create")
@click.argument("task", nargs=-1, required=True)
@click.option("--message", default="", help="The first message to the agent; default: TASK.")
@click.option("--wait", is_flag=True, help="Send no first message: the chat waits for you.")
@click.option("--base", default="HEAD", help="The commit or branch to begin at; default: HEAD.")
@click.option("--worktree-path", default="", type=click.Path(), help="Where the worktree is made.")
@click.option("--backend", default="tmux", help="What holds the chat: tmux.")
@click.option("--engine", help="Which engine works there.")
@approval_mode_option
@json_option
def create(task: tuple[str, ...], message: str, wait: bool, as_json: bool, **said: str | None) -> None:
    """Create a lane for TASK from the repository of this folder, and start its agent."""
    from pilothouse.bootstrap.lanes import chat_command
    from pilothouse.core.lane import NewLane

    words = " ".join(task)
    wish = NewLane(
        task=words,
        folder=os.getcwd(),
        seed="" if wait else message or words,
        base=said["base"] or "HEAD",
        worktree_path=said["worktree_path"] or "",
        backend=said["backend"] or "",
    )
    mode = parse_mode(said["approval_mode"] or "minimal")
    chat = partial(chat_command, engine=said["engine"], mode=mode)
    _print_one(_with(lambda lanes: lanes.create(wish, chat)), as_json)


@command.command("status")
@click.argument("id")
@json_option
def status(id: str, as_json: bool) -> None:
    """Show one lane, and how to look at it."""
    _print_one(_with(lambda lanes: lanes.status(id)), as_json)


@command.command("close")
@click.argument("id")
@click.option("--force", is_flag=True, help="Also if it runs, or has changes that are not committed.")
@click.option("--keep-worktree", is_flag=True, help="Leave the worktree where it is.")
def close(id: str, force: bool, keep_worktree: bool) -> None:
    """End a lane and remove its worktree. Its branch stays."""
    lane = _with(lambda lanes: lanes.close(id, force=force, keep_worktree=keep_worktree))
    say(f"Closed. Its commits are on the branch {lane.branch}.", sys.stdout)


@command.command("gc")
@click.option(
    "--idle-minutes", default=IDLE_MINUTES, type=click.IntRange(0), help="Ended at least so long ago."
)
def collect(idle_minutes: int) -> None:
    """Close the lanes that ended a while ago. One with changes that are not committed stays."""
    closed = _with(lambda lanes: lanes.collect(idle_minutes * 60))
    for lane in closed:
        say(f"Closed {lane.id}: {plain(lane.task)} ({lane.branch})", sys.stdout)
    if not closed:
        say("Nothing to close.", sys.stdout)


def _with(use: Callable[[Lanes], Coroutine[Any, Any, T]]) -> T:
    from pilothouse.bootstrap.lanes import LaneHost
    from pilothouse.config import find_paths

    async def read(unit: Callable[[Tx], bool]) -> bool:
        return bool(await to_thread.run_sync(read_store, unit))

    async def write(unit: Callable[[Tx], None]) -> None:
        await to_thread.run_sync(write_store, unit)

    return anyio.run(use, LaneHost(find_paths(os.environ).data_dir, read, write))


def _print(lanes: Sequence[Lane], as_json: bool) -> None:
    if as_json:
        print_json([_fields(lane) for lane in lanes])
        return
    now = time.time()
    rows = [
        (lane.id, lane.state, ago(now - lane.created_at), plain(lane.task), lane.worktree) for lane in lanes
    ]
    print_table(("id", "state", "created", "task", "worktree"), rows, NONE, optional=("worktree",))


def _print_one(lane: Lane, as_json: bool) -> None:
    if as_json:
        print_json(_fields(lane))
        return
    lines = [
        f"Lane {lane.id} is {lane.state}: {plain(lane.task)}",
        *([lane.error] if lane.error else []),
        f"  branch    {lane.branch}",
        f"  attach    {lane.attach_command or 'a thread of ' + lane.conversation.partition(':')[0]}",
        f"  worktree  {lane.enter_command}",
        f"  close     pilothouse lanes close {lane.id}",
    ]
    say("\n".join(lines), sys.stdout)


def _fields(lane: Lane) -> dict[str, Any]:
    return {**msgspec.to_builtins(lane), **lane.hints}
