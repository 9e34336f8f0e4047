"""A client that obeys the headers is never refused; one that does not is told how long to wait."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.channels.discord.raw_client import open_raw
from tests.channels.discord.server.faults import EDIT, SEND, Refusal
from tests.channels.discord.server.limits import Limits, bucket
from tests.channels.discord.server.running import Server

CHANNEL = "/channels/111111111"
MESSAGES = f"{CHANNEL}/messages"


class Time:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@given(st.lists(st.floats(0, 7), max_size=60))
def test_who_waits_for_the_reset_is_never_refused(pauses: list[float]) -> None:
    time = Time()
    limits = Limits(time)
    limits.publish()
    for pause_s in pauses:
        time.now += pause_s
        headers = limits.take("POST", MESSAGES)
        if headers["X-RateLimit-Remaining"] == "0":
            time.now += float(headers["X-RateLimit-Reset-After"])
    assert limits.refused == 0


@given(st.lists(st.floats(0, 2), max_size=60))
def test_no_window_holds_more_than_five(pauses: list[float]) -> None:
    time = Time()
    limits = Limits(time)
    limits.publish()
    taken: list[float] = []
    waits: list[float] = []
    for pause_s in pauses:
        time.now += pause_s
        try:
            limits.take("POST", MESSAGES)
        except Refusal as refusal:
            waits.append(refusal.body["retry_after"])
        else:
            taken.append(time.now)
    assert all(0 < wait_s <= 5 for wait_s in waits)
    assert max(limits.fullest.values(), default=0) <= 5
    assert all(late - early > 0 for early, late in zip(taken, taken[10:], strict=False))


def test_buckets_are_per_channel_and_per_kind_of_call() -> None:
    assert bucket("POST", MESSAGES) != bucket("POST", "/channels/222222222/messages")
    assert bucket("PATCH", f"{MESSAGES}/333333333") == bucket("PATCH", f"{MESSAGES}/444444444")
    assert bucket("PATCH", f"{MESSAGES}/333333333") != bucket("DELETE", f"{MESSAGES}/333333333")


def test_more_than_fifty_in_a_second_are_too_many_everywhere_but_for_interactions() -> None:
    limits = Limits(Time())
    limits.publish()
    for n in range(50):
        limits.take("GET", f"/channels/{n + 100000}")
    with pytest.raises(Refusal) as refused:
        limits.take("GET", CHANNEL)
    assert refused.value.body["global"] is True
    assert refused.value.headers["X-RateLimit-Global"] == "true"
    assert limits.take("POST", "/interactions/1/token/callback") == {}


async def test_the_sixth_message_is_refused_with_the_time_to_wait(server: Server) -> None:
    server.limits.set(SEND, 5, 3600)
    async with open_raw(server) as raw:
        statuses = [(await raw.send(server.world.general.id, str(n)))[0] for n in range(5)]
        assert raw.headers["X-RateLimit-Remaining"] == "0"
        status, refused = await raw.send(server.world.general.id, "6")
        assert (await raw.send(server.person().dm.id, "elsewhere"))[0] == 200
    assert (statuses, status) == ([200] * 5, 429)
    assert 0 < refused["retry_after"] <= 3600
    assert server.limits.refused == 1
    assert server.called(EDIT) == []
