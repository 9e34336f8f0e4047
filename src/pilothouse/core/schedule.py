"""Schedules and their runs, and the table that keeps them. `runtime/schedules` does the work.

A *slot* is the planned instant, not the time at which it was noticed. Every slot that came due has one `Run`, which
ends as `ran`, `skipped` or `failed`. To users a schedule is a *task*.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, Protocol

from msgspec import Struct

from pilothouse.core.errors import ConfigError
from pilothouse.core.ids import ConversationId, ScheduleId, UserId
from pilothouse.core.policy import ApprovalMode

Missed = Literal["skip", "once", "all"]
Overlap = Literal["skip", "queue"]
RunState = Literal["script", "waiting", "ran", "skipped", "failed"]
"""`script`: its script is to run; `waiting`: its message is in the inbox, or its turn runs."""
MIN_EVERY_S = 1.0
DAY_S = 86_400.0


class At(Struct, frozen=True, tag="at"):
    at: float


class Every(Struct, frozen=True, tag="every"):
    every_s: float
    start_at: float

    def __post_init__(self) -> None:
        if not MIN_EVERY_S <= self.every_s < math.inf:
            raise ConfigError(f"a schedule cannot run every {self.every_s:g} s; use at least one second")


class Cron(Struct, frozen=True, tag="cron"):
    expression: str
    zone: str = "UTC"


Timing = At | Every | Cron


class Schedule(Struct, frozen=True):
    """`next_at` is the next slot; None if there is none left."""

    id: ScheduleId
    conversation_id: ConversationId
    timing: Timing
    prompt: str
    missed: Missed = "once"
    next_at: float | None = None
    paused: bool = False
    overlap: Overlap = "skip"
    max_age_s: float = DAY_S
    """A slot that is noticed later than this never runs."""
    own_session: bool = True
    """False: it runs in the session of its conversation, and waits there like a message."""
    zone: str = "UTC"
    """For showing its times; a cron has its own."""
    workspace: str = ""
    """The folder it works in; empty for that of its conversation."""
    by: UserId = UserId("")
    mode: ApprovalMode | None = None
    """It never gets a wider approval mode than this; None sets no limit of its own."""
    created_at: float = 0.0
    script: str = ""
    approved: str = ""
    """The SHA-256 of the script that may run."""
    trouble: str = ""
    """The error of its script that people were told of; empty after a success."""


class Run(Struct, frozen=True):
    """One slot that came due. `ended_at` is None until its state is final."""

    schedule_id: ScheduleId
    slot: float
    state: RunState
    created_at: float
    why: str = ""
    ended_at: float | None = None
    attempts: int = 0
    """The number of times that its script was started."""


def slot_key(id: ScheduleId, slot: float) -> str:
    """Return the key of a slot's inbox row, which makes it unique."""
    return f"schedule:{id}:{slot}"


def task_place(origin: ConversationId, id: ScheduleId) -> ConversationId:
    """Return the schedule's own conversation: below the one that made it, with the same address."""
    return ConversationId(f"{origin}{'' if '#' in origin else '#'}~{id}")


def split_task_place(place: ConversationId) -> tuple[ConversationId, ScheduleId | None]:
    """Return the conversation that made the schedule, and the schedule; for any other place, the place and None."""
    origin, mark, id = place.rpartition("~")
    if not mark or "#" not in origin:
        return place, None
    return ConversationId(origin.removesuffix("#")), ScheduleId(id)


class Schedules(Protocol):
    def save(self, schedule: Schedule) -> None: ...

    def get(self, id: ScheduleId) -> Schedule | None: ...

    def remove(self, id: ScheduleId) -> bool:
        """Forget a schedule. Its runs stay until they are pruned."""
        ...

    def of(self, conversation_id: ConversationId | None = None) -> list[Schedule]: ...

    def due(self, now: float, *, limit: int = 100) -> list[Schedule]: ...

    def next_at(self) -> float | None: ...

    def add_runs(self, runs: Sequence[Run]) -> None:
        """Add new runs. Raises `StoreError` if a slot has one already."""
        ...

    def known_slots(self, id: ScheduleId, first: float, last: float) -> set[float]:
        """Return the slots from `first` to `last` that have a run."""
        ...

    def save_run(self, run: Run) -> None:
        """Change an unfinished run; one that is final stays as it is."""
        ...

    def open_runs(self, id: ScheduleId | None = None) -> list[Run]:
        """Return the unfinished runs, of one schedule or of all, by slot."""
        ...

    def runs(self, id: ScheduleId | None = None, *, limit: int = 20) -> list[Run]:
        """Return runs, the latest slot first."""
        ...

    def skipped_at(self, id: ScheduleId, at: float) -> int:
        """Count the slots of a schedule that were skipped at this time."""
        ...

    def working(self) -> int:
        """Count the runs that need a place: queued or running, and not waiting for a person or a vendor."""
        ...
