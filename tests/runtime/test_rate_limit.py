"""How fast one person may send: the rest is refused with the time to try again, and nobody else notices."""

from __future__ import annotations

from pathlib import Path

from tests.runtime.puppet import PuppetEngine, until_interrupted
from tests.runtime.rig import MEMBER, open_rig

from pilothouse.core.ids import UserId
from pilothouse.runtime.inbox.intake import SWEEP_AT, RateLimit
from pilothouse.testing.clock import FakeClock


async def test_a_message_too_many_is_refused_and_told_when_it_may_come_again(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_rig(tmp_path, clock=clock, messages_per_minute=3) as rig:
        for _ in range(3):
            assert (await rig.channel.say("hello")).state == "queued"
        refused = await rig.channel.say("hello")
        assert refused.state == "refused"
        assert "limit: 3 messages a minute" in refused.text and "again in 20 s" in refused.text
        assert (await rig.channel.say("hello", "another-place")).state == "refused", (
            "it is the person, not the place"
        )
        assert (await rig.channel.say("hello", author=MEMBER)).state == "queued"
        await clock.advance(20)
        assert (await rig.channel.say("hello")).state == "queued"


async def test_what_a_platform_brings_twice_counts_once_and_is_no_refusal(tmp_path: Path) -> None:
    async with open_rig(tmp_path, messages_per_minute=2) as rig:
        assert (await rig.channel.say("hello", native_id="one")).state == "queued"
        assert (await rig.channel.say("hello", native_id="one")).state == "duplicate"
        assert (await rig.channel.say("hello", native_id="two")).state == "queued"
        assert (await rig.channel.say("hello", native_id="two")).state == "duplicate"
        assert (await rig.channel.say("hello", native_id="three")).state == "refused"


async def test_stop_always_passes(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(until_interrupted), messages_per_minute=1) as rig:
        await rig.channel.say("go")
        await rig.until_live()
        assert (await rig.channel.say("/status")).state == "refused"
        assert (await rig.channel.say("/stop")).state == "queued"
        (turn,) = await rig.until_ended()
        assert turn.status == "cancelled"


async def test_without_a_limit_everybody_may_send_as_they_like(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        receipts = [await rig.channel.say("hello") for _ in range(100)]
        assert {receipt.state for receipt in receipts} == {"queued"}


def test_those_who_are_paid_off_are_forgotten() -> None:
    limit = RateLimit()
    for number in range(SWEEP_AT):
        assert limit.refusal(UserId(f"u{number}"), 1, 0.0) == ""
    assert limit.refusal(UserId("u0"), 1, 1.0), "one that is not paid off is remembered"
    assert limit.refusal(UserId("new"), 1, 100.0) == ""
    assert len(limit._free_at) == 1
