"""A long call is judged beside everything else: nobody waits while it is read."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest
from tests.calls import with_call
from tests.runtime.puppet import PuppetEngine
from tests.runtime.rig import open_rig

from pilothouse.core.ask import Ask
from pilothouse.core.ids import AskId
from pilothouse.core.policy import Rule, Ruling, Site, parse_rule
from pilothouse.policy.decide import PolicyEnv, decide
from pilothouse.runtime.asks.rules import RulePolicy, WorkspaceRules

TOLD = WorkspaceRules(rules=(parse_rule("deny command rm"),))


class SlowJudge:
    """Judges a long call only when somebody else has had a turn; `threads` are those that it judged in."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.may_end = threading.Event()
        self.threads: list[int] = []

    def __call__(self, ask: Ask, rules: Sequence[Rule], site: Site) -> Ruling:
        self.threads.append(threading.get_ident())
        self.begun.set()
        if ask.call and len(ask.call.command) > 4096:
            assert self.may_end.wait(60), "the loop stood still"
        return decide(ask, rules, site, PolicyEnv())


def asking(command: str) -> Ask:
    payload = {"tool": "Bash", "input": {"command": command}, "cwd": "/work"}
    return with_call(Ask(AskId("a"), "approval", "x", payload))


@pytest.mark.anyio
async def test_others_go_on_while_a_long_command_is_read(tmp_path: Path) -> None:
    slow = SlowJudge()
    rulings: list[Ruling] = []
    async with open_rig(tmp_path, PuppetEngine()) as rig:
        policy = RulePolicy(rig.store, slow, lambda workspace: TOLD)

        async def judge() -> None:
            rulings.append(await policy.judge(asking("make " + "a" * 5000), Site("/work")))

        async with anyio.create_task_group() as group:
            group.start_soon(judge)
            await anyio.to_thread.run_sync(slow.begun.wait, 60)
            short = await policy.judge(asking("make"), Site("/work"))
            slow.may_end.set()
    assert short.outcome == "ask"
    assert [ruling.outcome for ruling in rulings] == ["ask"]
    assert slow.threads[0] != threading.get_ident()
    assert slow.threads[-1] == threading.get_ident(), "a short one is not worth a thread"
