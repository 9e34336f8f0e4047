"""Conformance of stores: costs by day, one reservation for each unended turn, decisions about caps."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pilothouse.core.budget import CapDay, CapStatus, Reservation, Scope, Spent
from pilothouse.core.ids import AskId, TurnId
from pilothouse.core.store import Store, Tx
from pilothouse.testing.store_builders import C1, C2, SCRIPT, T1, T2, T3, StoreSuite, turn

DAY, NEXT = "2026-11-15", "2026-11-16"
ALL = Scope("all")


def spent(cost_usd: float, **fields: Any) -> Spent:
    values: dict[str, Any] = {
        "day": DAY,
        "conversation_id": C1,
        "workspace": "/w",
        "engine": SCRIPT,
        "cause": "message",
        "turns": 1,
    }
    return Spent(cost_usd=cost_usd, **(values | fields))


def taken(id: TurnId, amount_usd: float, **fields: Any) -> Reservation:
    values: dict[str, Any] = {"day": DAY, "workspace": "/w", "conversation_id": C1}
    return Reservation(id, amount_usd=amount_usd, **(values | fields))


class SpendingSuite(StoreSuite):
    async def test_what_was_spent_adds_up_by_day_place_engine_and_cause(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            tx.spending.add(spent(0.25))
            tx.spending.add(spent(0.5, untold=1, assumed_usd=0.1))
            tx.spending.add(spent(1.0, cause="schedule"))
            tx.spending.add(spent(2.0, day=NEXT))
            rows = tx.spending.of()
            assert [(row.day, row.cause, row.cost_usd, row.turns) for row in rows] == [
                (DAY, "message", 0.75, 2),
                (DAY, "schedule", 1.0, 1),
                (NEXT, "message", 2.0, 1),
            ]
            assert (rows[0].untold, rows[0].assumed_usd) == (1, 0.1)
            assert [row.day for row in tx.spending.of(since=NEXT)] == [NEXT]
            assert tx.spending.average(SCRIPT, DAY) == pytest.approx(3.75 / 3), "one of four did not tell"
            assert tx.spending.average(SCRIPT, "2027-01-01") is None

        await store.write(unit)

    async def test_a_scope_stands_as_its_own_turns_left_it(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            tx.spending.add(spent(0.25, assumed_usd=0.05))
            tx.spending.add(spent(0.5, conversation_id=C2))
            tx.spending.add(spent(1.0, conversation_id=C2, workspace="/other"))
            tx.spending.add(spent(8.0, day=NEXT))
            tx.spending.reserve(taken(T1, 0.05, share_usd=0.1))
            tx.spending.reserve(taken(T2, 0.2, conversation_id=C2, share_usd=0.1))
            tx.spending.reserve(taken(T3, 9.0, ask_id=AskId("a1")))
            tx.spending.save_cap_day(CapDay(DAY, ALL.key, raised_usd=3.0))

            def look(scope: Scope) -> CapStatus:
                return tx.spending.cap_status(scope, DAY, 5.0)

            everything = look(ALL)
            assert (everything.cap_usd, everything.raised_usd, everything.day) == (5.0, 3.0, DAY)
            assert (everything.spent_usd, everything.assumed_usd) == (1.75, 0.05)
            assert everything.reserved_usd == pytest.approx(0.3), "the greater; and what is held is not taken"
            assert everything.running == 2
            here = look(Scope("conversation", C1))
            assert (here.spent_usd, here.assumed_usd, here.reserved_usd, here.running) == (0.25, 0.05, 0.1, 1)
            there = look(Scope("workspace", "/w"))
            assert (there.spent_usd, there.reserved_usd, there.raised_usd) == (0.75, pytest.approx(0.3), 0.0)

        await store.write(unit)

    async def test_a_turn_has_one_reservation_and_none_once_it_has_ended(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            for id in (T1, T2):
                tx.turns.add(turn(id))
            tx.spending.reserve(taken(T1, 0.1))
            tx.spending.reserve(taken(T1, 0.4, share_usd=0.7))
            tx.spending.reserve(taken(T2, 0.2))
            assert tx.spending.get(T1) == taken(T1, 0.4, share_usd=0.7)
            assert tx.spending.release(T1) == taken(T1, 0.4, share_usd=0.7)
            assert tx.spending.release(T1) is None and tx.spending.get(T1) is None
            tx.turns.move(T2, "cancelled", ended_at=2.0)
            assert tx.spending.get(T2) is None, "whoever ended it"

        await store.write(unit)

    async def test_the_turns_that_an_ask_holds_are_found_by_it(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            held = [taken(id, 0.1, ask_id=AskId("a1")) for id in (T2, T1)]
            for place in held:
                tx.spending.reserve(place)
            tx.spending.reserve(taken(T3, 0.1, ask_id=AskId("a2")))
            assert tx.spending.held(AskId("a1")) == held
            tx.spending.reserve(msgspec.structs.replace(held[0], ask_id=None))
            assert tx.spending.held(AskId("a1")) == held[1:]

        await store.write(unit)

    async def test_what_was_decided_about_a_day_is_kept_for_that_day(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            assert tx.spending.cap_day(ALL, DAY) == CapDay(DAY, "all")
            decided = CapDay(DAY, "all", 2.5, 80, AskId("a1"))
            tx.spending.save_cap_day(CapDay(DAY, "all", alerted=50))
            tx.spending.save_cap_day(decided)
            assert tx.spending.cap_day(ALL, DAY) == decided
            assert tx.spending.cap_day(ALL, NEXT) == CapDay(NEXT, "all")

        await store.write(unit)
