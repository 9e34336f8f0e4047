"""Conformance of stores: events, blobs, the audit log, facts, and what pruning keeps."""

from __future__ import annotations

import hashlib

import anyio
import msgspec
import pytest

from pilothouse.core.event import (
    EngineEvent,
    MediaProduced,
    SessionStarted,
    TextDelta,
    ToolCall,
    ToolStarted,
    TurnEnded,
)
from pilothouse.core.ids import AskId, BlobHash, CallId, MessageId, TurnId
from pilothouse.core.message import Content, Part
from pilothouse.core.store import Store, Tx
from pilothouse.core.turn import Prompt
from pilothouse.testing.store_builders import (
    C1,
    C2,
    M1,
    M2,
    S1,
    T1,
    T2,
    T3,
    T4,
    T5,
    OpenStore,
    StoreSuite,
    ask_row,
    ids,
    join,
    put,
    schedule,
    session,
    turn,
)

STREAM: tuple[EngineEvent, ...] = (
    SessionStarted(model="big", tools=("shell",)),
    TextDelta("b1", "hé"),
    ToolStarted(ToolCall(CallId("call"), "command", "ls", {"command": "ls"})),
    TurnEnded("completed", "hé"),
)


class LogSuite(StoreSuite):
    async def test_events_are_followed_in_order_without_gaps(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            assert tx.events.last_seq(C1) == 0
            assert tx.events.append(C1, T1, STREAM[:2], 1.0) == 2
            assert tx.events.append(C2, T2, STREAM[:1], 2.0) == 1
            assert tx.events.append(C1, T1, (), 2.0) == 2
            assert tx.events.append(C1, T1, STREAM[2:], 0.5) == 4
            logged = tx.events.after(C1, 0)
            assert [row.seq for row in logged] == [1, 2, 3, 4]
            assert tuple(row.event for row in logged) == STREAM
            assert [(row.turn_id, row.at) for row in logged] == [(T1, 1.0)] * 2 + [(T1, 0.5)] * 2
            assert tx.events.after(C1, 2) == logged[2:]
            assert tx.events.after(C1, 1, limit=1) == logged[1:2]
            assert tx.events.of_turn(T1) == logged
            assert tx.events.of_turn(T1, limit=3) == logged[:3]
            assert (tx.events.last_seq(C1), tx.events.last_seq(C2)) == (4, 1)

        await store.write(unit)

    async def test_sequences_have_no_gaps_under_many_writers(
        self, open_store: OpenStore, store: Store
    ) -> None:
        async with open_store() as other:
            await join(other)

            async def append(node: Store, id: TurnId) -> None:
                for number in range(20):
                    event = TextDelta("b", f"{id} {number}")
                    await node.write(lambda tx, event=event: tx.events.append(C1, id, [event], 1.0))

            async with anyio.create_task_group() as group:
                for number in range(6):
                    group.start_soon(append, (store, other)[number % 2], TurnId(f"t{number}"))
        logged = await store.read(lambda tx: tx.events.after(C1, 0))
        assert [row.seq for row in logged] == list(range(1, 121))
        for number in range(6):
            mine = [row.event for row in logged if row.turn_id == f"t{number}"]
            assert mine == [TextDelta("b", f"t{number} {step}") for step in range(20)]

    async def test_a_follower_misses_nothing_and_sees_nothing_twice(self, store: Store) -> None:
        seen: list[int] = []

        async def follow() -> None:
            changes = store.changes()
            while len(seen) < 50:
                rows = await store.read(lambda tx: tx.events.after(C1, max(seen, default=0), limit=7))
                seen.extend(row.seq for row in rows)
                if not rows:
                    await anext(changes)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as group:
                group.start_soon(follow)
                for number in range(50):
                    event = TextDelta("b", str(number))
                    await store.write(lambda tx, event=event: tx.events.append(C1, T1, [event], 1.0))
        assert seen == list(range(1, 51))

    @pytest.mark.parametrize("size", [0, 10, 300_000])
    async def test_bytes_are_kept_under_their_hash(
        self, open_store: OpenStore, store: Store, size: int
    ) -> None:
        data = b"x" * size
        attachment = await store.write(lambda tx: tx.blobs.attach(data, "x.txt", "text/plain", 1.0))
        assert attachment.blob == hashlib.sha256(data).hexdigest()
        assert (attachment.name, attachment.media_type, attachment.size) == ("x.txt", "text/plain", size)
        assert await store.write(lambda tx: tx.blobs.put(data, "text/plain", 2.0)) == attachment.blob
        async with open_store() as other:
            assert await other.read(lambda tx: tx.blobs.get(attachment.blob)) == data

    async def test_bytes_that_were_never_stored_are_not_there(self, store: Store) -> None:
        data = b"y" * 300_000

        def failing(tx: Tx) -> None:
            tx.blobs.put(data, "text/plain", 1.0)
            raise LookupError

        with pytest.raises(LookupError):
            await store.write(failing)
        blob = await store.write(lambda tx: tx.blobs.put(b"other", "text/plain", 1.0))
        assert await store.read(lambda tx: tx.blobs.get(blob)) == b"other"
        digest = BlobHash(hashlib.sha256(data).hexdigest())
        assert await store.read(lambda tx: tx.blobs.get(digest)) is None

    async def test_the_audit_log_is_a_chain(self, store: Store) -> None:
        assert await store.read(lambda tx: tx.audit.verify().intact)
        for number in range(3):
            await store.write(lambda tx, number=number: tx.audit.add(number, "ann", f"did {number}", "so"))
        rows = await store.read(lambda tx: tx.audit.list())
        assert [(row.seq, row.at, row.who, row.what, row.detail) for row in rows] == [
            (3, 2.0, "ann", "did 2", "so"),
            (2, 1.0, "ann", "did 1", "so"),
            (1, 0.0, "ann", "did 0", "so"),
        ]
        assert len({row.hash for row in rows}) == 3
        assert await store.read(lambda tx: tx.audit.list(limit=1)) == rows[:1]
        assert await store.read(lambda tx: tx.audit.verify().intact)

    async def test_facts_are_remembered_and_replaced(self, store: Store) -> None:
        assert await store.read(lambda tx: tx.get_fact("folder")) is None
        await store.write(lambda tx: tx.set_fact("folder", "/a"))
        await store.write(lambda tx: tx.set_fact("folder", "/b"))
        assert await store.read(lambda tx: tx.get_fact("folder")) == "/b"

    async def test_facts_are_found_by_the_beginning_of_their_key(self, store: Store) -> None:
        for key in ("a%:2", "a%:1", "ab:3", "a%"):
            await store.write(lambda tx, key=key: tx.set_fact(key, "v"))
        assert await store.read(lambda tx: tx.facts_of("a%:")) == [("1", "v"), ("2", "v")]


def _fill(tx: Tx) -> None:
    """Stores everything twice: rows that ended at 10, and unfinished rows of the same age."""
    tx.sessions.add(session(S1))
    for queue, turn_id in ((tx.inbox, T2), (tx.outbox, T3)):
        for id in ("m1", "m2", "m3", "m4"):
            put(queue, id, turn_id=turn_id if id == "m2" else None)
        queue.claim([M1, MessageId("m3")])
        queue.done(M1, 10.0)
    tx.outbox.store_parts(M1, [Part("gone")])
    tx.outbox.store_parts(M2, [Part("stays")])
    for id in (T1, T2, T3, T4, T5):
        tx.turns.add(turn(id))
        tx.turns.move(id, "running", started_at=2.0)
        tx.events.append(C1, id, STREAM, 2.0)
        if id != T5:
            tx.turns.move(id, "done", ended_at=10.0)
    tx.asks.add(ask_row("over"))
    tx.asks.move(AskId("over"), "answered", at=10.0)
    tx.asks.add(ask_row("open", turn_id=T4))
    tx.schedules.save(schedule("s1", None))
    tx.set_fact("k", "v")
    tx.audit.add(1.0, "ann", "did")


async def _prune(store: Store, before: float, limit: int = 1000) -> int:
    total = 0
    while count := await store.write(lambda tx: tx.prune(before, limit=limit)):
        assert count <= limit
        total += count
    return total


class PruneSuite(StoreSuite):
    async def test_nothing_young_is_pruned(self, store: Store) -> None:
        await store.write(_fill)
        assert await _prune(store, 10.0) == 0

    @pytest.mark.parametrize("limit", [1, 2, 1000])
    async def test_pruning_never_touches_what_is_unfinished(self, store: Store, limit: int) -> None:
        await store.write(_fill)
        assert await _prune(store, 11.0, limit) == 2 + 1 + 1 + len(STREAM)

        def look(tx: Tx) -> None:
            for queue in (tx.inbox, tx.outbox):
                assert queue.get(M1) is None
                assert ids(queue.unfinished(C1)) == ["m2", "m3", "m4"]
            assert tx.outbox.parts(M1) == [] and len(tx.outbox.parts(M2)) == 1
            assert tx.turns.get(T1) is None and tx.events.of_turn(T1) == []
            for kept in (T2, T3, T4, T5):
                assert tx.turns.get(kept) is not None, "something unfinished belongs to it, or it runs"
                assert len(tx.events.of_turn(kept)) == len(STREAM)
            assert tx.asks.get(AskId("over")) is None and tx.asks.get(AskId("open")) is not None
            assert tx.sessions.get(S1) is not None and tx.conversations.get(C1) is not None
            assert tx.get_fact("k") == "v" and tx.audit.verify().intact and len(tx.schedules.of()) == 1
            assert tx.events.last_seq(C1) == 5 * len(STREAM)

        await store.read(look)

    async def test_a_number_is_never_given_twice(self, store: Store) -> None:
        await store.write(_fill)
        last = await store.read(lambda tx: tx.events.last_seq(C1))

        def finish(tx: Tx) -> None:
            for queue in (tx.inbox, tx.outbox):
                for id in ("m2", "m3", "m4"):
                    queue.claim([MessageId(id)])
                    queue.done(MessageId(id), 10.0)
            tx.asks.move(AskId("open"), "withdrawn", at=10.0)
            tx.turns.move(T5, "failed", ended_at=10.0)

        await store.write(finish)
        await _prune(store, 11.0)

        def look(tx: Tx) -> None:
            assert tx.events.after(C1, 0) == [] and tx.turns.of() == []
            assert tx.events.append(C1, TurnId("t9"), STREAM[:1], 12.0) == last + 1
            assert put(tx.inbox, "m9").row.seq == 5

        await store.write(look)

    @pytest.mark.parametrize("size", [10, 300_000])
    async def test_bytes_stay_while_somebody_needs_them(self, store: Store, size: int) -> None:
        def fill(tx: Tx) -> list[BlobHash]:
            made = [tx.blobs.attach(bytes([number]) * size, "x", "text/plain", 1.0) for number in range(5)]
            body = b'{"attachments":[{"name":"x","blob":"%s"}]}' % made[0].blob.encode()
            put(tx.inbox, "m1", body=body)
            put(tx.outbox, "m2")
            tx.outbox.store_parts(M2, [Part("see", attachments=(made[1],))])
            tx.turns.add(turn("t1", "running", prompt=Prompt("look", (made[3],))))
            tx.events.append(C1, T1, [MediaProduced(made[2])], 1.0)
            return [attachment.blob for attachment in made]

        blobs = await store.write(fill)
        assert await _prune(store, 5.0) == 1
        kept = await store.read(lambda tx: [tx.blobs.get(blob) is not None for blob in blobs])
        assert kept == [True, True, True, True, False]

        def finish(tx: Tx) -> None:
            tx.inbox.claim([M1])
            tx.inbox.done(M1, 2.0)
            tx.outbox.withdraw(M2, 2.0, "")
            tx.turns.move(T1, "done", ended_at=2.0)

        await store.write(finish)
        await _prune(store, 5.0)
        kept = await store.read(lambda tx: [tx.blobs.get(blob) is not None for blob in blobs])
        assert kept == [False] * 5

    async def test_bytes_stored_again_are_young_again(self, store: Store) -> None:
        blob = await store.write(lambda tx: tx.blobs.put(b"twice", "text/plain", 1.0))
        await store.write(lambda tx: tx.blobs.put(b"twice", "text/plain", 9.0))
        assert await _prune(store, 5.0) == 0
        assert await store.read(lambda tx: tx.blobs.get(blob)) == b"twice"

    async def test_a_content_that_names_bytes_keeps_them(self, store: Store) -> None:
        def fill(tx: Tx) -> None:
            attachment = tx.blobs.attach(b"z", "z", "text/plain", 1.0)
            put(tx.outbox, "m1", body=b'{"text":"soon"}')
            tx.outbox.rewrite(M1, msgspec.json.encode(Content("see", attachments=(attachment,))))

        await store.write(fill)
        assert await _prune(store, 5.0) == 0
