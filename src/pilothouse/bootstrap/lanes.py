"""Lanes of a gateway: the worktrees of this machine, and the turns of this store."""

from __future__ import annotations

import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

from pilothouse.core.ids import ConversationId
from pilothouse.core.lane import Lane, NewLane
from pilothouse.core.store import Tx
from pilothouse.lanes.operations import Lanes
from pilothouse.runtime.commands.lanes import leave_thread
from pilothouse.runtime.ports import new_id

DEFAULT_MODE = "minimal"


def is_busy(tx: Tx, conversation: str) -> bool:
    """Tell whether a turn runs or waits there."""
    id = ConversationId(conversation)
    return tx.turns.live_in(id) is not None or bool(
        tx.turns.of(id, statuses=("queued", "parked"), limit=1) or tx.inbox.waiting(id)
    )


def chat_command(
    folder: str, seed: str, *, engine: str | None = None, mode: str = DEFAULT_MODE
) -> Sequence[str]:
    """Return the command line of a lane's chat."""
    chosen = ["--engine", engine] if engine else []
    first = ["--message", seed] if seed else []
    program = [sys.executable, "-m", "pilothouse", "chat", "--workspace", folder, "--no-trust"]
    return [*program, "--approval-mode", mode, *chosen, *first]


class LaneHost(Lanes):
    """Implements `LaneDesk`."""

    def __init__(
        self,
        home: Path,
        read: Callable[[Callable[[Tx], bool]], Awaitable[bool]],
        write: Callable[[Callable[[Tx], None]], Awaitable[None]],
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        async def leave(lane: Lane) -> None:
            await write(partial(leave_thread, ids=new_id, lane=lane, at=now()))

        super().__init__(
            home, now=now, is_busy=lambda id: read(partial(is_busy, conversation=id)), leave=leave
        )

    async def create_here(self, wish: NewLane) -> Lane:
        return await self.create(wish, partial(chat_command, engine=wish.engine, mode=wish.approval_mode))
