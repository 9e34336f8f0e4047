"""Which process serves a session, and which make room."""

from __future__ import annotations

import itertools

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from pilothouse.core.errors import EngineError, IllegalMove
from pilothouse.engines.pool import WAIT_S, Pool
from pilothouse.engines.pool_choice import (
    FEWEST,
    MOST,
    MOVES,
    RECENT_S,
    Limits,
    Member,
    State,
    capacity,
    choose,
    expired,
    move,
    next_expiry,
    surplus,
)

LIMITS = Limits("Claude Code", max_processes=3, idle_timeout_s=300.0)
BY_MEMORY = Limits("Claude Code")
PLENTY_MB, NOW = 20_000.0, 1000.0


def member(
    id: int,
    state: State = "idle",
    used_at: float = 0.0,
    session: str = "",
    kept: bool = True,
    held: bool = False,
) -> Member:
    name = session or f"s{id}"
    return Member(id, f"key-{name}", name, state, used_at, kept, held)


def test_the_idle_process_of_the_session_is_used_again() -> None:
    choice = choose([member(1), member(2, session="mine")], "key-mine", "mine", None, NOW, LIMITS)
    assert (choice.reuse, choice.end) == (2, ())


def test_another_key_of_the_same_session_replaces_its_process() -> None:
    choice = choose([member(1, session="mine")], "key-other-model", "mine", None, NOW, LIMITS)
    assert (choice.reuse, choice.end) == (None, (1,))


def test_a_process_of_the_session_that_is_on_its_way_out_must_be_gone_first() -> None:
    choice = choose(
        [member(1, "ending", session="mine"), member(2, "ending")], "key-mine", "mine", None, NOW, LIMITS
    )
    assert (choice.reuse, choice.end, choice.keep) == (None, (1,), True)


def test_a_session_in_use_is_refused() -> None:
    for state in ("starting", "busy"):
        assert choose([member(1, state, session="mine")], "key-mine", "mine", None, NOW, LIMITS).refusal


def test_the_one_that_was_idle_longest_makes_room() -> None:
    members = [member(1, used_at=30.0), member(2, used_at=10.0), member(3, "busy", used_at=1.0)]
    choice = choose(members, "k", "new", None, NOW, LIMITS)
    assert (choice.end, choice.keep) == ((2,), True)


def test_where_all_are_busy_a_turn_gets_a_process_that_is_not_kept() -> None:
    members = [member(n, "busy") for n in range(3)]
    choice = choose(members, "k", "new", None, NOW, LIMITS)
    assert (choice.end, choice.keep, choice.refusal) == ((), False, "")


def test_one_with_something_in_the_background_goes_neither_for_another_nor_by_its_time() -> None:
    members = [member(1, used_at=1.0, held=True), member(2, used_at=10.0), member(3, used_at=20.0)]
    assert choose(members, "k", "new", None, NOW, LIMITS).end == (2,)
    assert expired(members, 5000.0, LIMITS) == (2, 3)
    assert next_expiry(members, LIMITS) == 310.0
    held = [member(n, held=True) for n in range(3)]
    assert choose(held, "k", "new", None, NOW, LIMITS).keep is False
    assert choose(held, "key-s1", "s1", None, NOW, LIMITS).reuse == 1, "its own session has it"


def test_one_for_a_single_turn_goes_as_soon_as_nothing_holds_it() -> None:
    assert expired([member(1, used_at=7.0, kept=False, held=True)], 8.0, LIMITS) == ()
    assert expired([member(1, used_at=7.0, kept=False)], 8.0, LIMITS) == (1,)


def test_too_little_memory_ends_idle_ones_then_refuses() -> None:
    idle = [member(1, used_at=5.0), member(2, used_at=1.0)]
    assert choose(idle, "k", "new", 300.0, NOW, LIMITS).end == (2,)
    assert "memory" in choose([member(1, "busy")], "k", "new", 300.0, NOW, LIMITS).refusal
    assert not choose([], "k", "new", 100.0, NOW, LIMITS).refusal, "alone, it may try"


def test_what_is_idle_too_long_expires() -> None:
    members = [member(1, used_at=0.0), member(2, used_at=100.0), member(3, "busy", used_at=0.0)]
    assert expired(members, 300.0, LIMITS) == (1,)
    assert next_expiry(members, LIMITS) == 300.0
    assert next_expiry([member(3, "busy")], LIMITS) is None


def test_twenty_sessions_keep_their_processes_where_there_is_memory() -> None:
    idle = [member(n, used_at=NOW) for n in range(19)]
    choice = choose(idle, "k", "new", PLENTY_MB, NOW, BY_MEMORY)
    assert (choice.end, choice.keep) == ((), True)


def test_memory_sets_the_capacity_between_a_floor_and_a_ceiling() -> None:
    assert capacity([], 8000.0, BY_MEMORY) == 16, "half of it, in processes of 250 MB"
    assert capacity([member(1), member(2)], 7500.0, BY_MEMORY) == 16, "what they hold counts as theirs"
    assert (capacity([], 100.0, BY_MEMORY), capacity([], 1e6, BY_MEMORY)) == (FEWEST, MOST)
    assert capacity([], None, BY_MEMORY) == FEWEST
    assert capacity([], PLENTY_MB, LIMITS) == 3, "a configured number stays"


def test_starting_processes_count_with_the_memory_that_they_will_take() -> None:
    starting = [member(n, "starting") for n in range(4)]
    assert choose(starting[:3], "k", "new", 1300.0, NOW, BY_MEMORY).refusal == ""
    assert "memory" in choose(starting, "k", "new", 1300.0, NOW, BY_MEMORY).refusal


def test_one_in_recent_use_makes_no_room_unless_memory_is_short() -> None:
    recent = [member(n, used_at=NOW - 1) for n in range(FEWEST)]
    choice = choose(recent, "k", "new", 1000.0, NOW, BY_MEMORY)
    assert (choice.end, choice.keep) == ((), False), "it has a process for one turn"
    assert choose(recent, "k", "new", 1000.0, NOW + RECENT_S, BY_MEMORY).end == (0,)
    assert choose(recent, "k", "new", 300.0, NOW, BY_MEMORY).end == (0,)


def test_idle_processes_end_when_memory_gets_short() -> None:
    idle = [member(n, used_at=float(n)) for n in range(8)]
    busy = [member(9, "busy"), member(10, held=True)]
    assert surplus([*idle, *busy], PLENTY_MB, NOW, BY_MEMORY) == ()
    assert surplus([*idle, *busy], 1500.0, NOW, BY_MEMORY) == (0, 1), "ten, where there is room for eight"
    assert surplus([*idle, *busy], 1500.0, RECENT_S, BY_MEMORY) == (0,), "the second was used a moment ago"
    assert surplus([member(1), *busy], 100.0, 0.0, BY_MEMORY) == (1,)
    assert surplus([member(1), member(2, "ending"), *busy], 400.0, NOW, LIMITS) == (), (
        "one is leaving already"
    )
    assert surplus([member(1)], None, NOW, LIMITS) == ()


def test_an_illegal_move_raises() -> None:
    for state, to in itertools.product(MOVES, MOVES):
        if to in MOVES[state]:
            assert move(state, to) == to
        else:
            with pytest.raises(IllegalMove):
                move(state, to)


members = st.lists(
    st.builds(
        member,
        id=st.integers(1, 99),
        state=st.sampled_from(["starting", "busy", "idle", "ending"]),
        used_at=st.floats(0, 1000),
        session=st.sampled_from(["a", "b", "c", "mine"]),
        kept=st.booleans(),
    ),
    unique_by=lambda one: one.id,
    max_size=8,
)


@given(members, st.none() | st.floats(0, 2000))
def test_whatever_is_there_nothing_busy_is_ended_and_no_session_has_two(
    there: list[Member], free_mb: float | None
) -> None:
    choice = choose(there, "key-mine", "mine", free_mb, NOW, LIMITS)
    by_id = {one.id: one for one in there}
    assert all(by_id[id].state in ("idle", "ending") for id in choice.end)
    if not choice.refusal and choice.reuse is None:
        left = [one for one in there if one.id not in choice.end]
        assert not [one for one in left if one.session == "mine"]


class Order(Struct, frozen=True):
    session: str
    key: str = ""
    once: bool = False


class Warm:
    """A process that is ready at once, and runs until it is stopped."""

    alive, holds_work = True, False

    def __init__(self, order: Order) -> None:
        self.session, self.key = order.session, order.key
        self.ended, self._stopped = anyio.Event(), anyio.Event()

    def may_serve(self, _order: Order) -> bool:
        return True

    async def run(self) -> None:
        await self._stopped.wait()
        self.ended.set()

    async def wait_ready(self) -> None: ...

    def stop(self) -> None:
        self._stopped.set()


class Machine:
    """Has room for so many processes."""

    def __init__(self, room: int) -> None:
        self.room, self.time = room, 0.0
        self.running: list[Warm] = []

    def start(self, order: Order) -> Warm:
        self.running.append(Warm(order))
        return self.running[-1]

    def free_mb(self) -> float:
        living = sum(not one.ended.is_set() for one in self.running)
        return (self.room - living) * BY_MEMORY.process_mb + BY_MEMORY.spare_mb

    def now(self) -> float:
        return self.time


async def test_a_turn_waits_for_memory_until_another_turn_ends() -> None:
    machine, leased = Machine(room=1), anyio.Event()
    async with anyio.create_task_group() as tasks:
        pool = Pool(tasks, BY_MEMORY, machine.start, machine.free_mb, machine.now)
        first = await pool.lease(Order("a"))

        async def second() -> None:
            await pool.lease(Order("b"))
            leased.set()

        tasks.start_soon(second)
        await anyio.wait_all_tasks_blocked()
        assert not leased.is_set()
        await pool.give_back(first)
        with anyio.fail_after(60):
            await leased.wait()
        assert first.ended.is_set(), "it made room"
        pool.stop()


async def test_a_turn_that_finds_no_memory_for_too_long_is_refused() -> None:
    machine = Machine(room=1)
    async with anyio.create_task_group() as tasks:
        times = itertools.count(0.0, WAIT_S)
        pool = Pool(tasks, BY_MEMORY, machine.start, machine.free_mb, lambda: next(times))
        await pool.lease(Order("a"))
        with pytest.raises(EngineError, match="too little memory"):
            await pool.lease(Order("b"))
        pool.stop()


async def test_idle_processes_end_by_themselves_when_memory_gets_short() -> None:
    machine = Machine(room=3)
    async with anyio.create_task_group() as tasks:
        pool = Pool(tasks, BY_MEMORY, machine.start, machine.free_mb, machine.now)
        for name in ("a", "b"):
            await pool.give_back(await pool.lease(Order(name)))
            machine.time += 1
        machine.room = 2
        tasks.start_soon(pool.expire_for_ever)
        with anyio.fail_after(60):
            await machine.running[0].ended.wait()
        assert not machine.running[1].ended.is_set()
        tasks.cancel_scope.cancel()
