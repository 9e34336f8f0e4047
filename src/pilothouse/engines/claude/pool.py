"""The pool of warm processes: decides by `pool_rules` without awaiting, then acts.

Every process runs in the engine's task group, so that leaving the engine ends them all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

import anyio
import msgspec
from anyio.abc import TaskGroup

from pilothouse.core.errors import EngineError
from pilothouse.core.outcome import Failure
from pilothouse.engines.claude.launch import Launch, caps_as
from pilothouse.engines.claude.pool_rules import Limits, Member, State, choose, expired, move, next_expiry
from pilothouse.engines.claude.process import ClaudeProcess

LONG_S = 3600.0
HELD_S = 5.0
"""How often a process with something in the background is looked at: nobody tells when that ends."""


class Pool:
    def __init__(
        self,
        tasks: TaskGroup,
        limits: Limits,
        make: Callable[[Launch], ClaudeProcess],
        free_mb: Callable[[], float | None],
        now: Callable[[], float] = anyio.current_time,
    ) -> None:
        self._tasks = tasks
        self._limits = limits
        self._make = make
        self._free_mb = free_mb
        self._now = now
        self._numbers = count(1)
        self._members: dict[int, Member] = {}
        self._processes: dict[int, ClaudeProcess] = {}
        self._changed = anyio.Event()

    @property
    def members(self) -> list[Member]:
        return [
            msgspec.structs.replace(member, held=self._processes[id].holds_work)
            for id, member in self._members.items()
        ]

    async def lease(self, launch: Launch) -> ClaudeProcess:
        """A process for this session alone, initialised. Raises `EngineError`."""
        free_mb = self._free_mb()
        choice = choose(self._members_for(launch), launch.key, launch.session, free_mb, self._limits)
        if choice.refusal:
            raise EngineError(Failure("bad_request" if choice.in_use else "overloaded", choice.refusal))
        if choice.reuse is not None:
            self._move(choice.reuse, "busy")
            return self._processes[choice.reuse]
        ending = [self._processes[id] for id in choice.end]
        for id in choice.end:
            self._end(id)
        id, process = self._add(launch, keep=choice.keep and not launch.once)
        await self._start(id, process, ending)
        if id in self._members:
            self._move(id, "busy")
        return process

    def _members_for(self, launch: Launch) -> list[Member]:
        """One whose cap is not what the house has left now is another kind of process."""
        return [
            member
            if caps_as((running := self._processes[member.id]).launch, running.spent_usd, launch)
            else msgspec.structs.replace(member, key=None)
            for member in self.members
        ]

    async def _start(self, id: int, process: ClaudeProcess, ending: Sequence[ClaudeProcess]) -> None:
        try:
            for old in ending:
                await old.gone.wait()
        except BaseException:
            self._forget(id)
            raise
        self._tasks.start_soon(self._tend, id, process)
        try:
            await process.wait_ready()
        except BaseException:
            self._end(id)
            raise

    def drop(self, process: ClaudeProcess) -> None:
        """Nobody wants it any more."""
        if (id := self._id_of(process)) is not None:
            self._end(id)

    def take(self, process: ClaudeProcess) -> bool:
        """For a turn that goes on in it already; False while another session has it."""
        id = self._id_of(process)
        if id is None:
            return True  # it is gone: what it said is still to be had
        if self._members[id].state != "idle":
            return False
        self._move(id, "busy")
        return True

    async def give_back(self, process: ClaudeProcess, *, broken: bool = False) -> None:
        """Idle from now on; or, if it is of no more use, gone when this returns."""
        id = self._id_of(process)
        if id is None:
            await process.gone.wait()
            return
        member = self._members[id]
        if (member.kept or process.holds_work) and process.alive and not broken and self._tends:
            key = msgspec.structs.replace(process.launch, session=process.session).key
            self._members[id] = msgspec.structs.replace(
                member, session=process.session, key=key, used_at=self._now()
            )
            self._move(id, "idle")
            self._poke()
            return
        self._end(id)
        await process.gone.wait()

    async def expire_for_ever(self) -> None:
        while True:
            changed = self._changed
            for id in expired(self.members, self._now(), self._limits):
                self._end(id)
            members = self.members
            at = next_expiry(members, self._limits)
            most_s = HELD_S if any(member.held for member in members) else LONG_S
            with anyio.move_on_after(most_s if at is None else min(most_s, max(0.0, at - self._now()))):
                await changed.wait()

    def stop(self) -> None:
        for id in list(self._members):
            self._end(id)

    @property
    def _tends(self) -> bool:
        return not self._tasks.cancel_scope.cancel_called

    def _add(self, launch: Launch, *, keep: bool) -> tuple[int, ClaudeProcess]:
        id, process = next(self._numbers), self._make(launch)
        self._members[id] = Member(id, launch.key, launch.session, "starting", self._now(), keep)
        self._processes[id] = process
        return id, process

    async def _tend(self, id: int, process: ClaudeProcess) -> None:
        try:
            await process.run()
        finally:
            self._forget(id)

    def _forget(self, id: int) -> None:
        self._members.pop(id, None)
        self._processes.pop(id, None)

    def _end(self, id: int) -> None:
        member = self._members.get(id)
        if member is not None and member.state != "ending":
            self._move(id, "ending")
            self._processes[id].stop()

    def _move(self, id: int, to: State) -> None:
        member = self._members[id]
        self._members[id] = msgspec.structs.replace(member, state=move(member.state, to))

    def _id_of(self, process: ClaudeProcess) -> int | None:
        return next((id for id, one in self._processes.items() if one is process), None)

    def _poke(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
