"""Rules with the real CLI: an "always" is honoured in a new session, and a denial holds for a wrapped command."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.engines.claude.api import bash, call, in_order, open_api, say
from tests.engines.claude.rig import Rig as ClaudeRig
from tests.engines.claude.test_real_gateway import House
from tests.engines.gateway_terminal import until
from tests.runtime.rig import MAIN, Rig, open_rig
from tests.runtime.test_rules import LatePolicy

from pilothouse.core.event import Notice, ToolFinished
from pilothouse.core.ids import EngineId
from pilothouse.core.policy import parse_rule
from pilothouse.runtime.asks.rules import WorkspaceRules

pytestmark = [pytest.mark.anyio, pytest.mark.slow]
CLAUDE = EngineId("claude")
WITHIN_S = 100.0


async def until_answers(rig: Rig, count: int) -> None:
    await rig.until(
        lambda tx: len(tx.turns.of(MAIN, statuses=("done", "failed", "cancelled"))) >= count, WITHIN_S
    )


async def test_an_always_is_honoured_in_a_new_session_and_covers_no_more(tmp_path: Path) -> None:
    replies = (
        bash("cp first.txt made.txt"),
        say("one"),
        bash("cp first.txt made.txt"),
        say("two"),
        bash("cp first.txt no.txt"),
        say("three"),
    )
    with open_api(*replies) as api:
        claude, policy = ClaudeRig(tmp_path, api), LatePolicy()
        claude.policy = policy
        (claude.workspace / "first.txt").write_text("one")
        settings = {"default_engine": CLAUDE, "default_workspace": str(claude.workspace)}
        async with open_rig(tmp_path, engines={CLAUDE: claude.engine()}, policy=policy, **settings) as rig:
            policy.open(rig.store)
            await rig.channel.say("go")
            row = (await rig.until(lambda tx: tx.asks.open_in(MAIN), WITHIN_S))[0]
            assert row.ask.why == "not on your allow list: cp"
            assert row.ask.payload["cwd"] == str(claude.workspace)
            assert [offer.rule for offer in row.ask.offers] == ["allow glob cp first.txt made.txt"] * 2
            await rig.channel.answer(row.ask, "allow", remember="always")
            await until_answers(rig, 1)
            (claude.workspace / "made.txt").unlink()
            await rig.channel.say("/new")
            await rig.channel.say("go on")
            await until_answers(rig, 2)
            assert (claude.workspace / "made.txt").exists(), "it was made once more"
            assert len(await rig.store.read(lambda tx: tx.sessions.of(MAIN))) == 2
            await rig.channel.say("and now")
            row = (await rig.until(lambda tx: tx.asks.open_in(MAIN), WITHIN_S))[0]
            assert row.ask.payload["input"]["command"] == "cp first.txt no.txt"
            await rig.channel.answer(row.ask, "deny", text="no")
            await until_answers(rig, 3)
        assert not (claude.workspace / "no.txt").exists()
        assert not list(claude.workspace.rglob("settings*")), "nobody's settings are written"


async def test_a_denial_holds_for_a_wrapped_command_and_what_only_reads_asks_nobody(tmp_path: Path) -> None:
    commands = ("env X=1 rm kept.txt", "bash -c 'rm kept.txt'", "ls\nrm kept.txt")
    replies = [reply for command in commands for reply in (bash(command),)]
    with open_api(*replies, say("done")) as api:
        claude, policy = ClaudeRig(tmp_path, api), LatePolicy()
        policy.configured = WorkspaceRules((parse_rule("deny command rm"),))
        claude.policy = policy
        (claude.workspace / "kept.txt").write_text("here")
        settings = {"default_engine": CLAUDE, "default_workspace": str(claude.workspace)}
        async with open_rig(tmp_path, engines={CLAUDE: claude.engine()}, policy=policy, **settings) as rig:
            policy.open(rig.store)
            await rig.channel.say("go")
            await until_answers(rig, 1)
            assert await rig.store.read(lambda tx: tx.asks.open_in(MAIN)) == []
            await rig.until_said("done")
            assert rig.said()[0] == "Denied by your rule: deny command rm (env X=1 rm kept.txt)"
            assert not [text for text in rig.said()[1:] if "enied" in text], "people are told once"
            (turn,) = await rig.turns()
            logged = [row.event for row in await rig.store.read(lambda tx: tx.events.of_turn(turn.id))]
            assert "deny command rm" in api.main[-1].text, "the model hears which rule"
            await only_a_link_out_is_asked_about(rig, claude)
        assert (claude.workspace / "kept.txt").exists()
        assert [event.denied for event in logged if isinstance(event, ToolFinished)] == [
            "matches the rule `deny command rm`"
        ] * 3
        assert not [event for event in logged if isinstance(event, Notice)]


async def only_a_link_out_is_asked_about(rig: Rig, claude: ClaudeRig) -> None:
    secret = claude.workspace.parent / "secret.txt"
    secret.write_text("the-secret")
    (claude.workspace / "out.txt").symlink_to(secret)
    looks = bash("git status; ls | head -3 2>&1"), call("Read", file_path="out.txt")
    claude.api.script = in_order(*looks, say("done"))
    await rig.channel.say("look")
    row = (await rig.until(lambda tx: tx.asks.open_in(MAIN), WITHIN_S))[0]
    assert row.ask.payload["tool"] == "Read"
    assert row.ask.why == f"reads outside the workspace: {secret}"
    await rig.channel.answer(row.ask, "deny", text="no")
    await until_answers(rig, 2)
    assert "the-secret" not in "".join(request.text for request in claude.api.main)


def test_a_mode_is_picked_once_where_nobody_said_one(tmp_path: Path) -> None:
    with open_api(call("Write", file_path="made.txt", content="hi"), say("written")) as api:
        house = House(tmp_path, api)
        house.mode = ""
        with house.chatting() as terminal:
            terminal.see("Pick 1, 2 or 3")
            terminal.type("2\r")
            terminal.see("Ctrl-D leaves")
            terminal.type("Write it\r")
            terminal.see("written")
            until((house.rig.workspace / "made.txt").exists, "the file", terminal.look)
        with house.chatting() as terminal:
            terminal.see("Ctrl-D leaves")
            assert "Pick 1, 2 or 3" not in terminal.look()
