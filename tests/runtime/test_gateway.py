"""The gateway's life: one holder of the engines, a bounded shutdown, and a start that recovers what was left."""

from __future__ import annotations

import os
from pathlib import Path

import anyio
import pytest
from tests.runtime.puppet import PuppetEngine, Strings, deaf, echo
from tests.runtime.rig import MAIN, Rig, only_alive, open_rig
from tests.runtime.test_busy import waiting_for

from pilothouse.channels.memory import PERSON, MemoryChannel
from pilothouse.core.channel import Desk
from pilothouse.core.errors import Fenced, RoleHeld
from pilothouse.core.event import Notice, TurnEnded
from pilothouse.core.ids import ScheduleId
from pilothouse.core.schedule import Every, Schedule
from pilothouse.runtime.gateway import LOOK_AGAIN_S
from pilothouse.testing.clock import FakeClock


async def began(strings: Strings) -> None:
    """Has run a tool when the end comes."""
    await strings.start()
    await strings.tool()
    await anyio.sleep_forever()


class SlowEngine(PuppetEngine):
    """Takes until `go` to open."""

    def __init__(self) -> None:
        super().__init__()
        self.opening = anyio.Event()
        self.go = anyio.Event()

    # pyrefly: ignore [missing-override-decorator]
    async def __aenter__(self) -> SlowEngine:
        self.opening.set()
        await self.go.wait()
        return await super().__aenter__()


async def test_a_gateway_is_ready_when_its_engines_are_open_and_its_channels_listen(tmp_path: Path) -> None:
    engine = SlowEngine()
    async with open_rig(tmp_path, engine, until_ready=False) as rig:
        await engine.opening.wait()
        await anyio.wait_all_tasks_blocked()
        assert "gateway.ready" not in [event for event, _ in rig.logged]
        engine.go.set()
        await rig.until_true(lambda: "gateway.ready" in [event for event, _ in rig.logged])
        await rig.channel.say("hello")
        await rig.until_said("you said: hello")


async def test_a_shutdown_lets_running_turns_finish_within_the_grace(tmp_path: Path) -> None:
    go = anyio.Event()
    async with open_rig(tmp_path, PuppetEngine(waiting_for(go)), grace_s=20) as rig:
        await rig.channel.say("one")
        await rig.until_true(lambda: rig.engine.turns)
        rig.gateway.stop()
        await rig.until_true(lambda: any(event == "gateway.stopping" for event, _ in rig.logged))
        go.set()
    assert rig.said() == ["the first is done"]
    assert rig.engine.open_sessions == 0


async def test_what_outlasts_the_grace_is_lost_and_its_people_are_told_before_we_leave(
    tmp_path: Path,
) -> None:
    engine = PuppetEngine(deaf)
    async with open_rig(tmp_path, engine, name="first", grace_s=0.05) as rig:
        await rig.channel.say("harmless")
        await rig.channel.say("begun", "other")
        await rig.until_true(lambda: len(engine.turns) == 2)
        engine.plays = [echo]
        for strings in engine.turns:
            if strings.prompt.text == "begun":
                await strings.say("half")
        await rig.until(lambda tx: any(turn.began for turn in tx.turns.of(statuses=("running",))))
    assert engine.open_sessions == 0
    assert "runs again by itself" in rig.said()[0]
    assert "continue" in rig.said("other")[0]
    async with open_rig(tmp_path, PuppetEngine(), name="second") as rig:
        await rig.until_said("you said: harmless")
        await rig.until_idle()
        (again,) = await rig.turns()
        assert (again.status, again.attempts) == ("done", 2)
        assert [strings.prompt.text for strings in rig.engine.turns] == ["harmless"]
        assert rig.said("other") == []


async def test_a_message_that_comes_during_the_shutdown_runs_at_the_next_start(tmp_path: Path) -> None:
    go = anyio.Event()
    async with open_rig(tmp_path, PuppetEngine(waiting_for(go)), name="first", grace_s=20) as rig:
        await rig.channel.say("one")
        await rig.until_true(lambda: rig.engine.turns)
        rig.gateway.stop()
        await rig.until_true(lambda: any(event == "gateway.stopping" for event, _ in rig.logged))
        assert (await rig.channel.say("two", "other")).state == "queued"
        assert len(rig.engine.turns) == 1
        go.set()
    async with open_rig(tmp_path, name="second") as rig:
        await rig.until_said("you said: two")


async def test_after_a_crash_what_had_not_begun_runs_again_once(tmp_path: Path) -> None:
    for name in ("first", "second"):
        async with open_rig(tmp_path, PuppetEngine(deaf), name=name, alive=only_alive(name)) as rig:
            if name == "first":
                await rig.channel.say("hello")
            await rig.until_true(lambda rig=rig: rig.engine.turns)
            rig.crash()
    async with open_rig(tmp_path, name="third", alive=only_alive("third")) as rig:
        (turn,) = await rig.until_ended()
        assert (turn.status, turn.attempts) == ("failed", 2)
        await rig.until_said("Send it again")
        assert rig.engine.turns == []
        events = [logged.event for logged in await rig.store.read(lambda tx: tx.events.of_turn(turn.id))]
        assert [event.kind for event in events if isinstance(event, Notice)] == ["restarted"]
        assert isinstance(events[-1], TurnEnded)


async def test_after_a_crash_what_had_begun_ends_and_can_be_continued(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(began), name="first") as rig:
        receipt = await rig.channel.say("hello")
        await rig.until(lambda tx: (turn := tx.turns.live_in(MAIN)) and turn.began)
        rig.crash()
    async with open_rig(tmp_path, name="second", alive=only_alive("second")) as rig:
        assert "may be done already" in await rig.until_said("continue")
        (turn,) = await rig.turns()
        assert rig.channel.sent[-1].part.data["buttons"] == [["Retry", f"/retry {turn.id}"]]
        (turn,) = await rig.until_ended()
        assert turn.status == "failed"
        assert (await rig.inbox_row(receipt)).status == "failed"
        await rig.channel.say("continue")
        await rig.until_said("you said: continue")
        assert rig.engine.briefs[0].resume is not None


async def test_a_safe_start_runs_nothing_again(tmp_path: Path) -> None:
    async with open_rig(tmp_path, PuppetEngine(deaf), name="first") as rig:
        await rig.channel.say("hello")
        await rig.until_true(lambda: rig.engine.turns)
        rig.crash()
    async with open_rig(tmp_path, name="second", alive=only_alive("second"), resume_lost=False) as rig:
        await rig.until_ended()
        assert rig.engine.turns == []


async def test_parked_turns_survive_a_restart(tmp_path: Path) -> None:
    clock = FakeClock()

    async def limited(strings: Strings) -> None:
        await strings.start()
        await strings.fail("quota", "The limit is reached.", clock.now() + 300)

    async with open_rig(tmp_path, PuppetEngine(limited), clock=clock, name="first") as rig:
        receipt = await rig.channel.say("hello")
        await rig.until(lambda tx: tx.turns.of(MAIN, statuses=("parked",)))
        rig.crash()
    async with open_rig(tmp_path, clock=clock, name="second", alive=only_alive("second")) as rig:
        await rig.until_true(lambda: any(event == "engines.taken" for event, _ in rig.logged))
        assert rig.engine.turns == []
        await clock.advance(400)
        rig.poke()
        await rig.until_said("you said: hello")
        await rig.until_idle()
        assert (await rig.inbox_row(receipt)).status == "done"


async def test_a_second_gateway_is_refused_and_told_who_holds_the_engines(tmp_path: Path) -> None:
    async with open_rig(tmp_path, name="first") as first:
        async with open_rig(tmp_path, name="second", ends_with=RoleHeld) as second:
            with anyio.fail_after(60):
                await second.over.wait()
        assert isinstance(second.error, RoleHeld)
        assert second.error.role == "engines"
        assert "first" in second.error.holder
        nodes = await first.store.read(lambda tx: tx.nodes.list())
        assert [node.info.name for node in nodes] == ["first"]
        await first.channel.say("hello")
        await first.until_said("you said: hello")


async def test_a_gateway_that_a_chat_refuses_is_told_to_close_the_chat(tmp_path: Path) -> None:
    async with open_rig(tmp_path, name="a chat", standby=True) as chat:
        nodes = await chat.store.read(lambda tx: tx.nodes.list())
        assert [set(node.roles) for node in nodes] == [{"engines", "scheduler"}]
        async with open_rig(tmp_path, name="second", ends_with=RoleHeld) as second:
            with anyio.fail_after(60):
                await second.over.wait()
        assert str(second.error) == (
            f"a chat (pid {os.getpid()} on here) already runs the engines of this store, but not its channels. "
            "Close it, then start pilothouse up again."
        )


async def test_a_standby_takes_over_when_the_first_ends(tmp_path: Path) -> None:
    second_engine = PuppetEngine()
    async with open_rig(tmp_path, PuppetEngine(deaf), name="first", grace_s=0.01) as first:
        await first.channel.say("one")
        await first.until_true(lambda: first.engine.turns)
        async with open_rig(tmp_path, second_engine, name="second", standby=True) as second:
            assert second_engine.turns == []
            first.gateway.stop()
            with anyio.fail_after(60):
                await first.over.wait()
            await second.until_said("you said: one")


async def test_a_paused_gateway_is_replaced_after_its_lease_and_can_write_nothing_any_more(
    tmp_path: Path,
) -> None:
    """Its beats stand still: its clock does, while that of the other goes on."""
    paused, awake = FakeClock(), FakeClock()
    engine, successor = PuppetEngine(deaf), PuppetEngine()
    async with (
        open_rig(tmp_path, engine, name="first", clock=paused, lease_s=1, ends_with=Fenced) as first,
        open_rig(tmp_path, successor, name="second", standby=True, clock=awake, lease_s=1) as second,
    ):
        await first.channel.say("one")
        await first.until_true(lambda: engine.turns)
        await awake.advance(0.9)
        assert "engines.taken" not in [event for event, _ in second.logged]
        await awake.advance(1.1)
        await second.until_said("you said: one")
        with pytest.raises(Fenced):
            await first.store.write(lambda tx: tx.set_fact("ghost", "boo"))
        with pytest.raises(Fenced):
            await first.gateway.desk.command(first.channel.address(), PERSON, "/new", "n")
        await paused.advance(5)
        with anyio.fail_after(60):
            await first.over.wait()
        assert engine.open_sessions == 0
        assert await second.store.read(lambda tx: tx.get_fact("ghost")) is None
        assert [turn.status for turn in await second.until_ended()] == ["done"]


class FallingChannel(MemoryChannel):
    def __init__(self, falls: int) -> None:
        super().__init__()
        self.falls = falls

    # pyrefly: ignore [missing-override-decorator]
    async def run(self, desk: Desk) -> None:
        if self.falls:
            self.falls -= 1
            raise ExceptionGroup("as a task group does", [ConnectionError("the platform hung up")])
        await super().run(desk)


async def test_a_channel_that_breaks_is_started_again_ever_more_patiently(tmp_path: Path) -> None:
    clock, channel = FakeClock(), FallingChannel(2)
    async with open_rig(tmp_path, None, channel, clock=clock) as rig:
        await rig.until_true(lambda: channel.falls == 1)
        await clock.advance(1)
        await rig.until_true(lambda: channel.falls == 0)
        await clock.advance(2)
        await rig.channel.say("hello")
        await rig.until_said("you said: hello")
    errors = [fields["error"] for event, fields in rig.logged if event == "channel.broke"]
    assert [str(error) for error in errors] == ["the platform hung up"] * 2


async def test_a_gateway_that_left_has_no_node_no_role_and_no_session(tmp_path: Path) -> None:
    async with open_rig(tmp_path, name="first") as rig:
        await rig.channel.say("hello")
        await rig.until_said("you said: hello")
    async with open_rig(tmp_path, name="second") as again:
        nodes = await again.store.read(lambda tx: tx.nodes.list())
        assert [node.info.name for node in nodes] == ["second"]
    assert rig.engine.open_sessions == 0


async def test_a_row_whose_signal_was_lost_is_found_at_the_next_look(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_rig(tmp_path, clock=clock) as rig:
        clock.on_move = lambda: None
        await rig.channel.say("hello")
        await rig.until_ended()
        schedule = Schedule(
            ScheduleId("s"),
            MAIN,
            Every(3600, clock.now()),
            "tick",
            next_at=clock.now() + 1,
            own_session=False,
        )
        await rig.store.write(lambda tx: tx.schedules.save(schedule))
        await clock.advance(LOOK_AGAIN_S)
        await rig.until_ended(2)
        assert "tick" in rig.engine.turns[1].prompt.text


async def looks_of_others(rig: Rig, ours: int) -> int:
    """How often somebody else read the store while this did so many times."""
    before = rig.store.reads
    for _ in range(ours):
        await rig.store.read(lambda tx: tx.get_fact("k"))
    return rig.store.reads - before - ours


async def test_an_idle_gateway_looks_at_the_store_only_when_woken(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_rig(tmp_path, clock=clock, poll_s=0.001) as rig:
        await rig.channel.say("hello")
        await rig.until_said("you said: hello")
        with anyio.fail_after(60):
            while await looks_of_others(rig, 50):
                pass
