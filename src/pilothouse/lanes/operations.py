"""Create, look at, close and clean up lanes.

A lane is written down before anything is made, so that a crash leaves a lane that is listed and can be closed, or nothing.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

import anyio
from msgspec.structs import replace

from pilothouse.core.lane import Lane, LaneError, LaneState, NewLane
from pilothouse.lanes.lane import lanes_in, new_lane_id, slug_of
from pilothouse.lanes.programs import (
    add_worktree,
    check_tmux,
    end_session,
    find_repository,
    is_dirty,
    is_running,
    remove_branch,
    remove_worktree,
    start_session,
)

SEED_BYTES = 100_000
TMUX, CHAT = BACKENDS = ("tmux", "chat")
CUT = "Not ready after two minutes: Pilothouse ended while it was created, or the checkout is large. Wait, or close it."
UNSUPPORTED = (
    "The backend {backend!r} is not supported. Supported: tmux, and chat in a chat: /lanes create TASK."
)

__all__ = ["Lanes", "NewLane"]

MakeChat = Callable[[str, str], Sequence[str]]
"""Makes the command line of a chat from a folder and its first message, which may be empty."""


IsBusy = Callable[[str], Awaitable[bool]]
"""Tells whether a turn runs or waits in a conversation."""


Leave = Callable[[Lane], Awaitable[None]]
"""Lets the conversation of a lane work elsewhere: the worktree is gone."""


def worktrees_in(home: Path) -> Path:
    """Return the folder for worktrees that are not wanted elsewhere."""
    return home / "worktrees"


async def _never_busy(conversation: str) -> bool:
    return False


async def _no_conversation(lane: Lane) -> None:
    """Do nothing: there are only lanes in tmux."""


class Lanes:
    def __init__(
        self,
        home: Path,
        *,
        now: Callable[[], float] = time.time,
        new_id: Callable[[], str] = new_lane_id,
        is_busy: IsBusy = _never_busy,
        leave: Leave = _no_conversation,
    ) -> None:
        """`home` is the data folder."""
        self._worktrees = worktrees_in(home)
        self._kept = lanes_in(home)
        self._now, self._new_id = now, new_id
        self._is_busy, self._leave = is_busy, leave

    async def create(self, wish: NewLane, chat: MakeChat) -> Lane:
        """Make the worktree and start the chat in it. Raises `LaneError` once it was taken back."""
        if wish.backend != TMUX:
            raise LaneError(UNSUPPORTED.format(backend=wish.backend))
        lane = await self.add(wish)
        try:
            await start_session(lane.session, lane.worktree, chat(lane.worktree, wish.seed))
        except LaneError:
            await self.drop(lane)
            raise
        return self._move(lane, "running")

    async def add(self, wish: NewLane) -> Lane:
        """Make the worktree. The lane is written down first. Raises `LaneError` once it was taken back."""
        _check(wish)
        if wish.backend == TMUX:
            await check_tmux()
        repository = await find_repository(wish.folder)
        lane = self._new(wish, repository)
        if await anyio.Path(lane.worktree).exists():
            raise LaneError(f"{lane.worktree} exists already. Name another folder for the worktree.")
        self._kept.save(lane)
        try:
            await add_worktree(repository, lane.worktree, lane.branch, wish.base)
        except LaneError:
            await self.drop(lane)
            raise
        return lane

    def join(self, lane: Lane, conversation: str) -> Lane:
        """Name the conversation of a lane: from now on it runs."""
        return self._move(replace(lane, conversation=conversation), "running")

    async def drop(self, lane: Lane) -> None:
        """Take a new lane back, with its branch. If its folder cannot be removed, it stays in the list."""
        try:
            await remove_worktree(lane.repository, lane.worktree, force=True)
        except LaneError as error:
            self._move(lane, "error", str(error))
            return
        with suppress(LaneError):
            await remove_branch(lane.repository, lane.branch)
        self._kept.remove(lane)

    async def all(self) -> list[Lane]:
        return [await self._look(lane) for lane in self._kept.all()]

    async def status(self, id: str) -> Lane:
        return await self._look(self._kept.find(id))

    async def close(self, id: str, *, force: bool = False, keep_worktree: bool = False) -> Lane:
        """End the chat and remove the worktree; the branch stays. Raises `LaneError` for a running or a dirty lane."""
        lane = await self.status(id)
        if lane.state == "running" and not force:
            look = f" To look at it: {lane.attach_command}" if lane.session else ""
            raise LaneError(f"Lane {lane.id} is running. To end it: --force.{look}")
        if not force and not keep_worktree and await is_dirty(lane.worktree):
            raise LaneError(f"{lane.worktree} has changes that are not committed. To lose them: --force.")
        if lane.session:
            await end_session(lane.session)
        if not keep_worktree:
            await remove_worktree(lane.repository, lane.worktree, force=force)
            if lane.conversation:
                await self._leave(lane)
        self._kept.remove(lane)
        return lane

    async def collect(self, idle_s: float) -> list[Lane]:
        """Close the lanes that ended at least `idle_s` ago and have nothing uncommitted; return them."""
        ended = [lane for lane in await self.all() if lane.state != "running"]
        old = [lane for lane in ended if self._now() - lane.updated_at >= idle_s]
        closed = list[Lane]()
        for lane in old:
            with suppress(LaneError):  # dirty, or its repository is gone: it stays in the list
                closed.append(await self.close(lane.id))
        return closed

    async def _look(self, lane: Lane) -> Lane:
        """Return the lane as it is now. The time of its end is the time when somebody first looked."""
        running = await self._is_running(lane)
        if running and lane.state != "running":
            return self._move(lane, "running")
        if lane.state == "running" and not running:
            return self._move(lane, "finished")
        if lane.state == "creating" and self._now() - lane.created_at > 2 * 60:
            return self._move(lane, "error", CUT)
        return lane

    def _place(self, wish: NewLane, name: str) -> Path:
        named = wish.worktree_path
        return Path(named).expanduser().absolute() if named else self._worktrees / name

    def _move(self, lane: Lane, state: LaneState, error: str = "") -> Lane:
        return self._kept.save(replace(lane, state=state, updated_at=self._now(), error=error))

    async def _is_running(self, lane: Lane) -> bool:
        if lane.conversation:
            return await self._is_busy(lane.conversation)
        return bool(lane.session) and await is_running(lane.session)

    def _new(self, wish: NewLane, repository: str) -> Lane:
        id, at = self._new_id(), self._now()
        name = f"{slug_of(wish.task)}-{id}"
        return Lane(
            id=id,
            task=wish.task,
            state="creating",
            repository=repository,
            worktree=str(self._place(wish, name)),
            branch=f"lane/{name}",
            folder=self._kept.origin(os.path.realpath(wish.folder)),
            session=f"pilothouse-lane-{id}" if wish.backend == TMUX else "",
            created_at=at,
            updated_at=at,
        )


def _check(wish: NewLane) -> None:
    if wish.backend not in BACKENDS:
        raise LaneError(UNSUPPORTED.format(backend=wish.backend))
    if not wish.task.strip():
        raise LaneError("A lane needs a task: a few words that say what it is for.")
    if len(wish.seed.encode()) > SEED_BYTES:
        raise LaneError(
            f"The first message has more than {SEED_BYTES:,} bytes. Put it into a file of the repository."
        )
    if wish.base.startswith("-"):
        raise LaneError(f"{wish.base!r} is not the name of a commit.")
