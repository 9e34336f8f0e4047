"""Which process serves a session, and which make room."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilothouse.core.errors import IllegalMove
from pilothouse.engines.pool import MOVES, Limits, Member, State, choose, expired, move, next_expiry

LIMITS = Limits("Claude Code", max_processes=3, idle_timeout_s=300.0)


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
    choice = choose([member(1), member(2, session="mine")], "key-mine", "mine", None, LIMITS)
    assert (choice.reuse, choice.end) == (2, ())


def test_another_key_of_the_same_session_replaces_its_process() -> None:
    choice = choose([member(1, session="mine")], "key-other-model", "mine", None, LIMITS)
    assert (choice.reuse, choice.end) == (None, (1,))


def test_a_process_of_the_session_that_is_on_its_way_out_must_be_gone_first() -> None:
    choice = choose(
        [member(1, "ending", session="mine"), member(2, "ending")], "key-mine", "mine", None, LIMITS
    )
    assert (choice.reuse, choice.end, choice.keep) == (None, (1,), True)


def test_a_session_in_use_is_refused() -> None:
    for state in ("starting", "busy"):
        assert choose([member(1, state, session="mine")], "key-mine", "mine", None, LIMITS).refusal


def test_the_one_that_was_idle_longest_makes_room() -> None:
    members = [member(1, used_at=30.0), member(2, used_at=10.0), member(3, "busy", used_at=1.0)]
    choice = choose(members, "k", "new", None, LIMITS)
    assert (choice.end, choice.keep) == ((2,), True)


def test_where_all_are_busy_a_turn_gets_a_process_that_is_not_kept() -> None:
    members = [member(n, "busy") for n in range(3)]
    choice = choose(members, "k", "new", None, LIMITS)
    assert (choice.end, choice.keep, choice.refusal) == ((), False, "")


def test_one_with_something_in_the_background_goes_neither_for_another_nor_by_its_time() -> None:
    members = [member(1, used_at=1.0, held=True), member(2, used_at=10.0), member(3, used_at=20.0)]
    assert choose(members, "k", "new", None, LIMITS).end == (2,)
    assert expired(members, 5000.0, LIMITS) == (2, 3)
    assert next_expiry(members, LIMITS) == 310.0
    held = [member(n, held=True) for n in range(3)]
    assert choose(held, "k", "new", None, LIMITS).keep is False
    assert choose(held, "key-s1", "s1", None, LIMITS).reuse == 1, "its own session has it"


def test_one_for_a_single_turn_goes_as_soon_as_nothing_holds_it() -> None:
    assert expired([member(1, used_at=7.0, kept=False, held=True)], 8.0, LIMITS) == ()
    assert expired([member(1, used_at=7.0, kept=False)], 8.0, LIMITS) == (1,)


def test_too_little_memory_ends_idle_ones_then_refuses() -> None:
    idle = [member(1, used_at=5.0), member(2, used_at=1.0)]
    assert choose(idle, "k", "new", 300.0, LIMITS).end == (2,)
    assert "memory" in choose([member(1, "busy")], "k", "new", 300.0, LIMITS).refusal
    assert not choose([], "k", "new", 100.0, LIMITS).refusal, "alone, it may try"


def test_what_is_idle_too_long_expires() -> None:
    members = [member(1, used_at=0.0), member(2, used_at=100.0), member(3, "busy", used_at=0.0)]
    assert expired(members, 300.0, LIMITS) == (1,)
    assert next_expiry(members, LIMITS) == 300.0
    assert next_expiry([member(3, "busy")], LIMITS) is None


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
    choice = choose(there, "key-mine", "mine", free_mb, LIMITS)
    by_id = {one.id: one for one in there}
    assert all(by_id[id].state in ("idle", "ending") for id in choice.end)
    if not choice.refusal and choice.reuse is None:
        left = [one for one in there if one.id not in choice.end]
        assert not [one for one in left if one.session == "mine"]
