"""Conformance of stores: the inbox, and which conversation may start a turn."""

from __future__ import annotations

from pilothouse.core.ids import AskId, ConversationId, EngineId, MessageId, TurnId
from pilothouse.core.queue import CONTROL_WAITLIST
from pilothouse.core.store import Store, Tx
from pilothouse.testing.store_builders import (
    C1,
    C2,
    M1,
    M2,
    S1,
    SCRIPT,
    T1,
    StoreSuite,
    ask_row,
    conversation,
    put,
    session,
    turn,
)


class InboxSuite(StoreSuite):
    async def test_a_conversation_may_start_when_work_is_ready(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            put(tx.inbox, "m1", C1, ready_at=50.0)
            put(tx.inbox, "m2", C2)
            put(tx.inbox, "m3", C1)
            assert tx.inbox.startable(1.0, engines=None, limit=9) == [C2, C1]
            assert tx.inbox.startable(50.0, engines=None, limit=9) == [C1, C2]
            assert tx.inbox.startable(50.0, engines=None, limit=1) == [C1]
            tx.inbox.claim([M2])
            assert tx.inbox.startable(50.0, engines=None, limit=9) == [C1]

        await store.write(unit)

    async def test_the_control_waitlist_is_not_work(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            put(tx.inbox, "m1", C1, waitlist=CONTROL_WAITLIST)
            assert tx.inbox.startable(1.0, engines=None, limit=9) == []
            put(tx.inbox, "m2", C1)
            tx.inbox.claim([M1])
            assert tx.inbox.startable(1.0, engines=None, limit=9) == [C1]

        await store.write(unit)

    async def test_a_conversation_whose_session_is_busy_waits(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            tx.conversations.save(conversation(C1, session_id=S1))
            put(tx.inbox, "m1", C1)
            tx.turns.add(turn("t1", "running"))
            assert tx.inbox.startable(1.0, engines=None, limit=9) == []
            tx.turns.move(T1, "waiting")
            assert tx.inbox.startable(1.0, engines=None, limit=9) == []
            tx.turns.move(T1, "failed")
            assert tx.inbox.startable(1.0, engines=None, limit=9) == [C1]

        await store.write(unit)

    async def test_a_conversation_waits_behind_its_turn_that_waits(self, store: Store) -> None:
        """Also behind a turn without an inbox row: an answer made it."""

        def unit(tx: Tx) -> None:
            tx.conversations.save(conversation(C1, session_id=S1))
            put(tx.inbox, "m1", C1)
            put(tx.inbox, "m2", C2)
            tx.turns.add(turn("t1", "queued"))
            assert tx.inbox.startable(1.0, engines=None, limit=9) == [C2]
            tx.turns.move(T1, "running")
            tx.turns.move(T1, "parked", retry_at=9.0)
            assert tx.inbox.startable(1.0, engines=None, limit=9) == [C2]
            tx.turns.move(T1, "cancelled")
            assert tx.inbox.startable(1.0, engines=None, limit=9) == [C1, C2]

        await store.write(unit)

    async def test_work_waits_behind_an_open_ask_whose_turn_was_lost(self, store: Store) -> None:
        def lose(tx: Tx, id: str, ended_at: float) -> None:
            tx.turns.add(turn(id, "waiting"))
            tx.asks.add(ask_row(f"ask of {id}", turn_id=TurnId(id)))
            tx.turns.move(TurnId(id), "failed", ended_at=ended_at)

        def startable(tx: Tx) -> list[ConversationId]:
            return tx.inbox.startable(100.0, engines=None, limit=1)

        def unit(tx: Tx) -> None:
            tx.sessions.add(session(S1))
            tx.conversations.save(conversation(C1, session_id=S1))
            put(tx.inbox, "m1", C1, at=4.0)
            lose(tx, "t1", 5.0)
            assert startable(tx) == []
            put(tx.inbox, "m2", C2)
            assert startable(tx) == [C2], "it hides no other from the limit"
            tx.conversations.save(conversation(C1))
            assert startable(tx) == [C1], "the conversation is in another session"
            tx.conversations.save(conversation(C1, session_id=S1))
            tx.sessions.save(session(S1, retired=True))
            assert startable(tx) == [C1], "the session is over"
            tx.sessions.save(session(S1))
            put(tx.inbox, "newer", C1, at=6.0)
            assert startable(tx) == [C2], "whatever comes, it waits"
            lose(tx, "t2", 7.0)
            tx.asks.move(AskId("ask of t2"), "expired", at=8.0)
            assert startable(tx) == [C2], "the first ask is open still"
            tx.asks.move(AskId("ask of t1"), "superseded", at=9.0)
            assert startable(tx) == [C1]

        await store.write(unit)

    async def test_busy_conversations_hide_no_other_from_the_limit(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            for number in range(12):
                place = ConversationId(f"memory:many-{number}")
                tx.conversations.ensure(conversation(place))
                put(tx.inbox, f"m{number}", place)
            tx.inbox.claim([MessageId(f"m{number}") for number in range(11)])
            assert tx.inbox.startable(1.0, engines=None, limit=1) == ["memory:many-11"]

        await store.write(unit)

    async def test_a_node_is_offered_only_what_its_engines_can_do(self, store: Store) -> None:
        other = EngineId("other")

        def unit(tx: Tx) -> None:
            tx.sessions.add(session(S1, engine=SCRIPT))
            tx.conversations.save(conversation(C1, engine=other, session_id=S1))
            tx.conversations.save(conversation(C2, engine=other))
            put(tx.inbox, "m1", C1)
            put(tx.inbox, "m2", C2)
            assert tx.inbox.startable(1.0, engines=[SCRIPT], limit=9) == [C1]
            assert tx.inbox.startable(1.0, engines=[other], limit=9) == [C2]
            assert tx.inbox.startable(1.0, engines=[], limit=9) == []
            assert tx.inbox.startable(1.0, engines=None, limit=9) == [C1, C2]
            tx.conversations.save(conversation(C2))
            assert tx.inbox.startable(1.0, engines=[SCRIPT], limit=9) == [C1, C2]
            tx.sessions.save(session(S1, engine=SCRIPT, retired=True))
            assert tx.inbox.startable(1.0, engines=[SCRIPT], limit=9) == [C2]

        await store.write(unit)
