"""An outage: its pauses grow, and each kind of alarm is raised once until it ends."""

from __future__ import annotations

import pytest

from pilothouse.channels.skeleton import LONGEST_S, Outage, pause_s
from pilothouse.testing.clock import FakeClock

pytestmark = pytest.mark.anyio


def test_a_pause_doubles_up_to_its_bound() -> None:
    assert [pause_s(in_a_row) for in_a_row in (1, 2, 3, 6, 7, 5000)] == [1, 2, 4, 32, LONGEST_S, LONGEST_S]
    assert pause_s(5000, 150.0) == 150.0


def test_each_kind_of_alarm_is_raised_once_until_the_outage_ends() -> None:
    alarms: list[str] = []
    outage = Outage(FakeClock(), alarms.append)
    for kind in ("down", "token", "down"):
        outage.fail()
        outage.tell(kind, f"about {kind}")
    assert alarms == ["about down", "about token"]
    assert (outage.trouble, outage.in_a_row) == ("about token", 3)
    outage.end()
    assert (outage.trouble, outage.in_a_row) == ("", 0)
    outage.tell("down", "again")
    assert alarms[2:] == ["again"]


async def test_an_outage_lasts_from_its_first_failure_until_it_ends() -> None:
    clock = FakeClock()
    outage = Outage(clock, print)
    assert outage.end() is None
    outage.fail()
    await clock.advance(30)
    outage.fail()
    assert outage.lasted_s == 30
    outage.begin_anew()
    await clock.advance(5)
    assert (outage.end(), outage.lasted_s) == (5, 0)
