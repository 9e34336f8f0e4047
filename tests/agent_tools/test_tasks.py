"""Tasks that an agent schedules, and pull requests that it watches: what starts turns later."""

from __future__ import annotations

from pathlib import Path

from tests.agent_tools.agent import Agent, Stage
from tests.runtime.rig import open_rig

from pilothouse.core.ask import Ask
from pilothouse.core.call import Call
from pilothouse.core.ids import AskId
from pilothouse.core.policy import Site, parse_rule
from pilothouse.runtime.commands.watch import addresses_watching
from pilothouse.testing.policy import FixedPolicy


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
