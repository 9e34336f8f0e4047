"""A pool of warm processes. `pool_choice` decides which process serves a session; `Pool` acts.

    state      enters by                  leaves by
    starting   spawned                    ready → busy · it did not start in time, or died → ending
    busy       leased to a session        turn over, given back → idle · for one turn only, or broken → ending
    idle       given back                 leased → busy · idle_timeout_s passed, or room is needed → ending
    ending     any of the above           the process has ended

If memory gets short, idle processes end, and a turn that needs a new one waits until another turn ends. Every process runs
in the engine's task group, so leaving the engine ends them all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Generic, Protocol, TypeVar

import anyio
import msgspec
from anyio.abc import TaskGroup

from pilothouse.core.clock import until_next
from pilothouse.core.errors import EngineError
from pilothouse.core.outcome import Failure
from pilothouse.engines.pool_choice import (
    Choice,
    Limits,
    Member,
    State,
    choose,
    expired,
    move,
    next_expiry,
    surplus,
)

L = TypeVar("L", bound="Launch")

LONG_S = 3600.0
HELD_S = 5.0
"""Interval of looking at a process with background work: programs do not tell when that ends."""
MEMORY_EVERY_S = 30.0
"""Interval of looking at the free memory while there are idle processes."""
WAIT_S = 60.0
"""Time that a turn waits for memory before it is refused."""
WAIT_STEP_S = 5.0


class Launch(Protocol):
    """The way to start a process, and the session that it is for."""

    @property
    def session(self) -> str: ...
    @property
    def key(self) -> object:
        """Everything that changes how the process behaves."""
        ...

    @property
    def once(self) -> bool:
        """True for a process that ends with its turn and is not kept."""
        ...


class Pooled(Protocol):
    """A process that a pool can keep."""

    @property
    def session(self) -> str: ...
    @property
    def key(self) -> object:
        """The key of its launch, for the session that it serves now."""
        ...

    @property
    def alive(self) -> bool: ...
    @property
    def holds_work(self) -> bool:
        """True while it works although no turn runs."""
        ...

    @property
    def ended(self) -> anyio.Event: ...
    def may_serve(self, launch: Any, /) -> bool:
        """Return whether its spending cap still fits this launch."""
        ...

    async def run(self) -> None: ...
    async def wait_ready(self) -> None: ...
    def stop(self) -> None: ...


P = TypeVar("P", bound=Pooled)


class Pool(Generic[L, P]):
    def __init__(
        self,
        tasks: TaskGroup,
        limits: Limits,
        make: Callable[[L], P],
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
        self._processes: dict[int, P] = {}
        self._changed = anyio.Event()

    @property
    def members(self) -> list[Member]:
        return [
            msgspec.structs.replace(member, held=self._processes[id].holds_work)
            for id, member in self._members.items()
        ]

    async def lease(self, launch: L) -> P:
        """Return a ready process for this session alone. Raises `EngineError`."""
        choice = await self._choose(launch)
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

    async def _choose(self, launch: L) -> Choice:
        """Choose; for want of memory, wait for a while until another turn ends."""
        until = self._now() + WAIT_S
        while True:
            changed, members = self._changed, self._members_for(launch)
            now, free_mb = self._now(), self._free_mb()
            choice = choose(members, launch.key, launch.session, free_mb, now, self._limits)
            if not choice.refusal or choice.in_use or now >= until:
                return choice
            with anyio.move_on_after(WAIT_STEP_S):
                await changed.wait()

    def _members_for(self, launch: L) -> list[Member]:
        """Return the members; one whose spending cap does not fit this launch matches no key."""
        return [
            member
            if self._processes[member.id].may_serve(launch)
            else msgspec.structs.replace(member, key=None)
            for member in self.members
        ]

    async def _start(self, id: int, process: P, ending: Sequence[P]) -> None:
        try:
            for old in ending:
                await old.ended.wait()
        except BaseException:
            self._forget(id)
            raise
        self._tasks.start_soon(self._run, id, process)
        try:
            await process.wait_ready()
        except BaseException:
            self._end(id)
            raise

    def drop(self, process: P) -> None:
        """End a process that no session wants any more."""
        if (id := self._id_of(process)) is not None:
            self._end(id)

    def take(self, process: P) -> bool:
        """Lease the process for a turn that already runs in it; return False while another session has it."""
        id = self._id_of(process)
        if id is None:
            return True  # it has ended, but its output can still be read
        if self._members[id].state != "idle":
            return False
        self._move(id, "busy")
        return True

    async def give_back(self, process: P, *, broken: bool = False) -> None:
        """Make the process idle; or, if it is of no more use, end it and wait for its end."""
        id = self._id_of(process)
        if id is None:
            await process.ended.wait()
            return
        member = self._members[id]
        if (member.kept or process.holds_work) and process.alive and not broken and self._open:
            self._members[id] = msgspec.structs.replace(
                member, session=process.session, key=process.key, used_at=self._now()
            )
            self._move(id, "idle")
            self._wake()
            return
        self._end(id)
        await process.ended.wait()

    async def expire_for_ever(self) -> None:
        while True:
            changed = self._changed
            for id in expired(self.members, self._now(), self._limits):
                self._end(id)
            for id in surplus(self.members, self._free_mb(), self._now(), self._limits):
                self._end(id)
            with anyio.move_on_after(self._pause_s()):
                await changed.wait()

    def _pause_s(self) -> float:
        members, now = self.members, self._now()
        most_s = HELD_S if any(member.held for member in members) else LONG_S
        at = next_expiry(members, self._limits)
        return most_s if at is None else min(most_s, until_next(MEMORY_EVERY_S, now), max(0.0, at - now))

    def stop(self) -> None:
        for id in list(self._members):
            self._end(id)

    @property
    def _open(self) -> bool:
        return not self._tasks.cancel_scope.cancel_called

    def _add(self, launch: L, *, keep: bool) -> tuple[int, P]:
        id, process = next(self._numbers), self._make(launch)
        self._members[id] = Member(id, launch.key, launch.session, "starting", self._now(), keep)
        self._processes[id] = process
        return id, process

    async def _run(self, id: int, process: P) -> None:
        try:
            await process.run()
        finally:
            self._forget(id)

    def _forget(self, id: int) -> None:
        self._members.pop(id, None)
        self._processes.pop(id, None)
        self._wake()

    def _end(self, id: int) -> None:
        member = self._members.get(id)
        if member is not None and member.state != "ending":
            self._move(id, "ending")
            self._processes[id].stop()

    def _move(self, id: int, to: State) -> None:
        member = self._members[id]
        self._members[id] = msgspec.structs.replace(member, state=move(member.state, to))

    def _id_of(self, process: P) -> int | None:
        return next((id for id, one in self._processes.items() if one is process), None)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
