"""Schedules: due is a comparison of numbers, and a paused schedule is never due."""

from __future__ import annotations

from typing import Any

import msgspec

from pilothouse.core.ids import ConversationId, ScheduleId
from pilothouse.core.schedule import Schedule, Timing
from pilothouse.stores.sqlite.link import Link, Row, to_json

_decode_timing = msgspec.json.Decoder[Timing](Timing).decode


def schedule_of(row: Row) -> Schedule:
    id, conversation_id, timing, prompt, missed, next_at, paused = row
    return Schedule(id, conversation_id, _decode_timing(timing), prompt, missed, next_at, bool(paused))


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

    def due(self, now: float) -> list[Schedule]:
        return [schedule_of(row) for row in self._link.rows("schedules.due", now=now)]

    def next_at(self) -> float | None:
        row = self._link.row("schedules.next_at")
        return row[0] if row else None
