"""Conformance of stores: conversations, sessions and turns. Tests law 2."""

from __future__ import annotations

from itertools import product
from typing import Any

import anyio
import pytest

from pilothouse.core.conversation import Conversation
from pilothouse.core.errors import Fenced, IllegalMove, SessionBusy, StoreError
from pilothouse.core.event import ResumeToken, Usage
from pilothouse.core.ids import BlobHash, ChannelId, ConversationId, Epoch, SessionId, TurnId
from pilothouse.core.message import Address, Attachment
from pilothouse.core.outcome import Failure
from pilothouse.core.store import Store, Tx
from pilothouse.core.turn import LIVE, TURN_MOVES, TURN_STATUSES, Prompt, TurnStatus
from pilothouse.testing.store_builders import (
    C1,
    C2,
    S1,
    S2,
    SCRIPT,
    T1,
    T2,
    OpenStore,
    StoreSuite,
    conversation,
    ids,
    join,
    session,
    turn,
)

_PATHS: dict[TurnStatus, tuple[TurnStatus, ...]] = {
    "queued": (),
    "running": ("running",),
    "waiting": ("running", "waiting"),
    "parked": ("running", "parked"),
    "lost": ("running", "lost"),
    "done": ("running", "done"),
    "failed": ("running", "failed"),
    "cancelled": ("cancelled",),
}
"""The legal moves that bring a queued turn into each status."""


class PlaceSuite(StoreSuite):
    async def test_a_conversation_is_stored_once(self, store: Store) -> None:
        place = ConversationId("web:9/topic")
        first = Conversation(place, Address(ChannelId("web"), "9", "topic"), 3.0, private=True, busy="queue")

        def unit(tx: Tx) -> None:
            assert tx.conversations.get(place) is None
            assert tx.conversations.ensure(first) == first
            assert tx.conversations.ensure(conversation(place)) == first
            assert tx.conversations.get(place) == first
            changed = conversation(place, workspace="/w", engine=SCRIPT, model="big", session_id=S1)
            tx.conversations.save(changed)
            assert tx.conversations.get(place) == changed
            assert ids(tx.conversations.list()) == [place, C2, C1]
            assert ids(tx.conversations.list(limit=1)) == [place]

        await store.write(unit)

    async def test_some_conversations_are_those_of_the_asked_ones_that_are_known(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            found = tx.conversations.some([C1, ConversationId("memory:nowhere"), C1])
            assert found == {C1: tx.conversations.get(C1)}
            assert tx.conversations.some([]) == {}

        await store.read(unit)

    async def test_the_threads_of_a_place_are_its_own(self, store: Store) -> None:
        threads = [ConversationId(id) for id in ("memory:1#5", "memory:1#7", "memory:12#5", "memory:2#5")]

        def unit(tx: Tx) -> None:
            for thread in threads:
                tx.conversations.ensure(conversation(thread))
            assert ids(tx.conversations.threads_of(C1)) == ["memory:1#7", "memory:1#5"]
            assert ids(tx.conversations.threads_of(C1, limit=1)) == ["memory:1#7"]
            assert tx.conversations.threads_of(threads[0]) == []

        await store.write(unit)

    async def test_a_session_is_found_by_what_resumes_it(self, store: Store) -> None:
        token = ResumeToken(SCRIPT, "abc", "/w")
        first = session(S1)
        changed = session(
            S1, resume=token, model="big", failed_resumes=2, turns=3, cost_usd=0.25, used_at=9.0
        )

        def unit(tx: Tx) -> None:
            tx.sessions.add(first)
            assert tx.sessions.get(S1) == first
            assert tx.sessions.by_resume(SCRIPT, "abc") is None
            tx.sessions.save(changed)
            assert tx.sessions.by_resume(SCRIPT, "abc") == changed == tx.sessions.get(S1)
            tx.sessions.add(session(S2, conversation_id=C2, retired=True))
            assert ids(tx.sessions.of()) == [S2, S1]
            assert ids(tx.sessions.of(limit=1)) == [S2]
            assert ids(tx.sessions.of(C1)) == [S1]
            assert ids(tx.sessions.find(S1[:1])) == [S2, S1]
            assert (ids(tx.sessions.find(S1)), tx.sessions.find(f"{S1}x")) == ([S1], [])

        await store.write(unit)
        with pytest.raises(StoreError):
            await store.write(lambda tx: tx.sessions.add(first))
        with pytest.raises(StoreError):
            await store.write(lambda tx: tx.sessions.save(session(SessionId("unknown"))))


class TurnSuite(StoreSuite):
    async def test_a_turn_is_read_as_it_was_stored(self, store: Store) -> None:
        attachment = Attachment("a.png", "image/png", 3, BlobHash("0" * 64))
        full = turn(
            "t1",
            "failed",
            prompt=Prompt("look", (attachment,), by="ann"),
            attempts=2,
            began=True,
            stop_requested=True,
            retry_at=5.0,
            started_at=2.0,
            ended_at=3.0,
            answer="half of",
            failure=Failure("quota", "No more today.", retry_at=9.0),
            usage=Usage(cost_usd=0.5, output_tokens=7),
        )
        await store.write(lambda tx: tx.turns.add(full))
        assert await store.read(lambda tx: tx.turns.get(T1)) == full
        assert await store.read(lambda tx: tx.turns.get(T2)) is None
        with pytest.raises(StoreError):
            await store.write(lambda tx: tx.turns.add(full))

    @pytest.mark.parametrize(("status", "to"), list(product(TURN_STATUSES, TURN_STATUSES)))
    async def test_every_move_of_a_turn_is_in_the_table(
        self, store: Store, status: TurnStatus, to: TurnStatus
    ) -> None:
        def prepare(tx: Tx) -> None:
            tx.turns.add(turn("t1"))
            for step in _PATHS[status]:
                tx.turns.move(T1, step)

        await store.write(prepare)
        before = await store.read(lambda tx: tx.turns.get(T1))
        if to in TURN_MOVES[status]:
            moved = await store.write(lambda tx: tx.turns.move(T1, to, attempts=7))
            assert (moved.status, moved.attempts) == (to, 7)
            assert await store.read(lambda tx: tx.turns.get(T1)) == moved
        else:
            with pytest.raises(IllegalMove):
                await store.write(lambda tx: tx.turns.move(T1, to, attempts=7))
            assert await store.read(lambda tx: tx.turns.get(T1)) == before

    async def test_the_first_turn_of_a_session_is_its_oldest_in_that_conversation(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            tx.turns.add(turn("t0", session_id=S2))
            tx.turns.add(turn("t1", prompt=Prompt("one")))
            tx.turns.add(turn("t2", prompt=Prompt("two")))
            first = tx.turns.first_of(C1, S1)
            assert first is not None and first.prompt.text == "one"
            assert tx.turns.first_of(C2, S1) is None

        await store.write(unit)

    async def test_fields_change_and_strangers_are_refused(self, store: Store) -> None:
        await store.write(lambda tx: tx.turns.add(turn("t1")))
        noted = await store.write(lambda tx: tx.turns.note(T1, stop_requested=True, answer="so far"))
        assert noted.stop_requested and noted.answer == "so far" and noted.status == "queued"
        strangers: list[dict[str, Any]] = [{"colour": "red"}, {"id": "t9"}]
        for wrong in strangers:
            with pytest.raises(TypeError):
                await store.write(lambda tx, wrong=wrong: tx.turns.note(T1, **wrong))
            with pytest.raises(TypeError):
                await store.write(lambda tx, wrong=wrong: tx.turns.move(T1, "running", **wrong))
        with pytest.raises(TypeError):
            await store.write(lambda tx: tx.turns.note(T1, status="done"))
        assert await store.read(lambda tx: tx.turns.get(T1)) == noted
        with pytest.raises(StoreError):
            await store.write(lambda tx: tx.turns.note(T2, answer="nobody"))
        with pytest.raises(StoreError):
            await store.write(lambda tx: tx.turns.move(T2, "running"))

    async def test_law_2_one_turn_at_a_time_per_session(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            tx.turns.add(turn("t1", "running"))
            tx.turns.add(turn("t2"))
            for status in LIVE:
                with pytest.raises(SessionBusy):
                    tx.turns.add(turn("t3", status))
            with pytest.raises(SessionBusy):
                tx.turns.move(T2, "running")
            tx.turns.move(T1, "waiting")
            with pytest.raises(SessionBusy):
                tx.turns.move(T2, "running")
            tx.turns.add(turn("elsewhere", "running", session_id=S2, conversation_id=C2))
            with pytest.raises(SessionBusy):
                tx.turns.note(TurnId("elsewhere"), session_id=S1)
            live = tx.turns.live(S1)
            assert live is not None and live.id == T1
            assert live == tx.turns.live_in(C1)
            tx.turns.move(T1, "failed")
            assert tx.turns.live(S1) is None and tx.turns.live_in(C1) is None
            assert tx.turns.move(T2, "running").status == "running"

        await store.write(unit)

    async def test_law_2_holds_between_nodes(self, open_store: OpenStore, store: Store) -> None:
        started: list[str] = []
        async with open_store() as other:
            await join(other)
            await store.write(lambda tx: [tx.turns.add(turn(f"t{number}")) for number in range(10)])

            async def start(node: Store, id: TurnId) -> None:
                try:
                    await node.write(lambda tx: tx.turns.move(id, "running"))
                except SessionBusy:
                    return
                started.append(id)

            async with anyio.create_task_group() as group:
                for number in range(10):
                    group.start_soon(start, (store, other)[number % 2], TurnId(f"t{number}"))
        assert len(started) == 1

    async def test_only_a_node_may_run_a_turn(self, open_store: OpenStore) -> None:
        async with open_store() as store:
            await store.write(lambda tx: tx.turns.add(turn("t1")))
            with pytest.raises(StoreError):
                await store.write(lambda tx: tx.turns.move(T1, "running"))
            with pytest.raises(StoreError):
                await store.write(lambda tx: tx.turns.add(turn("t2", "running")))

    async def test_a_live_turn_belongs_to_its_node_until_that_is_fenced(
        self, open_store: OpenStore, store: Store
    ) -> None:
        async with open_store() as other:
            mine = await join(other)
            await other.write(lambda tx: tx.turns.add(turn("t1")))
            moved = await other.write(lambda tx: tx.turns.move(T1, "running"))
            assert moved.epoch == mine == other.epoch
            with pytest.raises(Fenced):
                await store.write(lambda tx: tx.turns.move(T1, "lost"))
            with pytest.raises(Fenced):
                await store.write(lambda tx: tx.turns.move(T1, "done", answer="mine"))
            noted = await store.write(lambda tx: tx.turns.note(T1, stop_requested=True))
            assert noted.stop_requested, "anybody may ask a turn to stop"

            def take_over(tx: Tx) -> None:
                assert ids(tx.turns.held_by(mine)) == [T1]
                tx.nodes.fence(mine)
                tx.turns.move(T1, "lost")
                assert tx.turns.held_by(mine) == []
                tx.turns.move(T1, "queued")
                assert tx.turns.move(T1, "running").epoch == store.epoch

            await store.write(take_over)

    async def test_turns_are_listed_newest_first_and_filtered_before_the_limit(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            tx.turns.add(turn("abc-1", "parked"))
            for number in range(12):
                tx.turns.add(turn(f"abd-{number}", "done"))
            tx.turns.add(turn("abd-x", conversation_id=C2, session_id=S2))
            of = tx.turns.of
            assert ids(of(limit=2)) == ["abd-x", "abd-11"]
            assert ids(of(C1, limit=1)) == ["abd-11"]
            assert ids(of(C2)) == ["abd-x"]
            assert ids(of(C1, statuses=["parked"], limit=1)) == ["abc-1"]
            assert ids(of(statuses=["parked", "queued"], limit=5)) == ["abd-x", "abc-1"]
            assert ids(of(statuses=["done", "parked"], limit=20)) == [
                *(f"abd-{number}" for number in reversed(range(12))),
                "abc-1",
            ]
            assert ids(tx.turns.find("abc")) == ["abc-1"]
            assert ids(tx.turns.find("ab"))[:2] == ["abd-x", "abd-11"]
            assert tx.turns.find("ABC") == [] == tx.turns.find("%")

        await store.write(unit)

    async def test_queued_turns_start_oldest_first_where_the_session_is_free(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            tx.turns.add(turn("t1", "running"))
            tx.turns.add(turn("t2"))
            tx.turns.add(turn("t3", session_id=S2))
            tx.turns.add(turn("t4", session_id=S2))
            assert ids(tx.turns.startable(limit=9)) == ["t3", "t4"]
            assert ids(tx.turns.startable(limit=1)) == ["t3"]
            tx.turns.move(T1, "done")
            assert ids(tx.turns.startable(limit=9)) == ["t2", "t3", "t4"]

        await store.write(unit)

    async def test_parked_turns_come_back_in_time(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            assert tx.turns.next_parked_at() is None
            tx.turns.add(turn("t1", "parked", retry_at=20.0))
            tx.turns.add(turn("t2", "parked", retry_at=10.0))
            assert tx.turns.next_parked_at() == 10.0
            assert tx.turns.parked_due(9.9) == []
            assert ids(tx.turns.parked_due(10.0)) == ["t2"]
            assert ids(tx.turns.parked_due(99.0)) == ["t1", "t2"]
            tx.turns.add(turn("t3", "parked"))
            assert ids(tx.turns.parked_due(1.0)) == ["t3"], "parked without a time: due at once"
            tx.turns.note(T1, stop_requested=True)
            assert ids(tx.turns.parked_due(1.0)) == ["t1", "t3"], "stopped: due at once"

        await store.write(unit)

    async def test_a_node_without_turns_holds_none(self, store: Store) -> None:
        assert await store.read(lambda tx: tx.turns.held_by(Epoch(99))) == []
