"""All requests together stay below what Discord takes in a second; what must be fast does not wait for it."""

from __future__ import annotations

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from pilothouse.channels.discord.pace import ALL_AT_ONCE, Pace
from pilothouse.testing.clock import FakeClock

DISCORD_TAKES = 50
MESSAGES, ACKNOWLEDGE = "/api/v10/channels/1/messages", "/api/v10/interactions/1/token/callback"


class Hands(FakeClock):
    """Set without waiting for anybody: nobody sleeps here."""

    at = 1000.0

    @override
    def monotonic(self) -> float:
        return self.at


@given(st.lists(st.floats(0, 0.5), max_size=300))
def test_no_second_holds_more_requests_than_discord_takes(pauses: list[float]) -> None:
    clock = Hands()
    pace = Pace(clock)
    left_at: list[float] = []
    for pause_s in pauses:
        clock.at += pause_s
        left_at.append(clock.monotonic() + pace.take_room_s())
    assert left_at == sorted(left_at), "who comes first goes first"
    for began in left_at:
        assert sum(began <= at < began + 1.0 for at in left_at) < DISCORD_TAKES


@given(st.integers(0, ALL_AT_ONCE))
def test_a_few_requests_never_wait(count: int) -> None:
    pace = Pace(FakeClock())
    assert [pace.take_room_s() for _ in range(count)] == [0.0] * count
    assert pace.is_crowded == (count == ALL_AT_ONCE)


@pytest.mark.anyio
async def test_an_acknowledgement_waits_for_nobody_and_a_message_does() -> None:
    clock = FakeClock()
    pace = Pace(clock)
    for _ in range(ALL_AT_ONCE):
        await pace.take_room(MESSAGES)
    await pace.take_room(ACKNOWLEDGE)
    gone: list[str] = []

    async def send() -> None:
        await pace.take_room(MESSAGES)
        gone.append(MESSAGES)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(send)
        await anyio.wait_all_tasks_blocked()
        assert gone == []
        await clock.advance(2.0)
    assert gone == [MESSAGES]
