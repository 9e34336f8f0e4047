"""Schedules in a running gateway: their own session, their answers, their limits, and what people are told."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
from tests.runtime.puppet import PUPPET, PuppetEngine, Strings
from tests.runtime.rig import ADMIN, MAIN, MEMBER, Rig, only_alive, open_rig

from pilothouse.channels.memory import MEMORY, PERSON
from pilothouse.core.ask_view import headline
from pilothouse.core.budget import Caps
from pilothouse.core.conversation import Conversation
from pilothouse.core.errors import ConfigError
from pilothouse.core.event import ResumeToken, TurnEnded
from pilothouse.core.ids import AskId, ScheduleId, UserId
from pilothouse.core.message import Address
from pilothouse.core.people import Grant, People
from pilothouse.core.policy import Ask, Ruling, Site
from pilothouse.core.schedule import At, Run, Schedule, task_place
from pilothouse.core.store import Tx
from pilothouse.runtime.conversations.binding import Wishes, keep_wishes
from pilothouse.runtime.ports import OUTBOX, SCHEDULES, ScriptEnd
from pilothouse.runtime.schedules.operations import (
    MAX_PER_PLACE,
    NewSchedule,
    ScheduleChange,
    add_schedule,
    cancel_schedule,
    pause_schedule,
    resume_schedule,
    run_now,
    update_schedule,
)
from pilothouse.runtime.schedules.script import ScriptRuling, judge_script
from pilothouse.runtime.trust import trust, untrust
from pilothouse.testing.clock import FakeClock

pytestmark = pytest.mark.anyio

STEP, HOUR, DAY = 60.0, 3600.0, 86_400.0
ALLOWED = ScriptRuling("allow")


async def echo(strings: Strings) -> None:
    await strings.start(strings.brief.session_id)
    await strings.end(f"done: {strings.prompt.text}")


async def fail(strings: Strings) -> None:
    await strings.start()
    await strings.fail("bad_request", "The disk is full.")


async def add(rig: Rig, prompt: str = "tick", ruling: ScriptRuling = ALLOWED, **wish: Any) -> Schedule:
    values: dict[str, Any] = {"every": "1m", "by": PERSON.id}
    new = NewSchedule(conversation_id=MAIN, prompt=prompt, **(values | wish))
    ports = rig.ports
    done = await rig.store.write(
        lambda tx: add_schedule(tx, ports.ids, ports.settings(), new, ports.clock.now(), ruling=ruling)
    )
    ports.signals.poke(SCHEDULES, OUTBOX)
    return done.schedule


async def until_runs(rig: Rig, schedule: Schedule, *states: str) -> list[Run]:
    """The runs, oldest first, once they are in these states."""

    def settled(tx: Tx) -> list[Run] | None:
        runs = tx.schedules.runs(schedule.id, limit=1000)[::-1]
        return runs if tuple(run.state for run in runs) == states else None

    return await rig.until(settled)


async def hello(rig: Rig) -> None:
    await rig.channel.say("hello")
    await rig.until_ended()


async def test_a_schedule_runs_in_its_own_session_and_answers_where_it_was_made(tmp_path: Path) -> None:
    clock, busy = FakeClock(), anyio.Event()

    async def chat(strings: Strings) -> None:
        await strings.start("chat")
        await busy.wait()
        await strings.end("chatted")

    async with open_rig(tmp_path, PuppetEngine(echo, chat, echo, echo), clock=clock, hang_after_s=DAY) as rig:
        await hello(rig)
        await rig.store.write(lambda tx: keep_wishes(tx, MAIN, Wishes(approval_mode="minimal")))
        task = await add(rig, "look at *the* PRs")
        await rig.channel.say("a long talk")
        await rig.until_live()
        await clock.advance(STEP)
        await rig.until_said("⏰ look at the PRs")  # although the chat is busy
        await until_runs(rig, task, "ran")
        busy.set()
        await rig.until_said("chatted")
        await clock.advance(STEP)
        await until_runs(rig, task, "ran", "ran")
        place = task_place(MAIN, task.id)
        first, second = await rig.turns(place)
        assert (first.cause, second.cause) == ("schedule", "schedule")
        assert "[SCHEDULED TASK]\n\nInstructions:\nlook at *the* PRs" in first.prompt.text
        main = {turn.session_id for turn in await rig.turns()}
        assert len({first.session_id, second.session_id} - main) == 2, "a new session for each run"
        sessions = [brief.session_id for brief in rig.engine.briefs]
        modes = [brief.approval_mode for brief in rig.engine.briefs if brief.session_id not in main]
        assert sessions and set(modes) == {"minimal"}
        stored = await rig.store.read(lambda tx: tx.conversations.get(MAIN))
        assert stored is not None and stored.session_id in main, "the chat keeps its session"


async def test_a_task_of_a_private_chat_asks_there_once_and_answers_once(tmp_path: Path) -> None:
    clock = FakeClock()
    make = Ask(AskId("a"), "approval", "Run make?", {"tool": "Bash", "input": {"command": "make"}})

    async def asking(strings: Strings) -> None:
        await strings.start()
        decision = await strings.ask(make)
        await strings.end(f"told: {decision.verdict}")

    async with open_rig(tmp_path, PuppetEngine(echo, asking), clock=clock, hang_after_s=DAY) as rig:
        await hello(rig)
        task = await add(rig, "look at the PRs", by="")
        await clock.advance(STEP)
        ask = await rig.until_asked(conversation=task_place(MAIN, task.id))
        (asked,) = [text for text in rig.said() if "make" in text]
        assert "⏰ Task: look at the PRs" in asked and "Also sent to" not in asked
        await rig.channel.answer(ask, "allow")
        await until_runs(rig, task, "ran")
        await rig.until_said("told: allow")
        await rig.until(lambda tx: not tx.outbox.channels_waiting())
        assert len([text for text in rig.said() if "told: allow" in text]) == 1


async def test_tasks_that_are_over_do_not_count_as_those_that_a_conversation_may_have(tmp_path: Path) -> None:
    async with open_rig(tmp_path, clock=FakeClock()) as rig:
        await hello(rig)
        now = rig.ports.clock.now()
        over = [Schedule(ScheduleId(f"over-{n}"), MAIN, At(now), "tick") for n in range(MAX_PER_PLACE)]
        await rig.store.write(lambda tx: [tx.schedules.save(one) for one in over])
        first = await add(rig, "look around")
        paused = [msgspec.structs.replace(one, paused=True) for one in over[1:]]
        await rig.store.write(lambda tx: [tx.schedules.save(one) for one in paused])
        with pytest.raises(ConfigError, match="which is the most"):
            await add(rig, "look again")
    assert first.next_at


@pytest.mark.parametrize("wish", [{"cron": "0 9 * * *", "every": ""}, {"every": "2h"}])
async def test_a_first_run_that_is_ahead_stays_after_a_pause_and_in_another_zone(
    tmp_path: Path, wish: dict[str, Any]
) -> None:
    clock = FakeClock()
    async with open_rig(tmp_path, clock=clock) as rig:
        await hello(rig)
        task, ports = await add(rig, at="30d", **wish), rig.ports
        await rig.store.write(lambda tx: pause_schedule(tx, task.id, clock.now()))
        await clock.advance(DAY)
        resumed = await rig.store.write(lambda tx: resume_schedule(tx, task.id, clock.now()))
        there = ScheduleChange(zone="Europe/Berlin")
        changed = await rig.store.write(
            lambda tx: update_schedule(tx, ports.ids, ports.settings(), task.id, there, clock.now())
        )
        hourly = ScheduleChange(every="1h")
        rearmed = await rig.store.write(
            lambda tx: update_schedule(tx, ports.ids, ports.settings(), task.id, hourly, clock.now())
        )
    assert task.next_at == resumed.schedule.next_at == changed.schedule.next_at
    assert changed.schedule.zone == "Europe/Berlin"
    assert rearmed.schedule.next_at == clock.now() + HOUR, "a changed recurrence counts at once"


async def test_a_cron_that_has_begun_means_the_hours_of_a_new_zone(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_rig(tmp_path, clock=clock) as rig:
        await hello(rig)
        task, ports = await add(rig, cron="0 9 * * *", every="", zone="UTC"), rig.ports
        there = ScheduleChange(zone="Etc/GMT-1")
        changed = await rig.store.write(
            lambda tx: update_schedule(tx, ports.ids, ports.settings(), task.id, there, clock.now())
        )
    assert task.next_at is not None
    assert changed.schedule.next_at in (task.next_at - HOUR, task.next_at - HOUR + DAY)


async def test_a_schedule_has_a_budget_of_its_own_beside_that_of_its_chat(tmp_path: Path) -> None:
    clock = FakeClock()

    async def cost(strings: Strings) -> None:
        await strings.start(strings.brief.session_id)
        await strings.end("done", cost_usd=0.4)

    caps = Caps(conversation_usd=0.5, least_usd=0.4)
    async with open_rig(tmp_path, PuppetEngine(cost), clock=clock, caps=caps) as rig:
        await hello(rig)
        task = await add(rig, "look around")
        await rig.channel.say("again")
        await rig.until_said("Held: $0.10 of $0.50 are left")
        await clock.advance(STEP)
        await until_runs(rig, task, "ran")
        await clock.advance(STEP)
        place = task_place(MAIN, task.id)
        await rig.until(lambda tx: [row for row in tx.asks.open_in(place) if row.topic] or None)
        assert len([turn for turn in await rig.turns(place) if turn.status == "done"]) == 1


async def test_failures_are_told_and_three_in_a_row_ask_to_pause_it(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_rig(tmp_path, PuppetEngine(echo, fail, fail, fail), clock=clock) as rig:
        await hello(rig)
        task = await add(rig)
        for done in range(1, 4):
            await clock.advance(STEP)
            runs = await until_runs(rig, task, *["failed"] * done)
            assert "The disk is full." in runs[-1].why
        ask = await rig.until_asked("failed three times in a row")
        assert (await rig.channel.answer(ask, "allow")).accepted
        await rig.until_said(f"Paused {task.id}")
        await clock.advance(3 * STEP)
        assert len(await until_runs(rig, task, "failed", "failed", "failed")) == 3


@pytest.mark.parametrize(
    ("missed", "expected"),
    [
        ("skip", ["skipped"] * 24),
        ("once", ["skipped"] * 23 + ["ran"]),
        ("all", ["skipped"] * 2 + ["ran"] * 22),
    ],
)
async def test_a_day_off_is_made_up_for_as_the_schedule_says_and_told(
    tmp_path: Path, missed: Any, expected: list[str]
) -> None:
    """The oldest two of `all` are older than the maximum age."""
    clock = FakeClock()
    async with open_rig(tmp_path, PuppetEngine(echo), clock=clock, name="first") as rig:
        await hello(rig)
        task = await add(rig, every="1h", missed=missed, max_age_s=21.6 * HOUR)
    clock = FakeClock(clock.now() + DAY + 0.5 * HOUR)
    async with open_rig(tmp_path, PuppetEngine(*[echo] * 30), clock=clock, name="second") as rig:
        runs = await until_runs(rig, task, *expected)
        assert [run.slot for run in runs] == [task.created_at + n * HOUR for n in range(1, 25)]
        count = expected.count("skipped")
        await rig.until_said(f"{count} runs were missed")
        assert sum("were missed" in text for text in rig.said()) == 1
        stored = await rig.store.read(lambda tx: tx.schedules.get(task.id))
        assert stored is not None and stored.next_at == task.created_at + 25 * HOUR


@pytest.mark.parametrize(("overlap", "then"), [("skip", "skipped"), ("queue", "ran")])
async def test_a_run_beside_an_unfinished_one_is_skipped_or_queued(
    tmp_path: Path, overlap: Any, then: str
) -> None:
    clock, go = FakeClock(), anyio.Event()

    async def slow(strings: Strings) -> None:
        await strings.start("slow")
        await go.wait()
        await strings.end("slowly done")

    async with open_rig(tmp_path, PuppetEngine(echo, slow, echo), clock=clock, hang_after_s=DAY) as rig:
        await hello(rig)
        task = await add(rig, overlap=overlap)
        await clock.advance(STEP)
        await rig.until_live(task_place(MAIN, task.id))
        await clock.advance(STEP)
        second = "waiting" if overlap == "queue" else then
        runs = await until_runs(rig, task, "waiting", second)
        assert runs[1].why == ("" if overlap == "queue" else "the run before has not ended")
        go.set()
        await until_runs(rig, task, "ran", then)


async def test_pause_resume_update_and_remove_reach_what_has_not_begun(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_rig(tmp_path, PuppetEngine(echo, echo), clock=clock, max_turns_at_once=0) as rig:
        await rig.store.write(
            lambda tx: tx.conversations.ensure(Conversation(MAIN, Address(MEMORY, "main"), 1.0))
        )
        task, ports = await add(rig), rig.ports
        await clock.advance(STEP)
        await until_runs(rig, task, "waiting")  # there is no place to run
        changed = ScheduleChange(prompt="tock", every="2m")
        await rig.store.write(
            lambda tx: update_schedule(tx, ports.ids, ports.settings(), task.id, changed, clock.now())
        )
        (row,) = await rig.store.read(lambda tx: tx.inbox.waiting(task_place(MAIN, task.id)))
        assert b"tock" in bytes(row.body)
        stored = await rig.store.read(lambda tx: tx.schedules.get(task.id))
        assert stored is not None and stored.next_at == clock.now() + 2 * STEP, "it counts at once"
        await rig.store.write(lambda tx: pause_schedule(tx, task.id, clock.now()))
        (run,) = await until_runs(rig, task, "skipped")
        assert run.why == "its task was paused"
        await clock.advance(5 * STEP)
        await rig.store.write(lambda tx: resume_schedule(tx, task.id, clock.now()))
        await rig.store.write(lambda tx: run_now(tx, ports.ids, ports.settings(), task.id, clock.now()))
        await until_runs(rig, task, "skipped", "waiting")  # nothing of the pause runs
        await rig.store.write(lambda tx: cancel_schedule(tx, task.id[-4:], clock.now()))
        runs = await rig.store.read(lambda tx: tx.schedules.runs(task.id))
        assert [run.why for run in runs] == ["its task was removed", "its task was paused"]
        assert await rig.store.read(lambda tx: tx.schedules.of()) == []


async def test_a_schedule_of_somebody_who_lost_access_does_not_run(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_rig(tmp_path, PuppetEngine(echo, echo), clock=clock) as rig:
        await hello(rig)
        guest = UserId("memory:guest")
        await rig.store.write(lambda tx: tx.people.grant(Grant(guest, "member")))
        task = await add(rig, by=guest)
        await clock.advance(STEP)
        await until_runs(rig, task, "ran")
        await rig.store.write(lambda tx: tx.people.revoke(guest))
        await clock.advance(STEP)
        runs = await until_runs(rig, task, "ran", "skipped")
        assert "no longer has access" in runs[1].why


class Scripts:
    """Ends of scripts, one after the other; the last one again and again."""

    def __init__(self, *ends: ScriptEnd) -> None:
        self.ends = list(ends)
        self.ran: list[tuple[str, str]] = []

    async def __call__(self, script: str, folder: str, within_s: float, most_bytes: int) -> ScriptEnd:
        self.ran.append((script, folder))
        return self.ends.pop(0) if len(self.ends) > 1 else self.ends[0]


def printed(line: str) -> ScriptEnd:
    return ScriptEnd(line.encode(), exit_code=0)


async def test_a_script_decides_whether_a_model_is_called(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_rig(tmp_path, PuppetEngine(echo, echo), clock=clock) as rig:
        rig.ports.run_script = scripts = Scripts(
            printed('{"wakeAgent": false}'), printed('{"wakeAgent": true, "data": {"prs": [1]}}')
        )
        await hello(rig)
        task = await add(rig, "review", script="gh pr list")
        await clock.advance(STEP)
        (run,) = await until_runs(rig, task, "ran")
        assert (run.why, len(rig.engine.turns)) == ("its script found nothing to do", 1)
        await clock.advance(STEP)
        await until_runs(rig, task, "ran", "ran")
        text = rig.engine.turns[1].prompt.text
        assert '[SCHEDULED TASK]\n\nScript output:\n{"prs":[1]}\n\nInstructions:\nreview' in text
        assert scripts.ran == [("gh pr list", str(tmp_path))] * 2


async def test_before_a_script_runs_the_trust_in_its_folder_is_checked(tmp_path: Path) -> None:
    clock, noted = FakeClock(), list[tuple[str, bool, bool]]()

    def note(real: str, trusted: bool, jail: bool) -> None:
        noted.append((real, trusted, jail))

    async with open_rig(tmp_path, PuppetEngine(echo), clock=clock, note_trust=note) as rig:
        rig.ports.run_script = scripts = Scripts(printed('{"wakeAgent": false}'))
        await hello(rig)
        task = await add(rig, "review", script="gh pr list")
        await rig.store.write(lambda tx: trust(tx, str(tmp_path), "ann", 1.0))
        await clock.advance(STEP)
        await until_runs(rig, task, "ran")
        await rig.store.write(lambda tx: untrust(tx, str(tmp_path), "ann", 2.0))
        await clock.advance(STEP)
        await until_runs(rig, task, "ran", "ran")
        assert len(scripts.ran) == 2
        real = os.path.realpath(tmp_path)
        assert noted[-2:] == [(real, True, False), (real, False, False)]


async def test_a_failing_script_is_told_once_until_it_changes_or_succeeds(tmp_path: Path) -> None:
    clock = FakeClock()
    bad, worse = ScriptEnd(stderr="12:01 no route", exit_code=7), ScriptEnd(problem="it took too long")
    later = ScriptEnd(stderr="12:02 no route", exit_code=7)
    async with open_rig(tmp_path, PuppetEngine(echo), clock=clock) as rig:
        rig.ports.run_script = Scripts(bad, later, worse, printed('{"wakeAgent":false}'), bad, printed("?"))
        await hello(rig)
        task = await add(rig, "watch", script="check")
        told: list[int] = []
        for count in range(1, 7):
            await clock.advance(STEP)
            await rig.until(partial(_has_ended, task=task, count=count))
            await rig.until_idle()
            told.append(sum("The script of the task" in text for text in rig.said()))
        assert told == [1, 1, 2, 2, 3, 4]
        await rig.until_said("12:01 no route")
        await rig.until_said("its last line is ?, and not JSON with wakeAgent")


def _has_ended(tx: Tx, *, task: Schedule, count: int) -> bool:
    return sum(run.ended_at is not None for run in tx.schedules.runs(task.id)) == count


class Rules:
    async def judge(self, ask: Ask, site: Site) -> Ruling:
        command = ask.payload["input"]["command"]
        return Ruling("deny", "no") if "rm" in command else Ruling("ask", "no rule matches")


async def test_a_script_that_needs_approval_runs_only_after_a_yes_and_only_as_it_was_shown(
    tmp_path: Path,
) -> None:
    clock = FakeClock()
    async with open_rig(tmp_path, PuppetEngine(echo), clock=clock, policy=Rules()) as rig:
        rig.ports.run_script = scripts = Scripts(printed('{"wakeAgent":false}'))
        await hello(rig)
        ruling = await judge_script(rig.ports, "curl x", str(tmp_path), "minimal")
        task = await add(rig, "watch", ruling, script="curl x", by=MEMBER.id)
        ask = await rig.until_asked("run this script")
        await rig.until_said("curl x")
        await clock.advance(STEP)
        (run,) = await until_runs(rig, task, "skipped")
        assert run.why == "its script is not approved" and scripts.ran == []
        assert not (await rig.channel.answer(ask, "allow", author=MEMBER)).accepted
        assert (await rig.channel.answer(ask, "allow", author=ADMIN)).accepted
        await rig.until_said("is approved")
        await clock.advance(STEP)
        await until_runs(rig, task, "skipped", "ran")
        ports, changed = rig.ports, ScheduleChange(script="curl y")
        await rig.store.write(
            lambda tx: update_schedule(tx, ports.ids, ports.settings(), task.id, changed, clock.now())
        )
        await clock.advance(STEP)
        await until_runs(rig, task, "skipped", "ran", "skipped")
        assert len(scripts.ran) == 1
        denied = await judge_script(rig.ports, "rm -rf ~", str(tmp_path), "minimal")
        with pytest.raises(Exception, match="may not run"):
            await add(rig, "clean", denied, script="rm -rf ~")


@pytest.mark.parametrize(("word", "told"), [("yes", "is approved"), ("no", "so the task is paused")])
async def test_a_typed_word_answers_the_ask_about_a_script(tmp_path: Path, word: str, told: str) -> None:
    async with open_rig(tmp_path, PuppetEngine(echo), policy=Rules()) as rig:
        await hello(rig)
        ruling = await judge_script(rig.ports, "curl x", str(tmp_path), "minimal")
        await add(rig, "watch", ruling, script="curl x")
        await rig.until_asked("run this script")
        await rig.channel.say(word)
        await rig.until_said(told)
        assert len(await rig.turns()) == 1, "it was no message for the agent"


async def test_tasks_are_managed_in_a_chat(tmp_path: Path) -> None:
    clock = FakeClock()
    async with open_rig(tmp_path, PuppetEngine(echo, echo), clock=clock) as rig:
        await rig.channel.say("/tasks")
        await rig.until_said("No tasks here. To add one:")
        await rig.channel.say("/tasks add 0 9 * * 1-5 Review open PRs")
        added = await rig.until_said("Next: today at 09:00")
        id = added.split()[1].strip(".")
        await rig.channel.say("/tasks add 0 9 * * 1-5 Review open PRs")
        await rig.until_said(f"This task exists already: {id}")
        await rig.channel.say("/tasks list")
        await rig.until_said(f"· Review open PRs\n  0 9 * * 1-5 (UTC), next today at 09:00 · {id}")
        await rig.channel.say(f"/tasks pause {id}", author=MEMBER)
        await rig.until_said("Only an admin may do that here.")
        await rig.channel.say(f"/tasks edit {id} every 2h")
        await rig.until_said(f"Changed {id}. Next: today at 10:00")
        await rig.channel.say(f"/tasks run {id}")
        await rig.until_said("done: ")
        await rig.until(lambda tx: tx.schedules.runs()[0].state == "ran")
        await rig.channel.say(f"/tasks log {id}")
        await rig.until_said("today at 08:00 – ran")
        await rig.channel.say(f"/tasks remove {id}")
        await rig.until_said(f"Removed {id}: Review open PRs")
        await rig.channel.say("/tasks add in 1m")
        await rig.until_said("A task needs a time and words.")
        await rig.channel.say("/tasks pause nonsense")
        await rig.until_said("There is no task 'nonsense'. There are no tasks.")
        assert await rig.turns(MAIN) == []


async def test_a_running_task_is_stopped_and_its_ask_answered_from_the_chat(tmp_path: Path) -> None:
    clock = FakeClock()
    make = Ask(
        AskId("a"), "approval", "Run make?", {"tool": "Bash", "input": {"command": "make"}, "cwd": "/w"}
    )

    async def asks(strings: Strings) -> None:
        await strings.start("asks")
        await strings.end(f"told: {(await strings.ask(make)).verdict}")

    async def hangs(strings: Strings) -> None:
        await strings.start("hangs")
        await strings.interrupted.wait()
        await strings.emit(TurnEnded("cancelled"))

    async with open_rig(tmp_path, PuppetEngine(echo, asks, hangs), clock=clock, hang_after_s=DAY) as rig:
        await hello(rig)
        task = await add(rig)
        place = task_place(MAIN, task.id)
        await clock.advance(STEP)
        asked = await rig.until_asked(conversation=place)
        shown = next(posted for posted in rig.channel.sent if headline(asked) in posted.text)
        await rig.channel.say("yes", reply_to=shown.ref)
        await rig.until_said("told: allow")
        await until_runs(rig, task, "ran")
        await clock.advance(STEP)
        await rig.until_live(place)
        await rig.channel.say("/stop")
        await rig.until_said("Stopping this run of the task: tick")
        rig.poke(place)
        runs = await until_runs(rig, task, "ran", "ran")
        assert runs[1].why == "it was stopped"


async def test_a_task_that_a_crash_cut_goes_on_in_its_own_session_and_the_chat_in_its_own(
    tmp_path: Path,
) -> None:
    clock = FakeClock()

    async def works(strings: Strings) -> None:
        await strings.start("task")
        await strings.tool()
        await anyio.sleep_forever()

    first = PuppetEngine(echo, works)
    async with open_rig(tmp_path, first, clock=clock, name="first", hang_after_s=DAY) as rig:
        await hello(rig)
        task = await add(rig, "tidy up", every="", at="1m")
        place = task_place(MAIN, task.id)
        await clock.advance(STEP)
        await rig.until(lambda tx: [turn for turn in tx.turns.of(place) if turn.began])
        rig.crash()
    second, alive = PuppetEngine(echo, echo), only_alive("second")
    async with open_rig(tmp_path, second, clock=clock, name="second", alive=alive) as rig:
        (lost,) = await rig.until_ended(1, place)
        told = await rig.until_said("⏰ tidy up\n\nPilothouse stopped in the middle of this task.")
        assert f"/retry {lost.id} goes on in its own session" in told
        await rig.channel.say("continue")
        chat = await rig.until_ended(2)
        await rig.channel.say("/retry")
        await rig.until_said("Nothing failed here")
        await rig.channel.say(f"/retry {lost.id}")
        await rig.until_said("⏰ tidy up\n\ndone: Continue.")
        again = (await rig.until_ended(2, place))[-1]
        assert again.session_id == lost.session_id not in {turn.session_id for turn in chat}
        assert second.turns[-1].brief.resume == ResumeToken(PUPPET, "task", str(tmp_path))
        await rig.channel.say(f"/retry {lost.id}")
        await rig.until_said("That task has run again since.")


async def test_a_failed_task_is_retried_from_its_chat_alone_and_by_people_of_its_folder(
    tmp_path: Path,
) -> None:
    clock = FakeClock()

    async def crash(strings: Strings) -> None:
        await strings.start("task")
        await strings.tool()
        await strings.fail("crash", "The program died.")

    here = People({PERSON.id: "owner"}, {str(tmp_path / "chat"): {MEMBER.id: "member"}})
    folder = tmp_path / "chat"
    folder.mkdir()
    engine = PuppetEngine(echo, crash, echo)
    async with open_rig(tmp_path, engine, clock=clock, default_workspace=str(folder), people=here) as rig:
        await hello(rig)
        task = await add(rig, "tidy up", every="", at="1m")
        elsewhere = msgspec.structs.replace(task, workspace=str(tmp_path))
        await rig.store.write(lambda tx: tx.schedules.save(elsewhere))
        await clock.advance(STEP)
        (failed,) = await rig.until_ended(1, task_place(MAIN, task.id))
        await rig.until_said(f"The program died. /retry {failed.id} tries again.")
        await rig.channel.say(f"/retry {failed.id}", author=MEMBER)
        await rig.until_said("You have no access to the folder of that task.")
        await rig.channel.say(f"/retry {failed.id}", "another")
        await rig.until_said("Nothing failed here")
        await rig.channel.say(f"/retry {failed.id}")
        await rig.until_said("done: Continue.")
