"""Conformance of stores: what inbox and outbox have in common."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from pilothouse.core.errors import StoreError
from pilothouse.core.ids import ConversationId, MessageId, TurnId
from pilothouse.core.queue import Queue
from pilothouse.core.store import Store, Tx
from pilothouse.testing.store_builders import (
    C1,
    C2,
    M1,
    M2,
    M3,
    T1,
    OpenStore,
    StoreSuite,
    ids,
    join,
    put,
)

BoxName = Literal["inbox", "outbox"]


def queue_of(tx: Tx, box: BoxName) -> Queue:
    return tx.inbox if box == "inbox" else tx.outbox


class QueueSuite(StoreSuite):
    @pytest.fixture(params=["inbox", "outbox"])
    def box(self, request: pytest.FixtureRequest) -> BoxName:
        return request.param

    async def test_a_row_is_read_as_it_was_put(self, store: Store, box: BoxName) -> None:
        fresh = await store.write(
            lambda tx: put(queue_of(tx, box), "m1", ready_at=3.5, turn_id=T1, body=b'{"text":"\xc3\xa9"}')
        )
        row = await store.read(lambda tx: queue_of(tx, box).get(M1))
        assert fresh.fresh and row == fresh.row and row is not None
        assert (row.status, row.attempts, row.ready_at, row.turn_id, row.epoch) == (
            "queued",
            0,
            3.5,
            T1,
            None,
        )
        assert bytes(row.body) == b'{"text":"\xc3\xa9"}'
        assert await store.read(lambda tx: queue_of(tx, box).by_key("key of m1")) == row
        assert await store.read(lambda tx: queue_of(tx, box).get(M2)) is None
        assert await store.read(lambda tx: queue_of(tx, box).by_key("no")) is None

    async def test_a_key_seen_before_changes_nothing(self, store: Store, box: BoxName) -> None:
        def unit(tx: Tx) -> None:
            queue = queue_of(tx, box)
            first = put(queue, "m1", key="k", body=b"1")
            again = put(queue, "m2", key="k", body=b"2")
            assert not again.fresh and again.row == first.row
            assert queue.get(M2) is None
            queue.claim([M1])
            queue.done(M1, 2.0)
            ended = put(queue, "m3", key="k")
            assert not ended.fresh and ended.row.status == "done"

        await store.write(unit)

    async def test_an_id_is_never_given_to_two_rows(self, store: Store, box: BoxName) -> None:
        await store.write(lambda tx: put(queue_of(tx, box), "m1"))
        with pytest.raises(StoreError):
            await store.write(lambda tx: put(queue_of(tx, box), "m1", key="another"))

    async def test_a_row_for_an_unknown_conversation_is_refused(self, store: Store, box: BoxName) -> None:
        with pytest.raises(StoreError, match="nowhere"):
            await store.write(lambda tx: put(queue_of(tx, box), "m1", ConversationId("nowhere")))

    async def test_a_waitlist_lists_its_queued_rows_that_are_ready(self, store: Store, box: BoxName) -> None:
        def unit(tx: Tx) -> None:
            queue = queue_of(tx, box)
            put(queue, "m1", waitlist="slow", ready_at=10.0)
            put(queue, "m2", waitlist="slow")
            put(queue, "m3", waitlist="quick")
            put(queue, "m4", waitlist="slow")
            queue.claim([MessageId("m4")])
            assert queue.next_ready_at(0.0) == 10.0
            assert queue.next_ready_at(10.0) is None
            assert ids(queue.waiting("slow")) == ["m1", "m2"]
            assert ids(queue.waiting("slow", limit=1)) == ["m1"]
            assert ids(queue.waiting("slow", ready_by=9.9, limit=1)) == ["m2"]
            assert ids(queue.waiting("slow", ready_by=10.0)) == ["m1", "m2"]

        await store.write(unit)

    async def test_the_order_is_that_of_putting_not_of_time(self, store: Store, box: BoxName) -> None:
        def unit(tx: Tx) -> None:
            queue = queue_of(tx, box)
            put(queue, "m2", at=9.0)
            put(queue, "m1", at=5.0)
            put(queue, "m3", C1, at=5.0, waitlist="elsewhere")
            assert ids(queue.waiting(C1)) == ["m2", "m1"]
            assert ids(queue.unfinished(C1)) == ["m2", "m1", "m3"]
            queue.claim([M2])
            queue.claim([M1])
            queue.done(M1, 9.0)
            assert ids(queue.unfinished(C1)) == ["m2", "m3"]
            assert ids(queue.unfinished(C1, limit=1)) == ["m2"]
            assert queue.unfinished(C2) == []

        await store.write(unit)

    async def test_a_claim_takes_what_is_queued_and_counts(self, store: Store, box: BoxName) -> None:
        def unit(tx: Tx) -> None:
            queue = queue_of(tx, box)
            put(queue, "m1")
            put(queue, "m2")
            taken = queue.claim([M1, M3, M2], turn_id=T1)
            assert ids(taken) == ["m1", "m2"]
            assert {(row.status, row.attempts, row.epoch, row.turn_id) for row in taken} == {
                ("claimed", 1, store.epoch, T1)
            }
            assert queue.claim([M1]) == []
            assert ids(queue.of_turn(T1)) == ["m1", "m2"]

        await store.write(unit)

    async def test_only_a_node_may_claim(self, open_store: OpenStore, store: Store, box: BoxName) -> None:
        await store.write(lambda tx: put(queue_of(tx, box), "m1"))
        async with open_store() as other:
            assert (await other.write(lambda tx: put(queue_of(tx, box), "m2"))).fresh
            with pytest.raises(StoreError):
                await other.write(lambda tx: queue_of(tx, box).claim([M1]))

    @pytest.mark.parametrize("how", ["done", "fail", "retry", "release"])
    async def test_only_the_holder_may_end_a_claim(
        self, open_store: OpenStore, store: Store, box: BoxName, how: str
    ) -> None:
        def end(tx: Tx, id: MessageId) -> bool:
            values: dict[str, Any] = {
                "done": {"at": 5.0, "why": "because"},
                "fail": {"at": 5.0, "why": "because"},
                "retry": {"ready_at": 5.0, "why": "because"},
                "release": {},
            }
            return getattr(queue_of(tx, box), how)(id, **values[how])

        await store.write(lambda tx: put(queue_of(tx, box), "m1", turn_id=TurnId("own")))
        assert not await store.write(lambda tx: end(tx, M1)), "nobody holds it"
        held = (await store.write(lambda tx: queue_of(tx, box).claim([M1], turn_id=T1)))[0]
        async with open_store() as other:
            assert not await other.write(lambda tx: end(tx, M1)), "it has not joined"
            await join(other)
            assert not await other.write(lambda tx: end(tx, M1)), "another holds it"
        assert await store.read(lambda tx: queue_of(tx, box).get(M1)) == held
        assert await store.write(lambda tx: end(tx, M1))
        assert not await store.write(lambda tx: end(tx, M1)), "it is not held any more"
        row = await store.read(lambda tx: queue_of(tx, box).get(M1))
        assert row is not None
        found = (row.status, row.attempts, row.ready_at, row.why, row.ended_at, row.turn_id)
        assert (
            found
            == {
                "done": ("done", 1, 0.0, "because", 5.0, T1),
                "fail": ("failed", 1, 0.0, "because", 5.0, T1),
                "retry": ("queued", 1, 5.0, "because", None, T1),
                "release": ("queued", 0, 0.0, "", None, "own"),
            }[how]
        )

    async def test_only_a_queued_row_is_withdrawn_or_rewritten(self, store: Store, box: BoxName) -> None:
        def unit(tx: Tx) -> None:
            queue = queue_of(tx, box)
            put(queue, "m1")
            put(queue, "m2")
            assert queue.rewrite(M1, b'"new"')
            assert queue.withdraw(M1, 3.0, "changed my mind")
            row = queue.get(M1)
            assert row is not None and (row.status, row.why, row.ended_at) == (
                "withdrawn",
                "changed my mind",
                3.0,
            )
            assert bytes(row.body) == b'"new"'
            assert queue.rewrite(M2, b'"later"', ready_at=9.0)
            assert queue.rewrite(M2, b'"later still"')
            moved = queue.get(M2)
            assert moved is not None and moved.ready_at == 9.0, (
                "it stays as it is unless something else is said"
            )
            queue.claim([M2])
            for id in (M1, M2, M3):
                assert not queue.withdraw(id, 4.0, "too late")
                assert not queue.rewrite(id, b'"too late"')
            assert queue.get(M1) == row
            assert queue.claim([M1]) == []

        await store.write(unit)

    async def test_what_a_fenced_node_held_is_queued_again(
        self, open_store: OpenStore, store: Store, box: BoxName
    ) -> None:
        async with open_store() as other:
            lost = await join(other)
            await store.write(lambda tx: [put(queue_of(tx, box), id) for id in ("m1", "m2", "m3")])
            await other.write(lambda tx: queue_of(tx, box).claim([M2, M1], turn_id=T1))
            await store.write(lambda tx: queue_of(tx, box).claim([M3]))
            with pytest.raises(StoreError):
                await store.write(lambda tx: queue_of(tx, box).reap(lost))

            def take_over(tx: Tx) -> list[Any]:
                tx.nodes.fence(lost)
                return queue_of(tx, box).reap(lost)

            rows = await store.write(take_over)
            assert [(row.id, row.status, row.attempts, row.turn_id) for row in rows] == [
                ("m1", "queued", 1, T1),
                ("m2", "queued", 1, T1),
            ]
            assert await store.write(lambda tx: queue_of(tx, box).reap(lost)) == []

    async def test_a_clock_that_jumps_makes_nothing_late_or_early(self, store: Store, box: BoxName) -> None:
        def unit(tx: Tx) -> None:
            queue = queue_of(tx, box)
            put(queue, "m1", C1, ready_at=110.0)
            put(queue, "m2", C2, ready_at=90.0)
            queue.shift(-3600.0, 100.0 - 3600.0)
            assert queue.next_ready_at(-3500.0) == 110.0 - 3600.0
            queue.shift(3600.0, 100.0)
            assert queue.next_ready_at(100.0) == 110.0

        await store.write(unit)
