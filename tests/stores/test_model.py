"""The store against a model that fits in one's head, over random histories of everything that queues or waits.

The model is dictionaries and lists; after every step, whatever may be asked must be answered alike.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule
from tests.new_store import put_new_store
from tests.stores.sqlite_cases import open_at

from pilothouse.core.ask import ASK_MOVES, ASK_STATES, AskState
from pilothouse.core.errors import IllegalMove, SessionBusy, StoreError
from pilothouse.core.ids import AskId, ConversationId, Epoch, MessageId, ScheduleId, SessionId, TurnId
from pilothouse.core.queue import CHANGES, CONTROL_WAITLIST, Queue
from pilothouse.core.store import Store, Tx
from pilothouse.core.turn import ENDED, LIVE, TURN_MOVES, TURN_STATUSES, TurnStatus
from pilothouse.testing.store_builders import (
    C1,
    C2,
    MEMORY,
    S1,
    S2,
    add_places,
    ask_row,
    conversation,
    ids,
    join,
    put,
    schedule,
    turn,
)

T = TypeVar("T")

PLACES = (C1, C2)
SESSION_OF: dict[ConversationId, SessionId] = {C1: S1, C2: S2}
BOXES = ("inbox", "outbox")
NODES = (0, 1)
places = st.sampled_from(PLACES)
boxes = st.sampled_from(BOXES)
nodes = st.sampled_from(NODES)
times = st.sampled_from([0.0, 5.0, 50.0])
kinds = st.sampled_from(["chat", "closed"])


class Row:
    """What the model knows of a row in a queue."""

    def __init__(
        self, key: str, place: ConversationId, waitlist: str, ready_at: float, kind: str = "chat"
    ) -> None:
        self.key, self.place, self.waitlist, self.ready_at, self.kind = key, place, waitlist, ready_at, kind
        self.status = "queued"
        self.holder: int | None = None
        self.attempts = 0
        self.ended_at: float | None = None

    @property
    def unfinished(self) -> bool:
        return self.ended_at is None


PRUNED = Row("", C1, "", 0.0)
PRUNED.status = "gone"


class StoreMachine(RuleBasedStateMachine):
    messages = Bundle("messages")
    turns = Bundle("turns")
    asks = Bundle("asks")
    schedules = Bundle("schedules")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.runner = asyncio.Runner()
        self.stack, self.seconds = AsyncExitStack(), AsyncExitStack()
        self.stores: list[Store] = []
        self.now = 0.0
        self.count = 0
        self.rows: dict[str, dict[str, Row]] = {box: {} for box in BOXES}
        self.turn_rows: dict[str, tuple[ConversationId, TurnStatus, int | None]] = {}
        self.ask_rows: dict[str, tuple[ConversationId, AskState, float]] = {}
        self.ask_ends: dict[str, float] = {}
        self.slots: dict[str, tuple[float | None, bool]] = {}

    @initialize()
    def open(self) -> None:
        self.runner.run(self._open())
        self.write(0, add_places)
        for place in PLACES:
            bound = conversation(place, session_id=SESSION_OF[place])
            self.write(0, lambda tx, bound=bound: tx.conversations.save(bound))

    async def _open(self) -> None:
        store = await self.stack.enter_async_context(open_at(put_new_store(self.folder / "p.db")))
        await join(store)
        self.stores.append(store)
        await self._open_second()

    async def _open_second(self) -> None:
        self.seconds = AsyncExitStack()
        store = await self.seconds.enter_async_context(open_at(self.folder / "p.db"))
        await join(store)
        self.stores[1:] = [store]

    def teardown(self) -> None:  # pyrefly: ignore[missing-override-decorator]  Python 3.11 has none
        self.runner.run(self.seconds.aclose())
        self.runner.run(self.stack.aclose())
        self.runner.close()
        shutil.rmtree(self.folder)

    def write(self, node: int, unit: Callable[[Tx], T]) -> T:
        return self.runner.run(self.stores[node].write(unit))

    def read(self, unit: Callable[[Tx], T]) -> T:
        return self.runner.run(self.stores[0].read(unit))

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}-{self.count}"

    @rule(
        target=messages,
        box=boxes,
        place=places,
        control=st.booleans(),
        kind=kinds,
        ready_at=times,
        again=st.booleans(),
    )
    def put(
        self, box: str, place: ConversationId, control: bool, kind: str, ready_at: float, again: bool
    ) -> tuple[str, str]:
        rows = self.rows[box]
        known = next(reversed(rows), None)
        id = self.name("m")
        key = rows[known].key if again and known else f"key of {id}"
        waitlist = CONTROL_WAITLIST if control else place
        fields = {"key": key, "waitlist": waitlist, "kind": kind, "ready_at": ready_at}
        got = self.write(0, lambda tx: put(queue(tx, box), id, place, **fields))
        if again and known:
            assert not got.fresh and got.row.id == known
            return box, known
        assert got.fresh
        rows[id] = Row(place=place, **fields)
        return box, id

    @rule(message=messages, node=nodes)
    def claim(self, message: tuple[str, str], node: int) -> None:
        box, id = message
        row = self.rows[box].get(id, PRUNED)
        taken = self.write(node, lambda tx: queue(tx, box).claim([MessageId(id)]))
        assert ids(taken) == ([id] if row.status == "queued" else [])
        if taken:
            row.status, row.holder, row.attempts = "claimed", node, row.attempts + 1

    @rule(message=messages, node=nodes, how=st.sampled_from(["done", "failed", "retry", "release"]), at=times)
    def end(self, message: tuple[str, str], node: int, how: str, at: float) -> None:
        box, id = message
        row = self.rows[box].get(id, PRUNED)

        def unit(tx: Tx) -> bool:
            target = queue(tx, box)
            match how:
                case "done":
                    return target.done(MessageId(id), self.now)
                case "failed":
                    return target.fail(MessageId(id), self.now, "why")
                case "retry":
                    return target.retry(MessageId(id), at, "why")
                case _:
                    return target.release(MessageId(id))

        held = row.status == "claimed" and row.holder == node
        assert self.write(node, unit) == held
        if not held:
            return
        row.holder = None
        if how == "retry":
            row.ready_at = at
        if how == "release":
            row.attempts -= 1
        if how in {"done", "failed"}:
            row.status, row.ended_at = how, self.now
        else:
            row.status = "queued"

    @rule(message=messages, node=nodes)
    def withdraw(self, message: tuple[str, str], node: int) -> None:
        box, id = message
        row = self.rows[box].get(id, PRUNED)
        gone = self.write(node, lambda tx: queue(tx, box).withdraw(MessageId(id), self.now, "why"))
        assert gone == (row.status == "queued")
        if gone:
            row.status, row.ended_at = "withdrawn", self.now

    @rule(seconds=st.sampled_from([1.0, 10.0, 100.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(target=turns, place=places)
    def add_turn(self, place: ConversationId) -> str:
        id = self.name("t")
        new = turn(id, conversation_id=place, session_id=SESSION_OF[place])
        self.write(0, lambda tx: tx.turns.add(new))
        self.turn_rows[id] = (place, "queued", None)
        return id

    @rule(id=turns, to=st.sampled_from(TURN_STATUSES), node=nodes)
    def move_turn(self, id: str, to: TurnStatus, node: int) -> None:
        if id not in self.turn_rows:
            assert self.attempt(node, lambda tx: tx.turns.move(TurnId(id), to)) is StoreError
            return
        place, status, owner = self.turn_rows[id]
        if status in LIVE and owner != node:
            node = owner or 0  # that it belongs to its node is told elsewhere
        busy = to in LIVE and any(
            other != id and where == place and live in LIVE
            for other, (where, live, _) in self.turn_rows.items()
        )
        moved = self.attempt(node, lambda tx: tx.turns.move(TurnId(id), to))
        if to not in TURN_MOVES[status]:
            assert moved is IllegalMove
        elif busy:
            assert moved is SessionBusy
        else:
            assert moved is None
            self.turn_rows[id] = (place, to, node if to == "running" else owner)

    @rule(target=asks, place=places, expires_at=times)
    def add_ask(self, place: ConversationId, expires_at: float) -> str:
        id = self.name("a")
        row = ask_row(id, conversation_id=place, session_id=SESSION_OF[place], expires_at=expires_at)
        self.write(0, lambda tx: tx.asks.add(row))
        self.ask_rows[id] = (place, "open", expires_at)
        return id

    @rule(id=asks, to=st.sampled_from(ASK_STATES), node=nodes)
    def move_ask(self, id: str, to: AskState, node: int) -> None:
        if id not in self.ask_rows:
            assert self.attempt(node, lambda tx: tx.asks.move(AskId(id), to, at=self.now)) is StoreError
            return
        place, state, expires_at = self.ask_rows[id]
        moved = self.attempt(node, lambda tx: tx.asks.move(AskId(id), to, at=self.now))
        if to in ASK_MOVES[state]:
            assert moved is None
            self.ask_rows[id] = (place, to, expires_at)
            self.ask_ends[id] = self.now
        else:
            assert moved is IllegalMove

    @rule(target=schedules, next_at=st.none() | times, paused=st.booleans())
    def add_schedule(self, next_at: float | None, paused: bool) -> str:
        id = self.name("s")
        self.save_schedule(id, next_at, paused)
        return id

    @rule(id=schedules, next_at=st.none() | times, paused=st.booleans())
    def save_schedule(self, id: str, next_at: float | None, paused: bool) -> None:
        self.write(1, lambda tx: tx.schedules.save(schedule(id, next_at, paused=paused)))
        self.slots[id] = (next_at, paused)

    @rule(id=consumes(schedules))
    def remove_schedule(self, id: str) -> None:
        known = self.slots.pop(id, None) is not None
        assert self.write(1, lambda tx: tx.schedules.remove(ScheduleId(id))) == known

    @rule()
    def prune(self) -> None:
        gone = 0
        for rows in self.rows.values():
            for id in [
                id for id, row in rows.items() if row.ended_at is not None and row.ended_at < self.now
            ]:
                del rows[id]
                gone += 1
        for id in [id for id, (_, status, _) in self.turn_rows.items() if status in ENDED and self.now > 1.0]:
            del self.turn_rows[id]
            gone += 1
        for id in [id for id, at in self.ask_ends.items() if at < self.now]:
            del self.ask_rows[id], self.ask_ends[id]
            gone += 1
        while step := self.write(0, lambda tx: tx.prune(self.now, limit=3)):
            gone -= step
        assert gone == 0

    @rule()
    def reopen(self) -> None:
        """The second node goes and comes back under a new epoch; what it held is free again."""
        gone = self.stores[1].epoch
        assert gone is not None
        self.runner.run(self.seconds.aclose())
        self.write(0, lambda tx: self.take_over(tx, gone))
        for rows in self.rows.values():
            for row in rows.values():
                if row.holder == 1:
                    row.status, row.holder = "queued", None
        self.runner.run(self._open_second())

    def take_over(self, tx: Tx, gone: Epoch) -> None:
        tx.nodes.fence(gone)
        tx.inbox.reap(gone)
        tx.outbox.reap(gone)
        for held in tx.turns.held_by(gone):
            tx.turns.move(held.id, "lost")
            place, _, owner = self.turn_rows[held.id]
            self.turn_rows[held.id] = (place, "lost", owner)

    @invariant()
    def the_store_agrees(self) -> None:
        self.read(self.check)

    def check(self, tx: Tx) -> None:
        for box, rows in self.rows.items():
            self.check_queue(tx, box, rows)
        self.check_startable(tx)
        self.check_deliverable(tx)
        self.check_turns(tx)
        self.check_asks(tx)
        self.check_schedules(tx)

    def check_queue(self, tx: Tx, box: str, rows: dict[str, Row]) -> None:
        target = queue(tx, box)
        for place in PLACES:
            open_rows = [id for id, row in rows.items() if row.place == place and row.unfinished]
            assert ids(target.unfinished(place)) == open_rows
        for id, row in rows.items():
            found = target.get(MessageId(id))
            assert found is not None
            assert (found.status, found.attempts, found.ready_at) == (row.status, row.attempts, row.ready_at)
        waits = [row.ready_at for row in rows.values() if row.status == "queued" and row.ready_at > self.now]
        assert target.next_ready_at(self.now) == min(waits, default=None)

    def check_startable(self, tx: Tx) -> None:
        rows = self.rows["inbox"]
        ahead = {*LIVE, "queued", "parked"}
        taken = {place for place, status, _ in self.turn_rows.values() if status in ahead}
        claimed = {
            row.place for row in rows.values() if row.status == "claimed" and row.waitlist != CONTROL_WAITLIST
        }
        wanted: list[str] = []
        for row in rows.values():
            ready = row.status == "queued" and row.waitlist != CONTROL_WAITLIST and row.ready_at <= self.now
            if ready and row.place not in taken | claimed and row.place not in wanted:
                wanted.append(row.place)
        assert tx.inbox.startable(self.now, engines=None, limit=99) == wanted

    def check_deliverable(self, tx: Tx) -> None:
        heads: dict[str, str] = {}
        for id, row in self.rows["outbox"].items():
            waits = row.status == "queued" and row.ready_at > self.now
            if row.unfinished and not (waits and row.kind in CHANGES):
                heads.setdefault(row.place, id)
        rows = self.rows["outbox"]
        wanted = [
            id for id in heads.values() if rows[id].status == "queued" and rows[id].ready_at <= self.now
        ]
        got = tx.outbox.deliverable(self.now, channels=[MEMORY], limit=99)
        assert ids(got) == sorted(wanted, key=list(rows).index)

    def check_turns(self, tx: Tx) -> None:
        free = {place for place in PLACES if not self.live_in(place)}
        queued = [
            id for id, (place, status, _) in self.turn_rows.items() if status == "queued" and place in free
        ]
        assert ids(tx.turns.startable(limit=99)) == queued
        for place in PLACES:
            live = self.live_in(place)
            assert len(live) <= 1, "law 2"
            found = tx.turns.live(SESSION_OF[place])
            assert ([found.id] if found else []) == live

    def live_in(self, place: ConversationId) -> list[str]:
        return [id for id, (where, status, _) in self.turn_rows.items() if where == place and status in LIVE]

    def check_asks(self, tx: Tx) -> None:
        opened = {
            id: (place, expiry) for id, (place, state, expiry) in self.ask_rows.items() if state == "open"
        }
        for place in PLACES:
            found = tx.asks.open_in(place)
            assert [row.ask.id for row in found] == [
                id for id, (where, _) in opened.items() if where == place
            ]
        expired = tx.asks.expired(self.now, limit=1000)
        over = [(expiry, id) for id, (_, expiry) in opened.items() if expiry <= self.now]
        assert [row.ask.id for row in expired] == [id for _, id in sorted(over, key=lambda pair: pair[0])]
        assert tx.asks.next_expiry() == min((e for _, e in opened.values()), default=None)

    def check_schedules(self, tx: Tx) -> None:
        waiting = {id: slot for id, (slot, paused) in self.slots.items() if slot is not None and not paused}
        assert set(ids(tx.schedules.due(self.now))) == {
            id for id, slot in waiting.items() if slot <= self.now
        }
        assert tx.schedules.next_at() == min(waiting.values(), default=None)

    def attempt(self, node: int, unit: Callable[[Tx], Any]) -> type[Exception] | None:
        try:
            self.write(node, unit)
        except (IllegalMove, StoreError) as error:
            return type(error)
        return None


def queue(tx: Tx, box: str) -> Queue:
    return tx.inbox if box == "inbox" else tx.outbox


TestStoreAgainstModel = StoreMachine.TestCase
TestStoreAgainstModel.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
