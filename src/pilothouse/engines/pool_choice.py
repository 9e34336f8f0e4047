"""Decides, without awaiting, which process of a pool serves a session and which processes end.

Rules: one session has one process; the process that was idle longest makes room first; a busy process is never ended
for another session, nor is one with work in the background. Beyond the capacity a turn gets a process that ends with it.
The capacity is `max_processes`, or else what fits into half of the free memory. Then a process that somebody talked to just
now makes no room either: it would be started again with their next message.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil
from typing import Literal

import msgspec
from msgspec import Struct

from pilothouse.core.errors import IllegalMove

State = Literal["starting", "busy", "idle", "ending"]

MOVES: dict[State, frozenset[State]] = {
    "starting": frozenset({"busy", "ending"}),
    "busy": frozenset({"idle", "ending"}),
    "idle": frozenset({"busy", "ending"}),
    "ending": frozenset(),
}

FEWEST, MOST = 5, 64
"""Bounds of a capacity that is taken from the free memory."""
RECENT_S = 60.0
"""A session that was used within this time will probably be used again soon."""


class Limits(Struct, frozen=True):
    program: str
    """The engine's name, for messages."""
    max_processes: int | None = None
    """None: as many as the memory allows."""
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
    members: Sequence[Member], key: object, session: str, free_mb: float | None, now: float, limits: Limits
) -> Choice:
    """Decide for one session. `free_mb` is None where the system does not tell."""
    living = [member for member in members if member.state != "ending"]
    own = [member for member in living if member.session == session]
    fitting = next((member for member in own if member.key == key and member.state == "idle"), None)
    if fitting is not None:
        return Choice(reuse=fitting.id)
    if any(member.state != "idle" for member in own):
        return Choice(refusal="This session is in use. Wait for its turn to end.", in_use=True)
    choice = _make_room(living, own, _unclaimed(living, free_mb, limits), now, limits)
    leaving = tuple(m.id for m in members if m.session == session and m.state == "ending")
    return choice if choice.refusal else msgspec.structs.replace(choice, end=(*leaving, *choice.end))


def capacity(members: Iterable[Member], free_mb: float | None, limits: Limits) -> int:
    """Return how many processes may be kept: as configured, or what fits into half of the memory that they leave free."""
    if limits.max_processes is not None:
        return limits.max_processes
    if free_mb is None:
        return FEWEST
    kept_mb = limits.process_mb * sum(member.kept for member in members)
    return min(MOST, max(FEWEST, int((free_mb + kept_mb) / 2 / limits.process_mb)))


def surplus(members: Sequence[Member], free_mb: float | None, now: float, limits: Limits) -> tuple[int, ...]:
    """Return the idle processes to end because memory got short: those that were idle longest."""
    living = [member for member in members if member.state != "ending"]
    free_mb = _unclaimed(living, free_mb, limits)
    idle = _longest_idle(living)
    leaving = _to_end(idle, sum(m.kept for m in living) - capacity(living, free_mb, limits), now, limits)
    short_mb = 0.0 if free_mb is None else limits.process_mb + limits.spare_mb - free_mb
    needed = max(0, ceil(short_mb / limits.process_mb) - (len(members) - len(living)))
    return tuple(member.id for member in idle[: max(len(leaving), needed)])


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


def _unclaimed(living: Iterable[Member], free_mb: float | None, limits: Limits) -> float | None:
    """Return the free memory without what starting processes are about to take."""
    starting = sum(member.state == "starting" for member in living)
    return None if free_mb is None else free_mb - starting * limits.process_mb


def _longest_idle(living: Iterable[Member]) -> list[Member]:
    return sorted(filter(_is_free, living), key=lambda member: member.used_at)


def _to_end(idle: Sequence[Member], count: int, now: float, limits: Limits) -> list[Member]:
    """Return up to `count` of the processes. Where memory sets the capacity, those in recent use stay."""
    recent_s = RECENT_S if limits.max_processes is None else 0.0
    return [member for member in idle[: max(0, count)] if now - member.used_at >= recent_s]


def _make_room(
    living: Sequence[Member], own: Sequence[Member], free_mb: float | None, now: float, limits: Limits
) -> Choice:
    """End the session's old process first, then the longest idle ones: for a place, and for memory."""
    idle = [member for member in _longest_idle(living) if member not in own]
    most = capacity(living, free_mb, limits)
    places = sum(member.kept for member in living) - len(own)
    leaving = [*own, *_to_end(idle, places + 1 - most, now, limits)]
    idle = idle[len(leaving) - len(own) :]
    places -= len(leaving) - len(own)
    missing = 0.0 if free_mb is None else limits.process_mb + limits.spare_mb - free_mb
    missing -= len(leaving) * limits.process_mb
    while missing > 0 and idle:
        leaving.append(idle.pop(0))
        missing -= limits.process_mb
        places -= 1
    if missing > 0 and len(living) > len(leaving):  # a first process may try: waiting would free no memory
        return Choice(refusal=_too_little(free_mb, limits))
    return Choice(end=tuple(member.id for member in leaving), keep=places < most)


def _too_little(free_mb: float | None, limits: Limits) -> str:
    return (
        f"There is too little memory for another {limits.program}: {free_mb or 0:.0f} MB are free and it needs about "
        f"{limits.process_mb + limits.spare_mb:.0f} MB. Try again when another turn has ended."
    )
