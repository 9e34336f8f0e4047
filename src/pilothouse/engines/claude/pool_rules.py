"""Which process serves a session, and which have to make room. Pure: it decides, `pool.py` acts.

    state      enters by                  leaves by
    starting   spawned                    initialised → busy · start_s passed, or it died → ending
    busy       leased to a session        turn over, given back → idle · once, broken, or silent too long → ending
    idle       given back                 leased → busy · idle_timeout_s passed, or room is needed → ending
    ending     any of the above           gone

Rules: one session has one process; the one that was idle longest goes first; a busy one is never ended for another.
Beyond `max_processes` a turn gets a process for itself alone, which waits in no pool. One in which something goes on in
the background is neither ended for another nor by its time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
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


class Limits(Struct, frozen=True):
    max_processes: int = 5
    idle_timeout_s: float = 300.0
    process_mb: float = 250.0
    """What a process needs: 160 MB at its start, 265 MB after a hundred turns (2.1.325)."""
    spare_mb: float = 250.0
    """What must be left for everybody else."""


class Member(Struct, frozen=True):
    id: int
    key: object
    session: str
    state: State
    used_at: float
    kept: bool = True
    held: bool = False
    """Something goes on in it although no turn runs: a task in the background, or a turn that nobody has taken in yet.
    Then it is not idle for anybody but its own session."""


class Choice(Struct, frozen=True):
    """`reuse` is a member's id, or None for a new process; `end` must be gone before it starts, also one that is on its
    way out already: two would write into the same session."""

    reuse: int | None = None
    end: tuple[int, ...] = ()
    keep: bool = True
    refusal: str = ""
    in_use: bool = False


def choose(
    members: Sequence[Member], key: object, session: str, free_mb: float | None, limits: Limits
) -> Choice:
    """`free_mb` is None where the system does not tell."""
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
    """One that was for a single turn is of no use once nothing goes on in it any more."""
    return member.used_at + (limits.idle_timeout_s if member.kept else 0.0)


def move(state: State, to: State) -> State:
    if to not in MOVES[state]:
        raise IllegalMove("a process", state, to)
    return to


def _make_room(
    living: Sequence[Member], own: Sequence[Member], free_mb: float | None, limits: Limits
) -> Choice:
    """First what serves this session already, then the longest idle: for a place, and for memory."""
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
    if missing > 0 and len(living) > len(leaving):  # alone, it may try: nobody else would ever make room
        return Choice(refusal=_too_little(free_mb, limits))
    return Choice(end=tuple(member.id for member in leaving), keep=places < limits.max_processes)


def _too_little(free_mb: float | None, limits: Limits) -> str:
    return (
        f"There is too little memory for another Claude Code: {free_mb or 0:.0f} MB are free and it needs about "
        f"{limits.process_mb + limits.spare_mb:.0f} MB. Try again when another turn has ended."
    )
