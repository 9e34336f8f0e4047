"""Setbacks of the connection: the pauses after them, and how they are reported."""

from __future__ import annotations

from pilothouse.channels.discord.connection import Setback, Setbacks
from pilothouse.channels.skeleton import LOUD_S
from pilothouse.testing.clock import FakeClock

DAY_S = 86_400.0
SESSIONS_A_DAY = 1000
"""What Discord lets a bot begin before it takes its token away."""


def silent(event: str, **fields: object) -> None:
    pass


def test_a_missing_intent_that_nobody_switches_on_never_costs_the_token() -> None:
    setbacks = Setbacks(FakeClock(), silent, silent, place="here")
    tries, passed_s = 0, 0.0
    while passed_s < DAY_S:
        passed_s += setbacks.wait_s(Setback("intent"))
        tries += 1
    assert tries < SESSIONS_A_DAY


def test_a_network_that_is_down_is_tried_ever_less_often_and_at_once_again_after_it_was_up() -> None:
    setbacks = Setbacks(FakeClock(), silent, silent, place="here")
    waits = [setbacks.wait_s(Setback("down")) for _ in range(9)]
    assert waits == sorted(waits)
    setbacks.over()
    assert setbacks.wait_s(Setback("down")) == waits[0]


async def test_setbacks_of_two_kinds_by_turns_are_one_trouble_and_each_is_told_once() -> None:
    clock, alarms = FakeClock(), list[str]()
    setbacks = Setbacks(clock, silent, alarms.append, place="here")
    passed_s = 0.0
    while passed_s < 3 * LOUD_S:
        for setback in (Setback("down", "timeout"), Setback("token")):
            wait_s = setbacks.wait_s(setback)
            await clock.advance(wait_s)
            passed_s += wait_s
    assert [sum(words in alarm for alarm in alarms) for words in ("refuses", "could not be reached")] == [
        1,
        1,
    ]
    setbacks.over()
    setbacks.wait_s(Setback("token"))
    assert len(alarms) == 3


def test_sessions_that_never_hold_never_cost_the_token() -> None:
    setbacks = Setbacks(FakeClock(), silent, silent, place="here")
    tries, passed_s = 0, 0.0
    while passed_s < DAY_S:
        setbacks.ready()
        passed_s += setbacks.wait_s(Setback("short", began=True), at_once=True)
        tries += 1
    assert tries < SESSIONS_A_DAY


def test_what_did_not_hold_is_well_only_once_it_held_and_a_network_once_it_is_back() -> None:
    told: list[str] = []
    setbacks = Setbacks(FakeClock(), silent, told.append, place="here")
    for _ in range(9):
        setbacks.wait_s(Setback("short", "closed"), at_once=True)
        setbacks.ready()
    assert told == [setbacks.trouble]
    setbacks.over()
    setbacks.wait_s(Setback("token"))
    assert setbacks.trouble
    setbacks.ready()
    assert setbacks.trouble == ""
