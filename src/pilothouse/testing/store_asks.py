"""Conformance of stores: asks, people and schedules."""

from __future__ import annotations

from itertools import product
from typing import Any

import msgspec
import pytest

from pilothouse.core.ask import ASK_MOVES, ASK_STATES, AskKind, AskRow, AskState, Decision
from pilothouse.core.call import Call, Change, Replacement
from pilothouse.core.errors import IllegalMove, StoreError
from pilothouse.core.ids import AskId, ConversationId, ScheduleId, TurnId, UserId
from pilothouse.core.people import Approvers, Authority, Grant, Vote
from pilothouse.core.schedule import At, Cron, Every
from pilothouse.core.store import Store, Tx
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

    async def test_an_ask_keeps_its_call(self, store: Store) -> None:
        change = Change("a.py", (Replacement("1", "2"),), shown=("path",))
        call = Call("change", "patch", "/w", paths=("a.py",), change=change)
        row = ask_row("a1")
        row = msgspec.structs.replace(row, ask=msgspec.structs.replace(row.ask, call=call))
        await store.write(lambda tx: tx.asks.add(row))
        assert await store.read(lambda tx: tx.asks.get(A1)) == row
        moved = await store.write(lambda tx: tx.asks.move(A1, "answered", at=2.0, decision=YES))
        assert moved.ask.call == call

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

    async def test_open_asks_are_found_in_every_place_that_shows_them(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            tx.asks.add(ask_row("a1"))
            tx.asks.add(ask_row("b1", conversation_id=C2, turn_id=TurnId("t2")))
            assert (at(tx, C1), at(tx, C2)) == (["a1"], ["b1"])
            tx.asks.show_in(A1, [C2])
            assert at(tx, C2) == ["a1", "b1"]
            assert names(tx.asks.open_at(C2, 1.0, lambda _: False)) == []
            tx.asks.move(A1, "withdrawn", at=2.0)
            assert at(tx, C2) == ["b1"]

        def at(tx: Tx, place: ConversationId) -> list[str]:
            return names(tx.asks.open_at(place, 1.0, lambda _: True))

        await store.write(unit)

    async def test_open_asks_are_found_by_place_by_turn_and_by_name(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            tx.asks.add(ask_row("a2"))
            tx.asks.add(ask_row("a1"))
            tx.asks.add(ask_row("b1", conversation_id=C2, turn_id=TurnId("t2")))
            assert names(tx.asks.open_in(C1)) == ["a2", "a1"]
            tx.asks.move(A2, "withdrawn", at=2.0)
            assert names(tx.asks.open_in(C1)) == ["a1"]
            assert names(tx.asks.of_turn(TurnId("t1"))) == ["a2", "a1"]
            tx.asks.add(ask_row("a3"))
            tx.asks.move(AskId("a3"), "withdrawn", at=2.0)
            assert names(tx.asks.find("a")) == ["a1", "a3", "a2"], "open ones first"
            assert tx.asks.find("%") == []

        await store.write(unit)

    async def test_a_stored_answer_serves_the_same_payload_once(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            tx.asks.add(ask_row("a1", payload_hash="same"))
            assert names(tx.asks.open_of(S1)) == ["a1"]
            assert tx.asks.unused_answer(S1, "same") is None
            tx.asks.move(A1, "answered", at=2.0, decision=YES)
            assert tx.asks.open_of(S1) == []
            answer = tx.asks.unused_answer(S1, "same")
            assert tx.asks.unused_of(S1) == [answer] and tx.asks.unused_of(S2) == []
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
            tx.asks.mark_unused(A1)
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
            assert tx.asks.expired(9.9, limit=9) == []
            assert names(tx.asks.expired(10.0, limit=9)) == ["a2"]
            assert names(tx.asks.expired(20.0, limit=9)) == ["a2", "a1"]
            assert names(tx.asks.expired(20.0, limit=1)) == ["a2"], "the oldest first"
            tx.asks.move(A2, "expired", at=20.0)
            assert names(tx.asks.expired(20.0, limit=9)) == ["a1"]
            tx.asks.shift(3600.0, 3610.0)
            shifted = tx.asks.get(A1)
            assert shifted is not None and shifted.ask.expires_at == 3620.0 == tx.asks.next_expiry()
            untouched = tx.asks.get(A2)
            assert untouched is not None and untouched.ask.expires_at == 10.0

        await store.write(unit)

    async def test_who_may_answer_and_who_has_is_read_as_it_was_stored(self, store: Store) -> None:
        approvers = Approvers(("owner", "admin"), exclude_requester=True, quorum=2, route="private")
        authority = Authority(approvers, (UserId("memory:ann"),), "/w", UserId("memory:bob"))
        row = ask_row("a1", authority=authority, shown_in=(C2,), topic="join", about=A2)
        votes = (Vote(UserId("memory:cy"), "Cy", 2.0),)
        await store.write(lambda tx: tx.asks.add(row))
        assert await store.read(lambda tx: tx.asks.get(A1)) == row
        await store.write(lambda tx: tx.asks.vote(A1, votes))
        voted = await store.read(lambda tx: tx.asks.get(A1))
        assert voted is not None and voted.votes == votes
        moved = await store.write(lambda tx: tx.asks.move(A1, "answered", at=3.0, decision=YES))
        assert (moved.votes, moved.authority, moved.shown_in) == (votes, authority, (C2,))

    async def test_an_open_ask_can_be_shown_in_further_places(self, store: Store) -> None:
        await store.write(lambda tx: tx.asks.add(ask_row("a1", shown_in=(C2,))))
        shown = await store.write(lambda tx: tx.asks.show_in(A1, [ConversationId("memory:home")]))
        assert shown.shown_in == (C2, "memory:home")
        assert await store.read(lambda tx: tx.asks.get(A1)) == shown
        await store.write(lambda tx: tx.asks.move(A1, "answered", at=2.0, decision=YES))
        with pytest.raises(StoreError):
            await store.write(lambda tx: tx.asks.show_in(A1, [C2]))

    async def test_only_what_is_open_is_voted_on_and_only_what_is_answered_is_amended(
        self, store: Store
    ) -> None:
        no = Decision("deny", by=UserId("memory:ann"), reason_wanted=True)
        why = Decision("deny", text="because", by=UserId("memory:ann"), reason_wanted=True)
        await store.write(lambda tx: tx.asks.add(ask_row("a1")))
        with pytest.raises(StoreError):
            await store.write(lambda tx: tx.asks.amend(A1, why))
        await store.write(lambda tx: tx.asks.move(A1, "answered", at=2.0, decision=no))
        amended = await store.write(lambda tx: tx.asks.amend(A1, why))
        assert (amended.decision, amended.answered_at) == (why, 2.0)
        assert await store.read(lambda tx: tx.asks.get(A1)) == amended
        with pytest.raises(StoreError):
            await store.write(lambda tx: tx.asks.vote(A1, ()))

    async def test_what_is_open_is_found_by_kind_by_session_and_by_topic(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            kinds: tuple[AskKind, ...] = ("approval", "question", "question", "plan")
            for number, kind in enumerate(kinds):
                tx.asks.add(ask_row(f"k{number}", kind=kind))
            tx.asks.add(ask_row("else", kind="question", conversation_id=C2, session_id=S2))
            tx.asks.add(ask_row("join", topic="join", session_id=S2))
            assert names(tx.asks.open_of(S1)) == ["k0", "k1", "k2", "k3"]
            assert names(tx.asks.open_about("join")) == ["join"]
            assert tx.asks.open_about("") == [], "an engine's ask has no topic"
            tx.asks.move(AskId("k1"), "withdrawn", at=2.0)
            assert names(tx.asks.newest(limit=2)) == ["join", "else"]
            assert names(tx.asks.newest(states=("withdrawn",))) == ["k1"]
            assert len(tx.asks.newest(states=("open", "withdrawn"))) == 6

        await store.write(unit)

    async def test_a_plain_reply_finds_the_oldest_question_that_takes_it(self, store: Store) -> None:
        ann, bob = Authority(only=UserId("memory:ann")), Authority(only=UserId("memory:bob"))

        def unit(tx: Tx) -> None:
            def found(wanted: Authority, now: float = 1.0, **terms: Any) -> str | None:
                row = tx.asks.open_question(C1, now, lambda authority: authority == wanted, **terms)
                return row.ask.id if row else None

            tx.asks.add(ask_row("approval", authority=ann))
            tx.asks.add(ask_row("brief", kind="question", authority=ann, expires_at=5.0))
            tx.asks.add(ask_row("bobs", kind="question", authority=bob))
            tx.asks.add(ask_row("long", kind="question", authority=ann, session_id=S2))
            tx.asks.add(ask_row("elsewhere", kind="question", authority=bob, conversation_id=C2))
            assert [found(ann), found(bob), found(Authority())] == ["brief", "bobs", None]
            assert found(ann, now=5.0) == "long", "the other has no time left"
            assert found(ann, session_id=S2) == "long"
            assert found(bob, session_id=S2) is None
            tx.asks.move(AskId("bobs"), "withdrawn", at=2.0)
            assert found(bob) is None

        await store.write(unit)


class PeopleSuite(StoreSuite):
    async def test_a_person_has_one_role_per_workspace(self, store: Store) -> None:
        ann, bob = UserId("memory:ann"), UserId("memory:bob")
        everywhere = Grant(ann, "member", name="Ann", by="shell", at=1.0)
        there = Grant(ann, "admin", "/srv", at=2.0)
        other = Grant(bob, "owner", at=3.0)

        def unit(tx: Tx) -> None:
            for grant in (other, there, everywhere):
                tx.people.grant(grant)
            assert tx.people.of(ann) == [everywhere, there]
            assert tx.people.everybody() == [everywhere, there, other]
            raised = Grant(ann, "admin", at=4.0)
            tx.people.grant(raised)
            assert tx.people.of(ann) == [raised, there]
            assert tx.people.revoke(ann, "/nowhere") == []
            assert tx.people.revoke(ann, "") == [raised]
            assert tx.people.of(ann) == [there]
            tx.people.grant(raised)
            assert sorted(tx.people.revoke(ann), key=lambda grant: grant.at) == [there, raised]
            assert tx.people.everybody() == [other]

        await store.write(unit)

    async def test_a_tally_counts_within_its_window_and_is_pruned_after_it(self, store: Store) -> None:
        def unit(tx: Tx) -> None:
            assert tx.tallied("k", 10.0, 60.0) == 0
            assert [tx.tally("k", at, 60.0) for at in (10.0, 20.0, 69.0)] == [1, 2, 3]
            assert tx.tallied("k", 69.0, 60.0) == 3
            assert tx.tallied("other", 69.0, 60.0) == 0
            assert tx.tallied("k", 70.0, 60.0) == 0, "the window begins with the first"
            assert tx.tally("k", 70.0, 60.0) == 1
            assert tx.prune(70.0) == 0
            assert tx.prune(71.0) == 1
            assert tx.tallied("k", 71.0, 60.0) == 0

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
