"""Conformance of stores: nodes, fencing, units that fail, and wake-ups."""

from __future__ import annotations

import anyio
import anyio.lowlevel
import pytest

from pilothouse.core.errors import Fenced, RoleHeld, StoreError
from pilothouse.core.ids import Epoch, MessageId
from pilothouse.core.store import Node, Store, Tx
from pilothouse.testing.store_builders import (
    C1,
    OpenStore,
    StoreSuite,
    Unit,
    add_places,
    join,
    node,
    put,
    turn,
)


class NodeSuite(StoreSuite):
    async def test_a_node_is_known_by_its_epoch(self, open_store: OpenStore) -> None:
        async with open_store() as store, open_store() as other:
            assert store.epoch is None
            first = await join(store, "channels", "engines", name="up")
            second = await join(other, name="chat")
            assert (store.epoch, other.epoch) == (first, second) and second > first
            nodes = await store.read(lambda tx: tx.nodes.list())
            assert [(found.epoch, found.info, set(found.roles)) for found in nodes] == [
                (first, node("up"), {"channels", "engines"}),
                (second, node("chat"), set()),
            ]
            await store.write(lambda tx: tx.nodes.beat(77.0))
            beaten = await store.read(lambda tx: tx.nodes.get(first))
            assert beaten is not None and (beaten.lease_until, beaten.beats, beaten.fenced) == (
                77.0,
                1,
                False,
            )
            assert await store.read(lambda tx: tx.nodes.get(Epoch(99))) is None

    async def test_only_one_node_may_run_the_engines(self, open_store: OpenStore) -> None:
        async with open_store() as store, open_store() as other:
            await join(store, "engines", name="up")
            with pytest.raises(RoleHeld, match="up") as caught:
                await join(other, "engines")
            assert caught.value.role == "engines" and "up" in caught.value.holder
            assert other.epoch is None
            await join(other, "channels")
            with pytest.raises(RoleHeld):
                await other.write(lambda tx: tx.nodes.add_role("engines"))
            await other.write(lambda tx: tx.nodes.add_role("scheduler"))
            await store.write(lambda tx: tx.nodes.leave())
            await other.write(lambda tx: tx.nodes.add_role("engines"))
            await other.write(lambda tx: tx.nodes.add_role("engines"))
            nodes = await other.read(lambda tx: tx.nodes.list())
            assert [set(found.roles) for found in nodes] == [{"channels", "scheduler", "engines"}]

    async def test_a_join_that_failed_gives_no_epoch(self, open_store: OpenStore) -> None:
        def failing(tx: Tx) -> None:
            tx.nodes.join(node(), ["engines"], 1.0)
            raise LookupError

        async with open_store() as store:
            with pytest.raises(LookupError):
                await store.write(failing)
            assert store.epoch is None
            assert await store.read(lambda tx: tx.nodes.list()) == []
            await store.write(lambda tx: tx.set_fact("k", "v"))

    async def test_what_needs_a_node_is_refused_without_one(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            units: list[Unit] = [
                lambda tx: tx.nodes.beat(1.0),
                lambda tx: tx.nodes.leave(),
                lambda tx: tx.nodes.add_role("channels"),
            ]
            for unit in units:
                with pytest.raises(StoreError):
                    await store.write(unit)

    async def test_a_fenced_store_writes_nothing(self, open_store: OpenStore, store: Store) -> None:
        async with open_store() as other:
            await join(other)
            await other.write(lambda tx: put(tx.inbox, "m1"))
            await other.write(lambda tx: tx.inbox.claim([MessageId("m1")]))
            epoch = other.epoch
            assert epoch is not None
            await store.write(lambda tx: tx.nodes.fence(epoch))
            units: list[Unit] = [
                lambda tx: put(tx.inbox, "m2"),
                lambda tx: tx.inbox.done(MessageId("m1"), 2.0),
                lambda tx: tx.set_fact("k", "v"),
                lambda tx: tx.turns.add(turn("t1")),
                lambda tx: tx.nodes.beat(9e9),
                lambda tx: tx.nodes.join(node(), [], 9e9),
            ]
            for unit in units:
                with pytest.raises(Fenced):
                    await other.write(unit)
            row = await other.read(lambda tx: tx.inbox.get(MessageId("m1")))
            assert row is not None and row.status == "claimed", "it may still read"
            assert await store.read(lambda tx: tx.get_fact("k")) is None
            fenced = await store.read(lambda tx: tx.nodes.get(epoch))
            assert isinstance(fenced, Node) and fenced.fenced

    async def test_a_node_that_left_writes_nothing(self, store: Store) -> None:
        await store.write(lambda tx: tx.nodes.leave())
        with pytest.raises(Fenced):
            await store.write(lambda tx: tx.set_fact("k", "v"))
        assert await store.read(lambda tx: tx.nodes.list()) == []

    async def test_a_node_that_leaves_takes_nothing_along_that_was_queued_behind(self, store: Store) -> None:
        refused: list[Fenced] = []

        def leave(tx: Tx) -> None:
            tx.nodes.leave()

        async def write_after() -> None:
            try:
                await store.write(lambda tx: tx.set_fact("k", "v"))
            except Fenced as error:
                refused.append(error)

        # Queued together, so that they may share a transaction.
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(store.write, leave)
            tasks.start_soon(write_after)
        assert len(refused) == 1 and await store.read(lambda tx: tx.get_fact("k")) is None

    async def test_an_epoch_is_never_given_twice(self, open_store: OpenStore, store: Store) -> None:
        async with open_store() as other:
            gone = await join(other)
            await store.write(lambda tx: tx.nodes.fence(gone))
        assert await store.write(lambda tx: tx.prune(2e10)) == 1
        assert await store.read(lambda tx: tx.nodes.get(gone)) is None
        async with open_store() as another:
            assert await join(another) > gone

    async def test_a_fenced_node_that_holds_something_is_not_forgotten(
        self, open_store: OpenStore, store: Store
    ) -> None:
        async with open_store() as other:
            gone = await join(other)
            await other.write(lambda tx: tx.turns.add(turn("t1", "running")))
        await store.write(lambda tx: tx.nodes.fence(gone))
        assert await store.write(lambda tx: tx.prune(2e10)) == 0


class UnitSuite(StoreSuite):
    async def test_a_unit_that_raises_leaves_nothing(self, store: Store) -> None:
        def failing(tx: Tx) -> None:
            put(tx.inbox, "m1")
            tx.set_fact("k", "v")
            raise LookupError("no")

        with pytest.raises(LookupError, match="no"):
            await store.write(failing)
        assert await store.read(lambda tx: tx.inbox.get(MessageId("m1"))) is None
        assert await store.read(lambda tx: tx.get_fact("k")) is None

    async def test_units_written_together_fail_alone(self, store: Store) -> None:
        outcomes: dict[int, str] = {}

        def unit(tx: Tx, number: int) -> str:
            tx.set_fact(f"fact {number}", "v")
            if number % 3 == 0:
                raise LookupError(str(number))
            return f"wrote {number}"

        async def write(number: int) -> None:
            try:
                outcomes[number] = await store.write(lambda tx: unit(tx, number))
            except LookupError as error:
                outcomes[number] = f"raised {error}"

        async with anyio.create_task_group() as group:
            for number in range(30):
                group.start_soon(write, number)
        for number in range(30):
            fact = await store.read(lambda tx, number=number: tx.get_fact(f"fact {number}"))
            failed = number % 3 == 0
            assert fact == (None if failed else "v")
            assert outcomes[number] == (f"raised {number}" if failed else f"wrote {number}")

    @pytest.mark.parametrize("error", [StopIteration, KeyboardInterrupt, SystemExit, StopAsyncIteration])
    async def test_whatever_a_unit_raises_reaches_its_caller(
        self, store: Store, error: type[BaseException]
    ) -> None:
        def failing(tx: Tx) -> None:
            raise error

        with pytest.raises(BaseException) as caught:  # noqa: PT011  some become a RuntimeError on their way
            await store.write(failing)
        assert isinstance(caught.value, error | RuntimeError)
        await store.write(lambda tx: tx.set_fact("k", "v"))

    async def test_a_write_that_returned_is_read_at_once(self, store: Store) -> None:
        for number in range(50):
            await store.write(lambda tx, number=number: tx.set_fact("k", str(number)))
            assert await store.read(lambda tx: tx.get_fact("k")) == str(number)

    async def test_a_read_that_writes_is_refused(self, store: Store) -> None:
        with pytest.raises(StoreError):
            await store.read(lambda tx: tx.set_fact("k", "v"))
        assert await store.read(lambda tx: tx.get_fact("k")) is None

    async def test_a_read_that_raises_breaks_no_other(self, store: Store) -> None:
        def failing(tx: Tx) -> None:
            tx.get_fact("k")
            raise LookupError

        for _ in range(4):
            with pytest.raises(LookupError):
                await store.read(failing)
        assert await store.read(lambda tx: tx.get_fact("k")) is None

    async def test_a_cancelled_writer_harms_nobody(self, store: Store) -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(_set_fact, store, "cancelled")
            await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
        await store.write(lambda tx: tx.set_fact("k", "v"))
        assert await store.read(lambda tx: tx.get_fact("k")) == "v"

    async def test_a_closed_store_refuses(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            await store.write(lambda tx: tx.set_fact("k", "v"))
        for call in (store.write, store.read):
            with pytest.raises(StoreError):
                await call(lambda tx: tx.get_fact("k"))
        await store.close()

    async def test_what_was_queued_is_written_before_the_store_closes(self, open_store: OpenStore) -> None:
        async with anyio.create_task_group() as group, open_store() as store:
            for number in range(20):
                group.start_soon(_set_fact, store, f"k{number}")
            await anyio.lowlevel.checkpoint()
        async with open_store() as again:
            facts = await again.read(lambda tx: [tx.get_fact(f"k{number}") for number in range(20)])
        assert facts == ["v"] * 20


async def _set_fact(store: Store, key: str) -> None:
    await store.write(lambda tx: tx.set_fact(key, "v"))


class WakeSuite(StoreSuite):
    async def test_a_commit_wakes_every_subscriber(self, store: Store) -> None:
        first, second = store.changes(), store.changes()
        await store.write(lambda tx: tx.set_fact("k", "v"))
        await store.write(lambda tx: tx.set_fact("k", "w"))
        with anyio.fail_after(60):
            await anext(first)
            await anext(second)

    async def test_many_commits_wake_once(self, store: Store) -> None:
        changes = store.changes()
        for _ in range(5):
            await store.write(lambda tx: tx.set_fact("k", "v"))
        await anext(changes)
        with anyio.move_on_after(0.05) as scope:
            await anext(changes)
        assert scope.cancelled_caught

    async def test_a_write_that_changed_nothing_wakes_nobody(self, store: Store) -> None:
        changes = store.changes()
        await store.write(lambda tx: tx.inbox.claim([MessageId("nobody")]))
        with anyio.move_on_after(0.05) as scope:
            await anext(changes)
        assert scope.cancelled_caught

    async def test_subscribers_end_with_the_store(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            changes = store.changes()
        with anyio.fail_after(60):
            assert [change async for change in changes] == []

    async def test_another_process_is_woken_too(self, open_store: OpenStore, store: Store) -> None:
        async with open_store() as other:
            changes = other.changes()
            await store.write(lambda tx: put(tx.inbox, "m1"))
            with anyio.fail_after(60):
                await anext(changes)
            await other.write(add_places)
            assert await other.read(lambda tx: tx.inbox.unfinished(C1))

    async def test_who_listens_for_others_does_not_hear_itself(
        self, open_store: OpenStore, store: Store
    ) -> None:
        changes = store.changes(of_others=True)
        await store.write(lambda tx: tx.set_fact("k", "v"))
        with anyio.move_on_after(0.05) as scope:
            await anext(changes)
        assert scope.cancelled_caught
        async with open_store() as other:
            await other.write(lambda tx: tx.set_fact("k", "w"))
            with anyio.fail_after(60):
                await anext(changes)
