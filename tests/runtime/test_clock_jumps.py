"""The wall clock is set by an hour, forwards or back: what waits, waits as long as it would have, and no slot runs twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.runtime.puppet import PuppetEngine, Strings, echo
from tests.runtime.rig import MAIN, Rig, open_rig

from pilothouse.channels.memory import MemoryChannel
from pilothouse.core.ask import Ask
from pilothouse.core.ids import AskId, ScheduleId
from pilothouse.core.schedule import Cron, Every, Schedule
from pilothouse.runtime.asks.deadlines import Expiry
from pilothouse.runtime.schedules.scheduler import Scheduler
from pilothouse.runtime.turns.finish import JITTER_S
from pilothouse.testing.clock import FakeClock

HOUR, MINUTE = 3600.0, 60.0
JUMPS = pytest.mark.parametrize("jump_s", [HOUR, -HOUR], ids=["forwards", "back"])


async def jump(rig: Rig, clock: FakeClock, seconds: float) -> None:
    """The clock is set, everybody looks, and the next beat notices."""
    clock.jump(seconds)
    rig.poke()
    await clock.advance(3)
    await rig.until_true(lambda: any(event == "clock.jumped" for event, _ in rig.logged))
    rig.poke()


@JUMPS
async def test_an_ask_has_as_long_as_it_was_given(tmp_path: Path, jump_s: float) -> None:
    clock = FakeClock()

    async def play(strings: Strings) -> None:
        await strings.start()
        decision = await strings.ask(Ask(AskId("a"), "approval", "Run it?", {"command": "make"}))
        await strings.end(f"told: {decision.verdict}")

    async with open_rig(tmp_path, PuppetEngine(play), clock=clock, ask_timeout_s=60, lease_s=6) as rig:
        await rig.channel.say("go")
        ask = await rig.until_asked()
        await jump(rig, clock, jump_s)
        await clock.advance(50)
        rig.poke()
        row = await rig.store.read(lambda tx: tx.asks.get(ask.id))
        assert row is not None
        assert row.state == "open"
        await clock.advance(10)
        rig.poke()
        await rig.until_said("told: deny")


async def test_no_ask_expires_between_the_jump_and_the_beat_that_notices_it(tmp_path: Path) -> None:
    clock = FakeClock()

    async def play(strings: Strings) -> None:
        await strings.start()
        await strings.ask(Ask(AskId("a"), "approval", "Run it?", {"command": "make"}))

    async with open_rig(tmp_path, PuppetEngine(play), clock=clock, ask_timeout_s=60) as rig:
        await rig.channel.say("go")
        ask = await rig.until_asked()
        clock.jump(HOUR)
        assert await Expiry(rig.ports).look() == rig.ports.settings().poll_s, "it looks again soon"
        row = await rig.store.read(lambda tx: tx.asks.get(ask.id))
        assert row is not None and row.state == "open"


async def test_an_answer_counts_even_in_the_moment_of_the_jump(tmp_path: Path) -> None:
    clock = FakeClock()

    async def play(strings: Strings) -> None:
        await strings.start()
        decision = await strings.ask(Ask(AskId("a"), "approval", "Run it?", {"command": "make"}))
        await strings.end(f"told: {decision.verdict}")

    async with open_rig(tmp_path, PuppetEngine(play), clock=clock, ask_timeout_s=600) as rig:
        await rig.channel.say("go")
        ask = await rig.until_asked()
        clock.jump(HOUR)
        rig.poke()
        assert (await rig.channel.answer(ask, "allow")).accepted
        await rig.until_said("told: allow")


@JUMPS
async def test_a_retry_comes_when_it_would_have(tmp_path: Path, jump_s: float) -> None:
    clock = FakeClock()

    async def fail(strings: Strings) -> None:
        await strings.start()
        await strings.fail("transport")

    async with open_rig(tmp_path, PuppetEngine(fail, echo), clock=clock, retry_first_s=60, lease_s=6) as rig:
        await rig.channel.say("hello")
        await rig.until(lambda tx: tx.turns.of(MAIN, statuses=("parked",)))
        await jump(rig, clock, jump_s)
        await clock.advance(60)
        rig.poke()
        await rig.until_said("you said: hello")


async def test_a_reset_that_a_vendor_named_stays_where_it_is(tmp_path: Path) -> None:
    """The laptop slept for an hour: the quota was reset meanwhile."""
    clock = FakeClock()

    async def limited(strings: Strings) -> None:
        await strings.start()
        await strings.fail("quota", "The limit is reached.", clock.now() + HOUR)

    async with open_rig(tmp_path, PuppetEngine(limited, echo), clock=clock, lease_s=6) as rig:
        await rig.channel.say("hello")
        await rig.until(lambda tx: tx.turns.of(MAIN, statuses=("parked",)))
        await jump(rig, clock, HOUR)
        await clock.advance(JITTER_S)
        rig.poke()
        await rig.until_said("you said: hello")


@JUMPS
async def test_a_postponed_delivery_comes_when_it_would_have(tmp_path: Path, jump_s: float) -> None:
    clock, channel = FakeClock(), MemoryChannel(try_later=[60])
    async with open_rig(tmp_path, None, channel, clock=clock, lease_s=6, edit_every_s=60) as rig:
        await rig.channel.say("hello")
        await rig.until(lambda tx: [row for row in tx.outbox.unfinished(MAIN) if row.ready_at > 1])
        await jump(rig, clock, jump_s)
        await clock.advance(60)
        rig.poke()
        await rig.until_said("you said: hello")


@JUMPS
async def test_the_holder_of_the_engines_keeps_them(tmp_path: Path, jump_s: float) -> None:
    """Another gateway whose clock is an hour off does not take a living one for dead."""
    async with open_rig(tmp_path, name="first", lease_s=4.0) as first:
        ahead = FakeClock(first.ports.clock.now() + jump_s)
        async with open_rig(
            tmp_path, name="second", clock=ahead, standby=True, lease_s=4.0, channels={}
        ) as second:
            await first.channel.say("hello")
            await first.until_said("you said: hello")
            assert "engines.taken" not in [event for event, _ in second.logged]
            nodes = await first.store.read(lambda tx: tx.nodes.list())
            assert [node.info.name for node in nodes if "engines" in node.roles] == ["first"]


@pytest.mark.parametrize("slots", [6, -6], ids=["forwards", "back"])
@pytest.mark.parametrize("timing", ["every", "cron"])
async def test_a_schedule_runs_each_slot_once(tmp_path: Path, slots: int, timing: str) -> None:
    clock = FakeClock()
    start = clock.now()
    when = Every(MINUTE, start) if timing == "every" else Cron("* * * * *")
    async with open_rig(tmp_path, clock=clock, busy="queue", lease_s=6) as rig:
        await rig.channel.say("hello")
        await rig.until_ended()
        schedule = Schedule(
            ScheduleId("s"), MAIN, when, "tick", "all", start + MINUTE, overlap="queue", own_session=False
        )
        await rig.store.write(lambda tx: tx.schedules.save(schedule))
        scheduler = Scheduler(rig.ports)
        await clock.advance(MINUTE + 1)
        await scheduler.enqueue_due()
        await rig.until_ended(2)
        await jump(rig, clock, slots * MINUTE)
        for _ in range(12):
            await scheduler.enqueue_due()
            await clock.advance(MINUTE)
        await scheduler.enqueue_due()
        await rig.until(lambda tx: not tx.inbox.unfinished(MAIN))
        tasks = await rig.store.read(
            lambda tx: [
                row for turn in tx.turns.of(MAIN) for row in tx.inbox.of_turn(turn.id) if row.kind == "task"
            ]
        )
        ran = [float(row.key.rsplit(":", 1)[1]) for row in tasks]
        assert len(ran) == len(set(ran)), "each once"
        last = max(ran)
        assert sorted(ran) == [start + MINUTE * n for n in range(1, round((last - start) / MINUTE) + 1)], (
            "and each"
        )
        assert last <= clock.now() < last + MINUTE + 1


async def test_a_schedule_that_cannot_be_read_is_paused_and_told_and_the_others_run(tmp_path: Path) -> None:
    clock = FakeClock()
    now = clock.now()
    async with open_rig(tmp_path, clock=clock) as rig:
        await rig.channel.say("hello")
        await rig.until_ended()
        broken = Schedule(ScheduleId("broken"), MAIN, Cron("not a cron"), "x", next_at=now + 1)
        sound = Schedule(
            ScheduleId("sound"), MAIN, Every(3600, now), "tick", next_at=now + 1, own_session=False
        )
        await rig.store.write(lambda tx: (tx.schedules.save(broken), tx.schedules.save(sound)))
        await clock.advance(2)
        await rig.until_said("The task broken is paused")
        await rig.until_ended(2)
        assert "tick" in rig.engine.turns[1].prompt.text
        stored = await rig.store.read(lambda tx: tx.schedules.get(ScheduleId("broken")))
        assert stored is not None
        assert stored.paused
