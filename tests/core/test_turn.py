"""The life of a turn: every move, allowed or refused, from a table of its own."""

from itertools import product

import msgspec
import pytest

from pilothouse.core.errors import IllegalMove
from pilothouse.core.ids import ConversationId, EngineId, SessionId, TurnId
from pilothouse.core.turn import (
    ENDED,
    LIVE,
    TURN_STATUSES,
    Prompt,
    Turn,
    TurnStatus,
    may_run_again,
    move_turn,
)

ALLOWED: set[tuple[TurnStatus, TurnStatus]] = {
    ("queued", "running"),
    ("queued", "cancelled"),
    ("queued", "failed"),
    ("running", "waiting"),
    ("running", "parked"),
    ("running", "lost"),
    ("running", "done"),
    ("running", "failed"),
    ("running", "cancelled"),
    ("waiting", "running"),
    ("waiting", "lost"),
    ("waiting", "failed"),
    ("waiting", "cancelled"),
    ("parked", "queued"),
    ("parked", "cancelled"),
    ("lost", "queued"),
    ("lost", "failed"),
    ("lost", "cancelled"),
}


@pytest.mark.parametrize(("status", "to"), list(product(TURN_STATUSES, repeat=2)))
def test_a_turn_moves_as_the_picture_shows(status: TurnStatus, to: TurnStatus) -> None:
    if (status, to) in ALLOWED:
        assert move_turn(status, to) == to
    else:
        with pytest.raises(IllegalMove, match=f"a turn cannot go from {status} to {to}"):
            move_turn(status, to)


def test_a_turn_is_queued_or_live_or_set_aside_or_ended() -> None:
    assert {"running", "waiting"} == LIVE
    assert {"done", "failed", "cancelled"} == ENDED
    assert set(TURN_STATUSES) == LIVE | ENDED | {"queued", "parked", "lost"}


def test_every_turn_can_still_end() -> None:
    """From wherever a turn stands, some path leads to an end: no status is a trap (law 4)."""
    for status in TURN_STATUSES:
        reached: set[TurnStatus] = {status}
        while more := {to for at, to in ALLOWED if at in reached} - reached:
            reached |= more
        assert reached & ENDED


TURN = Turn(
    TurnId("turn-1"),
    SessionId("session-1"),
    ConversationId("terminal:here"),
    EngineId("script"),
    "lost",
    "message",
    Prompt("hi"),
    created_at=0.0,
    attempts=1,
)


@pytest.mark.parametrize(
    ("attempts", "began", "stop_requested", "again"),
    [
        (0, False, False, True),
        (1, False, False, True),
        (2, False, False, False),
        (3, False, False, False),
        (1, True, False, False),
        (1, False, True, False),
        (1, True, True, False),
    ],
)
def test_a_lost_turn_is_repeated_once_and_only_if_that_is_harmless(
    attempts: int, began: bool, stop_requested: bool, again: bool
) -> None:
    turn = msgspec.structs.replace(TURN, attempts=attempts, began=began, stop_requested=stop_requested)
    assert may_run_again(turn) is again
