"""A jailed program wants to reach a host: people are asked in the conversation whose turn runs there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import anyio
from tests.runtime.puppet import PuppetEngine, Strings
from tests.runtime.rig import Rig, open_rig

from pilothouse.core.policy import parse_rule
from pilothouse.isolation.host_answers import MAX_HOSTS, MAX_OPEN_ASKS, ONCE_S, HostAnswers
from pilothouse.isolation.hosts import Target
from pilothouse.runtime.agent_calls.hosts import HOST_ASK, ask_host
from pilothouse.testing.policy import FixedPolicy


async def test_an_unknown_host_is_asked_about_and_always_is_kept_for_the_folder(tmp_path: Path) -> None:
    told: list[str] = []
    rigs: list[Rig] = []

    async def scene(strings: Strings) -> None:
        ports, place = rigs[0].ports, strings.brief.workspace
        await strings.start()
        await strings.tool(title="pip install x")
        told.extend(
            [
                await ask_host(ports, place, "docs.example.com:443"),
                await ask_host(ports, place, "example.org:443"),
                await ask_host(ports, place, "other.org:443"),
                await ask_host(ports, place, "other.org:443"),
                await ask_host(ports, str(tmp_path / "elsewhere"), "other.org:443"),
            ]
        )
        await strings.tool_done()
        await strings.end("done")

    async with open_rig(tmp_path, PuppetEngine(scene)) as rig:
        rigs.append(rig)
        await rig.channel.say("go")
        for host, option in (("docs.example.com", "once"), ("example.org", "no"), ("other.org", "always")):
            ask = await rig.until_asked(f"{host}:443")
            assert "pip install x" in ask.title
            assert (await rig.channel.answer(ask, "answer", options=(option,))).accepted
        await rig.until_ended()
    assert told == ["once", "no", "always", "always", "no"]


async def test_a_host_that_a_rule_denies_is_refused_and_nobody_is_asked(tmp_path: Path) -> None:
    told: list[str] = []
    rigs: list[Rig] = []

    async def scene(strings: Strings) -> None:
        place = strings.brief.workspace
        await strings.start()
        told.extend([await ask_host(rigs[0].ports, place, f"{name}evil.example:443") for name in ("", "a.")])
        await strings.end("done")

    async with open_rig(
        tmp_path, PuppetEngine(scene), policy=FixedPolicy([parse_rule("deny domain evil.example")])
    ) as rig:
        rigs.append(rig)
        await rig.channel.say("go")
        await rig.until_ended()
        assert await rig.ports.read(lambda tx: tx.asks.open_about(HOST_ASK)) == []
    assert told == ["no", "no"]


async def test_a_jail_asks_once_for_a_while_and_keeps_what_holds_for_the_session() -> None:
    now, asked = [0.0], list[str]()
    answers = {"a.org:443": "once", "b.org:443": "session", "c.org:443": "no"}

    async def ask(workspace: str, host: str) -> str:
        asked.append(host)
        return answers[host]

    kept = HostAnswers("/work", ask, Counter(), lambda: now[0])
    for _ in range(2):
        assert await kept(Target("a.org", 443))
        assert await kept(Target("b.org", 443))
        assert not await kept(Target("c.org", 443))
    assert asked == list(answers)
    now[0] = ONCE_S + 1
    assert await kept(Target("b.org", 443))
    assert asked == list(answers)
    assert not await kept(Target("c.org", 443))
    assert asked[3:] == ["c.org:443"]


async def test_a_workspace_has_few_open_asks_and_a_host_that_found_no_place_is_asked_about_later() -> None:
    asked, answered = list[str](), anyio.Event()

    async def ask(workspace: str, host: str) -> str:
        asked.append(host)
        await answered.wait()
        return "session"

    counted: Counter[str] = Counter()
    jails = [HostAnswers("/work", ask, counted) for _ in range(2)]
    many = [Target(f"host{number}.org", 443) for number in range(MAX_OPEN_ASKS)]
    one_more = Target("one-more.org", 443)
    async with anyio.create_task_group() as tasks:
        for number, target in enumerate(many):
            tasks.start_soon(jails[number % 2], target)
        await anyio.wait_all_tasks_blocked()
        assert not await jails[0](one_more)
        assert not await jails[1](one_more)
        assert len(asked) == MAX_OPEN_ASKS
        answered.set()
    assert await jails[0](one_more)
    assert counted["/work"] == 0


async def test_one_jail_asks_about_so_many_hosts_and_no_more() -> None:
    asked = list[str]()

    async def ask(workspace: str, host: str) -> str:
        asked.append(host)
        return "session"

    kept = HostAnswers("/work", ask, Counter())
    answers = [await kept(Target(f"host{number}.org", 443)) for number in range(MAX_HOSTS + 1)]
    assert answers == [True] * MAX_HOSTS + [False]
    assert await kept(Target("host0.org", 443))
