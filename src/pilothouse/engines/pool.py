"""A pool of warm processes. `choose` decides, without awaiting, which process serves a session; `Pool` acts.

    state      enters by                  leaves by
    starting   spawned                    ready → busy · it did not start in time, or died → ending
    busy       leased to a session        turn over, given back → idle · for one turn only, or broken → ending
    idle       given back                 leased → busy · idle_timeout_s passed, or room is needed → ending
    ending     any of the above           the process has ended

Rules: one session has one process; the process that was idle longest makes room first; a busy process is never ended
for another session. Beyond `max_processes` a turn gets a process that ends with it. A process with work in the
background is neither ended for another session nor by its idle time. Every process runs in the engine's task group, so
leaving the engine ends them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any, Generic, Literal, Protocol, TypeVar

import anyio
import msgspec
from anyio.abc import TaskGroup
from msgspec import Struct

from pilothouse.core.errors import EngineError, IllegalMove
from pilothouse.core.outcome import Failure

L = TypeVar("L", bound="Launch")

State = Literal["starting", "busy", "idle", "ending"]

MOVES: dict[State, frozenset[State]] = {
    "starting": frozenset({"busy", "ending"}),
    "busy": frozenset({"idle", "ending"}),
    "idle": frozenset({"busy", "ending"}),
    "ending": frozenset(),
}

LONG_S = 3600.0
HELD_S = 5.0
"""Interval of looking at a process with background work: programs do not tell when that ends."""


class Limits(Struct, frozen=True):
    program: str
    """The engine's name, for messages."""
    max_processes: int = 5
    idle_timeout_s: float = 300.0
    process_mb: float = 250.0
    """Memory that one process needs."""
    spare_mb: float = 250.0
    """Memory that must stay free for everything else."""


class Member(Struct, frozen=True):
    id: int
    key: object
    session: str
    state: State
    used_at: float
    kept: bool = True
    held: bool = False
    """It works although no turn runs: on a background task, or in a woken turn that no session has read yet. Only its
    own session may have it then."""


class Choice(Struct, frozen=True):
    """`reuse` is a member's id, or None for a new process. Those in `end` must have ended before it starts: two
    processes would write into the same session."""

    reuse: int | None = None
    end: tuple[int, ...] = ()
    keep: bool = True
    refusal: str = ""
    in_use: bool = False


def choose(
    members: Sequence[Member], key: object, session: str, free_mb: float | None, limits: Limits
) -> Choice:
    """Decide for one session. `free_mb` is None where the system does not tell."""
    living = [member for member in members if member.state != "ending"]
    own = [member for member in living if member.session == session]
    fitting = next((member for member in own if member.key == key and member.state == "idle"), None)
    if fitting is not None:
        return Choice(reuse=fitting.id)
    if any(member.state != "idle" for member in own):
        return Choice(refusal="This session is in use. Wait for its turn to end.", in_use=True)
    choice = _make_room(living, own, free_mb, limits)
    leaving = tuple(m.id for m in members if m.session == session and m.state == "ending")
    return choice if choice.refusal else msgspec.structs.replace(choice, end=(*leaving, *choice.end))


def expired(members: Iterable[Member], now: float, limits: Limits) -> tuple[int, ...]:
    return tuple(member.id for member in members if _is_free(member) and now >= _expiry(member, limits))


def next_expiry(members: Iterable[Member], limits: Limits) -> float | None:
    return min((_expiry(member, limits) for member in members if _is_free(member)), default=None)


def _is_free(member: Member) -> bool:
    return member.state == "idle" and not member.held


def _expiry(member: Member, limits: Limits) -> float:
    """Return the time at which an idle member ends: at once, if it was started for a single turn."""
    return member.used_at + (limits.idle_timeout_s if member.kept else 0.0)


def move(state: State, to: State) -> State:
    if to not in MOVES[state]:
        raise IllegalMove("a process", state, to)
    return to


def _make_room(
    living: Sequence[Member], own: Sequence[Member], free_mb: float | None, limits: Limits
) -> Choice:
    """End the session's old process first, then the longest idle ones: for a place, and for memory."""
    idle = sorted((m for m in living if _is_free(m) and m not in own), key=lambda m: m.used_at)
    leaving = list(own)
    places = sum(member.kept for member in living) - len(own)
    while places >= limits.max_processes and idle:
        leaving.append(idle.pop(0))
        places -= 1
    missing = 0.0 if free_mb is None else limits.process_mb + limits.spare_mb - free_mb
    missing -= len(leaving) * limits.process_mb
    while missing > 0 and idle:
        leaving.append(idle.pop(0))
        missing -= limits.process_mb
        places -= 1
    if missing > 0 and len(living) > len(leaving):  # a first process may try: waiting would free no memory
        return Choice(refusal=_too_little(free_mb, limits))
    return Choice(end=tuple(member.id for member in leaving), keep=places < limits.max_processes)


def _too_little(free_mb: float | None, limits: Limits) -> str:
    return (
        f"There is too little memory for another {limits.program}: {free_mb or 0:.0f} MB are free and it needs about "
        f"{limits.process_mb + limits.spare_mb:.0f} MB. Try again when another turn has ended."
    )


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
            members = self.members
            at = next_expiry(members, self._limits)
            most_s = HELD_S if any(member.held for member in members) else LONG_S
            with anyio.move_on_after(most_s if at is None else min(most_s, max(0.0, at - self._now()))):
                await changed.wait()

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
