"""Conformance of stores: the outbox, the order of delivery, and the parts of a message."""

from __future__ import annotations

from itertools import product

import anyio
import pytest

from pilothouse.core.errors import IllegalMove, StoreError
from pilothouse.core.ids import ChannelId, ConversationId, MessageId
from pilothouse.core.message import Address, MessageRef, Part
from pilothouse.core.queue import PART_MOVES, PartState
from pilothouse.core.store import Store, Tx
from pilothouse.testing.store_builders import (
    C1,
    C2,
    M1,
    M2,
    MEMORY,
    OpenStore,
    StoreSuite,
    conversation,
    ids,
    join,
    put,
)


class OutboxSuite(StoreSuite):
    async def test_order_is_kept_within_a_conversation(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            put(tx.outbox, "m1", C1, ready_at=50.0)
            put(tx.outbox, "m2", C1)
            put(tx.outbox, "m3", C2)
            assert ids(tx.outbox.deliverable(1.0, channels=[MEMORY], limit=9)) == ["m3"]
            assert ids(tx.outbox.deliverable(50.0, channels=[MEMORY], limit=9)) == ["m1", "m3"]
            tx.outbox.claim([M1])
            assert ids(tx.outbox.deliverable(50.0, channels=[MEMORY], limit=9)) == ["m3"]
            tx.outbox.done(M1, 51.0)
            assert ids(tx.outbox.deliverable(51.0, channels=[MEMORY], limit=9)) == ["m2", "m3"]

        await store.write(unit)

    async def test_a_change_that_has_to_wait_holds_up_nobody(self, store: Store) -> None:
        def ready(tx: Tx, now: float) -> list[str]:
            return ids(tx.outbox.deliverable(now, channels=[MEMORY], limit=9))

        def unit(tx: Tx) -> None:
            put(tx.outbox, "m1", C1, kind="ask")
            put(tx.outbox, "m2", C1, kind="closed", ready_at=50.0)
            put(tx.outbox, "m3", C1, kind="view", ready_at=60.0)
            put(tx.outbox, "m4", C1, kind="answer")
            assert ready(tx, 70.0) == ["m1"], "it waits behind what was said before"
            tx.outbox.claim([M1])
            assert ready(tx, 1.0) == []
            tx.outbox.done(M1, 1.0)
            assert ready(tx, 1.0) == ["m4"]
            assert ready(tx, 55.0) == ["m2"], "one that is ready has its place"
            tx.outbox.claim([M2])
            assert ready(tx, 70.0) == [], "nothing is done beside it"
            tx.outbox.retry(M2, 80.0, "why")
            assert ready(tx, 70.0) == ["m3"]

        await store.write(unit)

    async def test_a_node_delivers_its_channels_and_its_own_conversations(self, store: Store) -> None:
        terminal = ConversationId("terminal:me")

        def unit(tx: Tx) -> None:
            tx.conversations.ensure(conversation(terminal, ChannelId("terminal")))
            put(tx.outbox, "m1", C1)
            put(tx.outbox, "m2", terminal)
            put(tx.outbox, "m3", C2)
            outbox = tx.outbox
            assert ids(outbox.deliverable(1.0, channels=[], limit=9)) == []
            assert ids(outbox.deliverable(1.0, channels=[], conversations=[terminal], limit=9)) == ["m2"]
            assert ids(outbox.deliverable(1.0, channels=[MEMORY], limit=9)) == ["m1", "m3"]
            assert ids(outbox.deliverable(1.0, channels=[MEMORY], skip=[C1], limit=9)) == ["m3"]
            both = outbox.deliverable(1.0, channels=[MEMORY], conversations=[terminal, C1], limit=2)
            assert ids(both) == ["m1", "m2"]

        await store.write(unit)

    async def test_whoever_delivers_a_conversation_delivers_its_threads(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            names = ("memory:7", "memory:7#1", "memory:77", "memory:77#1", "memory:", "memory:#1")
            for name in names:
                tx.conversations.ensure(conversation(ConversationId(name)))
                put(tx.outbox, f"to {name}", ConversationId(name))
            for held, found in (("memory:7", names[:2]), ("memory:7#1", names[1:2]), ("", ())):
                rows = tx.outbox.deliverable(1.0, channels=[], conversations=[ConversationId(held)], limit=9)
                assert [row.conversation_id for row in rows] == list(found)

        await store.write(unit)

    async def test_newer_rows_never_hide_an_older_ready_one(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            for number in range(10):
                place = ConversationId(f"other:{number}")
                tx.conversations.ensure(conversation(place, ChannelId("other")))
                put(tx.outbox, f"before-{number}", place)
            put(tx.outbox, "m1", C1)
            for number in range(10):
                put(tx.outbox, f"after-{number}", ConversationId(f"other:{number}"), ready_at=99.0)
            assert ids(tx.outbox.deliverable(1.0, channels=[MEMORY], limit=1)) == ["m1"]

        await store.write(unit)

    async def test_what_no_turn_said_is_found_behind_any_number_of_answers(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            for number in range(10):
                put(tx.outbox, f"reply:{number}", C1)
            put(tx.outbox, "m1", C1)
            assert ids(tx.outbox.of_no_turn(C1, but="key of reply:", limit=1)) == ["m1"]
            assert tx.outbox.of_no_turn(C2, but="key of reply:") == []

        await store.write(unit)

    async def test_parts_are_stored_once_and_kept_as_they_stand(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            put(tx.outbox, "m1")
            assert tx.outbox.parts(M1) == []
            stored = tx.outbox.store_parts(M1, [Part("one", {"a": 1}), Part("two", again=True)])
            assert [(row.index, row.part.text, row.state, row.sends) for row in stored] == [
                (0, "one", "pending", 0),
                (1, "two", "pending", 0),
            ]
            tx.outbox.sending(M1, 0)
            again = tx.outbox.store_parts(M1, [Part("something else")])
            assert [row.part for row in again] == [row.part for row in stored]
            assert again[0].state == "sending"
            assert tx.outbox.parts(M1) == again

        await store.write(unit)
        with pytest.raises(StoreError):
            await store.write(lambda tx: tx.outbox.store_parts(M2, [Part("lost")]))

    async def test_a_part_that_was_not_sent_can_be_replaced_by_several(self, store: Store) -> None:
        ref = MessageRef(Address(MEMORY, "1"), "native-1")

        def unit(tx: Tx) -> None:
            put(tx.outbox, "m1")
            tx.outbox.store_parts(M1, [Part("above"), Part("fancy"), Part("below")])
            tx.outbox.sending(M1, 0)
            tx.outbox.sent(M1, 0, ref)
            tx.outbox.sending(M1, 1)
            with pytest.raises(IllegalMove):
                tx.outbox.replace_part(M1, 1, [Part("it may stand there")])
            tx.outbox.pending(M1, 1)
            tx.outbox.replace_part(M1, 1, [Part("plain 1"), Part("plain 2")])
            assert [(row.index, row.part.text, row.state) for row in tx.outbox.parts(M1)] == [
                (0, "above", "sent"),
                (1, "plain 1", "pending"),
                (2, "plain 2", "pending"),
                (3, "below", "pending"),
            ]
            with pytest.raises(IllegalMove):
                tx.outbox.replace_part(M1, 0, [Part("it stands there")])
            with pytest.raises(IllegalMove):
                tx.outbox.replace_part(M1, 1, [])
            with pytest.raises(StoreError):
                tx.outbox.replace_part(M1, 4, [Part("nowhere")])

        await store.write(unit)

    async def test_every_begun_send_counts_unless_nothing_was_shown(self, store: Store) -> None:
        ref = MessageRef(Address(MEMORY, "1"), "native-1")

        def unit(tx: Tx) -> None:
            put(tx.outbox, "m1")
            tx.outbox.store_parts(M1, [Part("one")])
            assert tx.outbox.sending(M1, 0).sends == 1
            tx.outbox.pending(M1, 0)
            assert [(row.state, row.sends) for row in tx.outbox.parts(M1)] == [("pending", 0)]
            assert tx.outbox.sending(M1, 0).sends == 1
            assert tx.outbox.sending(M1, 0).sends == 2, "the first one was ambiguous"
            tx.outbox.sent(M1, 0, ref)
            row = tx.outbox.parts(M1)[0]
            assert (row.state, row.sends, row.ref) == ("sent", 2, ref)
            assert tx.outbox.find_ref(ref) == tx.outbox.get(M1)
            assert tx.outbox.find_ref(MessageRef(Address(MEMORY, "2"), "native-1")) is None
            assert tx.outbox.find_ref(MessageRef(Address(MEMORY, "1", "thread"), "native-1")) is None

        await store.write(unit)

    @pytest.mark.parametrize(("state", "to"), list(product(PART_MOVES, PART_MOVES)))
    async def test_every_move_of_a_part_is_in_the_table(
        self, store: Store, state: PartState, to: PartState
    ) -> None:
        ref = MessageRef(Address(MEMORY, "1"), "native-1")

        def move(tx: Tx, where: PartState) -> None:
            match where:
                case "pending":
                    tx.outbox.pending(M1, 0)
                case "sending":
                    tx.outbox.sending(M1, 0)
                case "sent":
                    tx.outbox.sent(M1, 0, ref)

        def prepare(tx: Tx) -> None:
            put(tx.outbox, "m1")
            tx.outbox.store_parts(M1, [Part("one")])
            steps: dict[PartState, list[PartState]] = {
                "pending": [],
                "sending": ["sending"],
                "sent": ["sending", "sent"],
            }
            for step in steps[state]:
                move(tx, step)

        await store.write(prepare)
        before = await store.read(lambda tx: tx.outbox.parts(M1))
        if to in PART_MOVES[state]:
            await store.write(lambda tx: move(tx, to))
            assert (await store.read(lambda tx: tx.outbox.parts(M1)))[0].state == to
        else:
            with pytest.raises(IllegalMove):
                await store.write(lambda tx: move(tx, to))
            assert await store.read(lambda tx: tx.outbox.parts(M1)) == before

    async def test_a_part_that_is_not_there_is_refused(self, store: Store) -> None:
        await store.write(lambda tx: put(tx.outbox, "m1"))
        with pytest.raises(StoreError):
            await store.write(lambda tx: tx.outbox.sending(M1, 0))

    async def test_two_nodes_never_claim_the_same_row(self, open_store: OpenStore, store: Store) -> None:
        taken: list[str] = []
        async with open_store() as other:
            await join(other)
            names = [MessageId(f"m{number}") for number in range(30)]
            await store.write(lambda tx: [put(tx.outbox, name) for name in names])

            async def claim_all(node: Store) -> None:
                for name in names:
                    taken.extend(ids(await node.write(lambda tx, name=name: tx.outbox.claim([name]))))

            async with anyio.create_task_group() as group:
                group.start_soon(claim_all, store)
                group.start_soon(claim_all, other)
        assert sorted(taken) == sorted(names)
