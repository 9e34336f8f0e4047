"""What every store must do with asks and schedules."""

from __future__ import annotations

from itertools import product

import pytest

from pilothouse.core.ask import ASK_MOVES, ASK_STATES, AskState, Decision
from pilothouse.core.errors import IllegalMove, StoreError
from pilothouse.core.ids import AskId, ScheduleId, TurnId, UserId
from pilothouse.core.schedule import At, Cron, Every
from pilothouse.core.store import AskRow, Store, Tx
from pilothouse.testing.store_builders import C1, C2, S1, S2, StoreSuite, ask_row, ids, schedule

A1, A2 = AskId("a1"), AskId("a2")
YES = Decision("allow", text="go on", remember="session", by=UserId("memory:ann"))


def names(rows: list[AskRow]) -> list[str]:
    return [row.ask.id for row in rows]


class AskSuite(StoreSuite):
    async def test_an_ask_is_read_as_it_was_stored(self, store: Store) -> None:
        row = ask_row("a1", expires_at=50.0)
        await store.write(lambda tx: tx.asks.add(row))
        assert await store.read(lambda tx: tx.asks.get(A1)) == row
        assert await store.read(lambda tx: tx.asks.get(A2)) is None
        with pytest.raises(StoreError):
            await store.write(lambda tx: tx.asks.add(row))

    @pytest.mark.parametrize(("state", "to"), list(product(ASK_STATES, ASK_STATES)))
    async def test_every_move_of_an_ask_is_in_the_table(
        self, store: Store, state: AskState, to: AskState
    ) -> None:
        def prepare(tx: Tx) -> None:
            tx.asks.add(ask_row("a1"))
            if state != "open":
                tx.asks.move(A1, state, at=2.0, decision=YES)

        await store.write(prepare)
        before = await store.read(lambda tx: tx.asks.get(A1))
        if to in ASK_MOVES[state]:
            moved = await store.write(lambda tx: tx.asks.move(A1, to, at=3.0, decision=YES))
            assert (moved.state, moved.decision) == (to, YES)
            assert moved.answered_at == (3.0 if to == "answered" else None)
            assert await store.read(lambda tx: tx.asks.get(A1)) == moved
        else:
            no = Decision("deny")
            with pytest.raises(IllegalMove):
                await store.write(lambda tx: tx.asks.move(A1, to, at=3.0, decision=no))
            assert await store.read(lambda tx: tx.asks.get(A1)) == before

    async def test_an_unknown_ask_cannot_be_answered(self, store: Store) -> None:
        with pytest.raises(StoreError):
            await store.write(lambda tx: tx.asks.move(A1, "answered", at=1.0, decision=YES))

    async def test_open_asks_are_found_by_place_by_turn_and_by_name(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            tx.asks.add(ask_row("a2"))
            tx.asks.add(ask_row("a1"))
            tx.asks.add(ask_row("b1", conversation_id=C2, turn_id=TurnId("t2")))
            assert names(tx.asks.open_in(C1)) == ["a2", "a1"]
            tx.asks.move(A2, "withdrawn", at=2.0)
            assert names(tx.asks.open_in(C1)) == ["a1"]
            assert names(tx.asks.of_turn(TurnId("t1"))) == ["a2", "a1"]
            assert names(tx.asks.find("a")) == ["a1", "a2"]
            assert tx.asks.find("%") == []

        await store.write(unit)

    async def test_a_stored_answer_serves_the_same_payload_once(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            tx.asks.add(ask_row("a1", payload_hash="same"))
            like = tx.asks.open_like(S1, "same")
            assert like is not None and like.ask.id == A1
            assert tx.asks.unused_answer(S1, "same") is None
            tx.asks.move(A1, "answered", at=2.0, decision=YES)
            assert tx.asks.open_like(S1, "same") is None
            answer = tx.asks.unused_answer(S1, "same")
            assert answer is not None and answer.decision == YES and not answer.used
            assert tx.asks.unused_answer(S1, "other") is None
            assert tx.asks.unused_answer(S2, "same") is None
            tx.asks.mark_used(A1)
            assert tx.asks.unused_answer(S1, "same") is None
            used = tx.asks.get(A1)
            assert used is not None and used.used

        await store.write(unit)

    async def test_an_answer_that_came_to_nothing_is_given_back_to_the_turn_that_heard_it(
        self, store: Store
    ) -> None:
        def unit(tx: Tx) -> None:
            tx.asks.add(ask_row("a1", payload_hash="same", turn_id=TurnId("t1")))
            tx.asks.move(A1, "answered", at=2.0, decision=YES)
            tx.asks.mark_used(A1, turn_id=TurnId("t2"))
            assert tx.asks.of_turn(TurnId("t1")) == []
            assert names(tx.asks.of_turn(TurnId("t2"))) == ["a1"]
            tx.asks.give_back(A1)
            again = tx.asks.unused_answer(S1, "same")
            assert again is not None and again.ask.id == A1

        await store.write(unit)

    async def test_an_ask_expires_in_time(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            tx.asks.add(ask_row("never"))
            assert tx.asks.next_expiry() is None
            tx.asks.add(ask_row("a1", expires_at=20.0))
            tx.asks.add(ask_row("a2", expires_at=10.0))
            assert tx.asks.next_expiry() == 10.0
            assert tx.asks.expired(9.9) == []
            assert names(tx.asks.expired(10.0)) == ["a2"]
            assert names(tx.asks.expired(20.0)) == ["a1", "a2"]
            tx.asks.move(A2, "expired", at=20.0)
            assert names(tx.asks.expired(20.0)) == ["a1"]
            tx.asks.shift(3600.0, 3610.0)
            shifted = tx.asks.get(A1)
            assert shifted is not None and shifted.ask.expires_at == 3620.0 == tx.asks.next_expiry()
            untouched = tx.asks.get(A2)
            assert untouched is not None and untouched.ask.expires_at == 10.0

        await store.write(unit)


class ScheduleSuite(StoreSuite):
    async def test_schedules_are_stored_changed_and_removed(self, store: Store) -> None:
        first = schedule("s1", 10.0, timing=Cron("0 9 * * 1-5", "Europe/Berlin"), missed="skip")
        second = schedule("s2", None, timing=At(5.0), conversation_id=C2)

        def unit(tx: Tx) -> None:
            tx.schedules.save(first)
            tx.schedules.save(second)
            assert tx.schedules.get(first.id) == first
            assert tx.schedules.of() == [first, second]
            assert tx.schedules.of(C2) == [second]
            changed = schedule("s1", 20.0, timing=Every(5.0, 0.0), paused=True)
            tx.schedules.save(changed)
            assert tx.schedules.of() == [changed, second]
            assert tx.schedules.remove(first.id)
            assert not tx.schedules.remove(first.id)
            assert tx.schedules.get(first.id) is None

        await store.write(unit)

    async def test_a_schedule_is_due_when_its_slot_has_come(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            assert tx.schedules.next_at() is None
            tx.schedules.save(schedule("late", 20.0))
            tx.schedules.save(schedule("soon", 10.0))
            tx.schedules.save(schedule("paused", 5.0, paused=True))
            tx.schedules.save(schedule("over", None))
            assert tx.schedules.next_at() == 10.0
            assert tx.schedules.due(9.9) == []
            assert ids(tx.schedules.due(10.0)) == ["soon"]
            assert ids(tx.schedules.due(99.0)) == ["soon", "late"]
            tx.schedules.save(schedule("soon", 70.0))
            assert tx.schedules.next_at() == 20.0
            tx.schedules.remove(ScheduleId("late"))
            assert tx.schedules.next_at() == 70.0

        await store.write(unit)
