"""A lane: a git worktree on a branch of its own, with a session in it beside the conversation. And the port that makes them.

The session is a chat in tmux, or a conversation of its own: `Lane.conversation` tells which.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct

from pilothouse.core.errors import PilothouseError
from pilothouse.core.policy import ApprovalMode

LaneState = Literal["creating", "running", "finished", "error"]


class LaneError(PilothouseError):
    """A lane could not be created, found or closed."""


class Lane(Struct, frozen=True, kw_only=True):
    id: str
    task: str
    """The purpose of the lane, in the words of its creator."""
    state: LaneState
    repository: str
    worktree: str
    branch: str
    folder: str = ""
    """The folder that it was created from, as it really is: the worktree is isolated as that one. Empty in files of old versions."""
    session: str
    """The name of its tmux session; empty if it is a conversation."""
    created_at: float
    updated_at: float
    error: str = ""
    conversation: str = ""
    """The id of its conversation; empty if it is a chat in tmux."""

    @property
    def attach_command(self) -> str:
        return f"tmux attach -t '={self.session}'" if self.session else ""

    @property
    def enter_command(self) -> str:
        return f"cd {shlex.quote(self.worktree)}"

    @property
    def hints(self) -> Mapping[str, Any]:
        """Next steps for people and agents: commands for a terminal, and calls of the lane tools."""
        return {
            "attach_command": self.attach_command,
            "enter_worktree_command": self.enter_command,
            "status_tool": {"name": "lane_status", "arguments": {"lane_id": self.id}},
            "close_tool": {"name": "lane_close", "arguments": {"lane_id": self.id}},
        }


class NewLane(Struct, frozen=True, kw_only=True):
    task: str
    folder: str
    """A folder in the repository."""
    seed: str = ""
    """The first message to the agent; without one the chat waits."""
    base: str = "HEAD"
    worktree_path: str = ""
    backend: str = "tmux"
    engine: str = ""
    """Empty for the configured one."""
    approval_mode: ApprovalMode = "minimal"
    """The mode of its creator: a lane may do no more."""


class LaneDesk(Protocol):
    """Lanes for people in a chat, and for agents. Every method raises `LaneError`."""

    async def all(self) -> Sequence[Lane]: ...

    async def status(self, id: str) -> Lane: ...

    async def create_here(self, wish: NewLane) -> Lane:
        """Create a lane with a chat in tmux on this machine."""
        ...

    async def add(self, wish: NewLane) -> Lane:
        """Create the worktree of a lane that becomes a conversation: `join` names that, `drop` takes it back."""
        ...

    def join(self, lane: Lane, conversation: str) -> Lane: ...

    async def drop(self, lane: Lane) -> None: ...

    async def close(self, id: str, *, force: bool = False, keep_worktree: bool = False) -> Lane: ...

    async def collect(self, idle_s: float) -> Sequence[Lane]:
        """Close the lanes that ended at least `idle_s` ago and have nothing uncommitted; return them."""
        ...


class NoLanes:
    """The default of a gateway: no lanes."""

    async def all(self) -> Sequence[Lane]:
        return ()

    async def status(self, id: str) -> Lane:
        raise LaneError(f"There is no lane {id!r}.")

    async def collect(self, idle_s: float) -> Sequence[Lane]:
        return ()

    async def create_here(self, wish: NewLane) -> Lane:
        raise LaneError("There are no lanes here.")

    async def add(self, wish: NewLane) -> Lane:
        raise LaneError("There are no lanes here.")

    def join(self, lane: Lane, conversation: str) -> Lane:
        return lane

    async def drop(self, lane: Lane) -> None:
        """There is nothing to take back."""

    async def close(self, id: str, *, force: bool = False, keep_worktree: bool = False) -> Lane:
        raise LaneError(f"There is no lane {id!r}.")
