"""Spending and reservations, summed by day, so that a long history costs nothing."""

from __future__ import annotations

import msgspec

from pilothouse.core.budget import CapDay, CapStatus, Reservation, Scope, Spent
from pilothouse.core.ids import AskId, EngineId, TurnId
from pilothouse.stores.sqlite.link import Link


class SpendingTable:
    def __init__(self, link: Link) -> None:
        self._link = link

    def add(self, spent: Spent) -> None:
        self._link.run("spending.add", **msgspec.structs.asdict(spent))

    def of(self, *, since: str = "") -> list[Spent]:
        return [Spent(*row) for row in self._link.rows("spending.of", since=since)]

    def cap_status(self, scope: Scope, day: str, cap_usd: float) -> CapStatus:
        where = {
            "day": day,
            "workspace": scope.name if scope.kind == "workspace" else None,
            "conversation_id": scope.name if scope.kind == "conversation" else None,
        }
        ((spent, assumed),) = self._link.rows("spending.used", **where)
        ((reserved, running),) = self._link.rows("spending.reserved", **where)
        raised = self.cap_day(scope, day).raised_usd
        return CapStatus(scope, day, cap_usd, raised, spent, assumed, reserved, running)

    def average(self, engine: EngineId, since: str) -> float | None:
        return self._link.rows("spending.average", engine=engine, since=since)[0][0]

    def reserve(self, reservation: Reservation) -> None:
        self._link.run("spending.reserve", **msgspec.structs.asdict(reservation))

    def get(self, turn_id: TurnId) -> Reservation | None:
        row = self._link.row("spending.reservation", turn_id=turn_id)
        return Reservation(*row) if row else None

    def release(self, turn_id: TurnId) -> Reservation | None:
        row = self._link.row("spending.release", turn_id=turn_id)
        return Reservation(*row) if row else None

    def held(self, ask_id: AskId) -> list[Reservation]:
        return [Reservation(*row) for row in self._link.rows("spending.held", ask_id=ask_id)]

    def cap_day(self, scope: Scope, day: str) -> CapDay:
        row = self._link.row("spending.cap_day", day=day, scope=scope.key)
        return CapDay(*row) if row else CapDay(day, scope.key)

    def save_cap_day(self, cap_day: CapDay) -> None:
        self._link.run("spending.save_cap_day", **msgspec.structs.asdict(cap_day))
