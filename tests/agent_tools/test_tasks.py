"""Tasks that an agent schedules, and pull requests that it watches: what starts turns later."""

from __future__ import annotations

import re
from pathlib import Path

from tests.agent_tools.agent import Agent, Stage
from tests.runtime.rig import MAIN, open_rig

from pilothouse.channels.memory import PERSON
from pilothouse.core.ask import Ask
from pilothouse.core.call import Call
from pilothouse.core.ids import AskId, ScheduleId
from pilothouse.core.policy import Site, parse_rule
from pilothouse.core.schedule import task_place
from pilothouse.core.store import Tx
from pilothouse.runtime.commands.watch import addresses_watching
from pilothouse.runtime.conversations.binding import pick_mode
from pilothouse.runtime.schedules.operations import NewSchedule, add_schedule
from pilothouse.testing.clock import FakeClock
from pilothouse.testing.policy import FixedPolicy

NARROW = ScheduleId("task-narrow")


async def test_an_agent_schedules_changes_and_removes_a_task(tmp_path: Path) -> None:
    told: list[str] = []

    async def scene(agent: Agent) -> None:
        wish = {"prompt": "Review open PRs", "recurrence": "0 9 * * 1-5", "timezone": "Europe/Berlin"}
        told.append(await agent.call("schedule_task", **wish))
        told.append(await agent.call("schedule_task", **wish))
        id = told[0].split()[1].rstrip(".")
        told.append(await agent.call("list_tasks"))
        told.append(await agent.call("pause_task", taskId=id))
        told.append(await agent.call("resume_task", taskId=id))
        told.append(await agent.call("update_task", taskId=id, recurrence="@daily"))
        told.append(await agent.call("cancel_task", taskId=id))
        told.append(await agent.call("list_tasks"))
        told.append(await agent.call("schedule_task", prompt="x", recurrence="0 0 31 2 *"))
        told.append(await agent.call("schedule_task", prompt="x", processAfter="2h", timezone="Mars/Base"))
        told.append(await agent.call("cancel_task", taskId="task-unknown"))

    stage = Stage(scene)
    async with open_rig(tmp_path, stage.engine) as rig:
        await stage.play(rig)
    assert [text.split()[0] for text in told[:8]] == [
        "Added",
        "This",
        f"{told[0].split()[1].rstrip('.')}:",
        "Paused",
        "Resumed",
        "Changed",
        "Removed",
        "This",
    ], told
    assert all(text.startswith("refused: ") for text in told[8:]), told[8:]


async def test_an_agent_watches_a_pull_request_for_its_own_conversation(tmp_path: Path) -> None:
    told: list[str] = []

    async def scene(agent: Agent) -> None:
        pulls = ("https://github.com/Ann/Shop/pull/7", "ann/shop#8", "seven")
        told.extend([await agent.call("watch_pull_request", pullRequest=pull) for pull in pulls])
        told.append(await agent.call("watch_pull_request", pullRequest="ann/shop#8", stop=True))

    stage = Stage(scene)
    async with open_rig(tmp_path, stage.engine) as rig:
        await stage.play(rig)
        watching = {
            pull: await rig.store.read(lambda tx, pull=pull: addresses_watching(tx, pull))
            for pull in ("ann/shop#7", "ann/shop#8")
        }
        audited = await rig.audited("watch.")
    assert watching == {"ann/shop#7": [rig.channel.address("main")], "ann/shop#8": []}
    assert told[0].startswith("Watching ann/shop#7: a failed check wakes me")
    assert told[2].startswith("refused: 'seven' is not a pull request.")
    assert told[3] == "ann/shop#8 is no longer watched here."
    assert audited == ["watch.began", "watch.began", "watch.ended"]


async def test_the_run_of_a_task_manages_the_tasks_of_its_chat(tmp_path: Path) -> None:
    told: dict[str, str] = {}
    pull = "ann/shop#7"

    async def chat(agent: Agent) -> None:
        told["added"] = await agent.call("schedule_task", prompt="Look until it is merged", every="1h")

    async def run(agent: Agent) -> None:
        (id,) = re.findall(r'source="(task-\w+)"', stage.engine.turns[-1].prompt.text)
        told["listed"] = await agent.call("list_tasks")
        told["again"] = await agent.call("schedule_task", prompt="Look tomorrow", recurrence="@daily")
        told["watched"] = await agent.call("watch_pull_request", pullRequest=pull)
        told["cancelled"] = await agent.call("cancel_task", taskId=id)

    clock, stage = FakeClock(), Stage(chat, run)
    async with open_rig(tmp_path, stage.engine, clock=clock) as rig:
        await stage.play(rig)
        id = told["added"].split()[1].rstrip(".")
        await clock.advance(3600)
        await rig.until_ended(conversation=task_place(MAIN, ScheduleId(id)))
        assert not stage.errors
        await rig.channel.say("/tasks")
        shown = await rig.until_said("Look tomorrow")
        await rig.channel.say("/watch")
        await rig.until_said(f"{pull}\n")
        (left,) = await rig.store.read(lambda tx: tx.schedules.of())
        await rig.until(lambda tx: [one.state for one in tx.schedules.runs(ScheduleId(id))] == ["ran"])
    assert id in told["listed"]
    assert told["cancelled"].startswith(f"Removed {id}")
    assert "until it is merged" not in shown
    assert (left.conversation_id, left.workspace) == (MAIN, str(tmp_path))


async def test_the_run_of_a_limited_task_cannot_have_its_words_run_without_that_limit(tmp_path: Path) -> None:
    wide = ScheduleId("task-wide")

    async def chat(agent: Agent) -> None:
        pass

    async def run(agent: Agent) -> None:
        await agent.call("update_task", taskId=wide, prompt="Words of the limited run", processAfter="1h")

    clock, stage = FakeClock(), Stage(chat, run)
    async with open_rig(tmp_path, stage.engine, clock=clock) as rig:
        await stage.play(rig)

        def unit(tx: Tx) -> None:
            pick_mode(tx, str(tmp_path), "full-access", clock.now(), "")
            for wish in (
                NewSchedule(conversation_id=MAIN, id=wide, prompt="wide", at="5h", by=PERSON.id),
                NewSchedule(
                    conversation_id=MAIN, id=NARROW, prompt="n", at="1h", by=PERSON.id, mode="minimal"
                ),
            ):
                add_schedule(tx, rig.ports.ids, rig.ports.settings(), wish, clock.now())

        await rig.store.write(unit)
        rig.poke()
        await clock.advance(3600)
        await rig.until_ended(conversation=task_place(MAIN, NARROW))
        await clock.advance(3700)
        rig.poke()
        await rig.until_ended(conversation=task_place(MAIN, wide))
        assert not stage.errors
        assert "Words of the limited run" in stage.engine.turns[-1].prompt.text
        assert [brief.approval_mode for brief in stage.engine.briefs[-2:]] == ["minimal"] * 2


async def test_a_repeated_call_adds_one_task_although_time_has_passed(tmp_path: Path) -> None:
    told: list[str] = []

    async def scene(agent: Agent) -> None:
        wish = {"prompt": "Remind Ada", "processAfter": "30m"}
        told.append(await agent.call("schedule_task", use_id="one", **wish))
        await clock.advance(1)
        told.append(await agent.call("schedule_task", use_id="one", **wish))
        told.append(await agent.call("schedule_task", use_id="two", **wish))

    clock, stage = FakeClock(), Stage(scene)
    async with open_rig(tmp_path, stage.engine, clock=clock) as rig:
        await stage.play(rig)
        made = await rig.store.read(lambda tx: [one.id for one in tx.schedules.of(MAIN)])
    assert len(made) == 2
    assert made[0] in told[0] and told[1].startswith(f"This task exists already: {made[0]}.")
    assert told[2].startswith(f"Added {made[1]}.")


async def test_own_tools_are_allowed_except_those_that_start_turns_later() -> None:
    async def judged(server: str, tool: str, *rules: str) -> str:
        call = Call("mcp", f"mcp__{server}__{tool}", "/w", server=server, server_tool=tool)
        ask = Ask(AskId("a"), "approval", tool, {}, call=call)
        return (await FixedPolicy(tuple(map(parse_rule, rules))).judge(ask, Site("/w"))).outcome

    assert await judged("pilothouse", "send_message") == "allow"
    assert await judged("pilothouse", "send_message", "deny mcp pilothouse send_*") == "deny"
    assert await judged("pilothouse", "schedule_task") == "ask"
    assert await judged("pilothouse", "schedule_task", "allow mcp pilothouse schedule_task") == "allow"
    assert await judged("pilothouse_2", "send_message") == "ask"
