"""Schedules and their runs: due is a comparison of numbers, and a paused schedule is never due."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from pilothouse.core.ids import ConversationId, ScheduleId
from pilothouse.core.schedule import Run, Schedule, Timing, slot_key
from pilothouse.stores.sqlite.link import Link, Row, to_json

_decode_timing = msgspec.json.Decoder[Timing](Timing).decode


def schedule_of(row: Row) -> Schedule:
    values: dict[str, Any] = dict(zip(Schedule.__struct_fields__, row, strict=True))
    values |= {"timing": _decode_timing(values["timing"]), "paused": bool(values["paused"])}
    return Schedule(**(values | {"own_session": bool(values["own_session"])}))


class ScheduleTable:
    def __init__(self, link: Link) -> None:
        self._link = link

    def save(self, schedule: Schedule) -> None:
        values: dict[str, Any] = msgspec.structs.asdict(schedule)
        values["timing"] = to_json(schedule.timing)
        self._link.run("schedules.save", **values)

    def get(self, id: ScheduleId) -> Schedule | None:
        row = self._link.row("schedules.get", id=id)
        return schedule_of(row) if row else None

    def remove(self, id: ScheduleId) -> bool:
        return self._link.run("schedules.remove", id=id) > 0

    def of(self, conversation_id: ConversationId | None = None) -> list[Schedule]:
        if conversation_id is None:
            rows = self._link.rows("schedules.oldest")
        else:
            rows = self._link.rows("schedules.of", conversation_id=conversation_id)
        return [schedule_of(row) for row in rows]

    def due(self, now: float, *, limit: int = 100) -> list[Schedule]:
        return [schedule_of(row) for row in self._link.rows("schedules.due", now=now, limit=limit)]

    def next_at(self) -> float | None:
        row = self._link.row("schedules.next_at")
        return row[0] if row else None

    def add_runs(self, runs: Sequence[Run]) -> None:
        self._link.run_many("schedule_runs.add", [msgspec.structs.asdict(run) for run in runs])

    def known_slots(self, id: ScheduleId, first: float, last: float) -> set[float]:
        rows = self._link.rows("schedule_runs.between", schedule_id=id, first=first, last=last)
        return {slot for (slot,) in rows}

    def save_run(self, run: Run) -> None:
        values: dict[str, Any] = msgspec.structs.asdict(run)
        del values["created_at"]
        self._link.run("schedule_runs.save", **values)

    def open_runs(self, id: ScheduleId | None = None) -> list[Run]:
        if id is None:
            return [Run(*row) for row in self._link.rows("schedule_runs.open")]
        return [Run(*row) for row in self._link.rows("schedule_runs.open_of", schedule_id=id)]

    def runs(self, id: ScheduleId | None = None, *, limit: int = 20) -> list[Run]:
        if id is None:
            rows = self._link.rows("schedule_runs.newest", limit=limit)
        else:
            rows = self._link.rows("schedule_runs.newest_of", schedule_id=id, limit=limit)
        return [Run(*row) for row in rows]

    def skipped_at(self, id: ScheduleId, at: float) -> int:
        row = self._link.row("schedule_runs.skipped_at", schedule_id=id, at=at)
        return row[0] if row else 0

    def working(self) -> int:
        keys = [slot_key(run.schedule_id, run.slot) for run in self.open_runs()]
        row = self._link.row("schedule_runs.working", keys=to_json(keys)) if keys else None
        return row[0] if row else 0
