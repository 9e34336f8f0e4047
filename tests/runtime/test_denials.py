"""A call that a rule denies is told to people, with the rule, wherever they talk."""

from __future__ import annotations

from pathlib import Path

from tests.runtime.puppet import PuppetEngine, Strings
from tests.runtime.rig import open_rig

from pilothouse.core.ask import Ask
from pilothouse.core.event import ToolFinished
from pilothouse.core.ids import AskId, CallId
from pilothouse.core.policy import denial_text, parse_rule
from pilothouse.testing.policy import FixedPolicy

RULE = "deny command git push"
WHY = f"matches the rule `{RULE}`"


def push(id: str = "a") -> Ask:
    payload = {"tool": "Bash", "input": {"command": "git push"}, "cwd": "/work"}
    return Ask(AskId(id), "approval", "git push", payload)


async def test_what_an_engine_did_not_run_is_told_once_with_its_rule(tmp_path: Path) -> None:
    async def pushes(strings: Strings) -> None:
        await strings.start()
        for id in ("one", "two"):
            await strings.tool(id, title="git push --force")
            await strings.emit(ToolFinished(CallId(id), ok=False, denied=WHY))
        await strings.end("It may not.")

    async with open_rig(tmp_path, PuppetEngine(pushes)) as rig:
        await rig.channel.say("push it")
        await rig.until_said("It may not.")
        assert rig.said() == [f"Denied by your rule: {RULE} (git push --force)", "It may not."]


async def test_an_ask_that_a_rule_denies_is_told_in_the_words_of_the_policy(tmp_path: Path) -> None:
    async def asks(strings: Strings) -> None:
        await strings.start()
        decision = await strings.ask(push())
        await strings.end(f"I was told: {decision.verdict}")

    policy = FixedPolicy([parse_rule(RULE)])
    async with open_rig(tmp_path, PuppetEngine(asks), policy=policy) as rig:
        await rig.channel.say("push it")
        await rig.until_said("I was told: deny")
        assert rig.said()[0] == f"Denied by your rule: {RULE} (git push)"


def test_a_reason_that_is_no_rule_is_told_as_it_is() -> None:
    assert denial_text("", "this folder allows reading only") == "Denied: this folder allows reading only"
