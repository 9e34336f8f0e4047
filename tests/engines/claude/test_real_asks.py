"""Asks of the real CLI: approvals in every outcome, questions, plans, and what the gate lets pass."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.engines.claude.api import bash, call, open_api, say
from tests.engines.claude.rig import Rig, answer_with, asks_of, end_of, notices_of, play, read

from pilothouse.core.ask import Decision
from pilothouse.core.event import AskChanged, Asked, EngineEvent, MediaProduced, SessionStarted

pytestmark = pytest.mark.slow

QUESTION: dict[str, Any] = {
    "question": "Which colour?",
    "header": "Colour",
    "multiSelect": False,
    "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}],
}
SIZES: dict[str, Any] = {
    "question": "Which sizes?",
    "header": "Sizes",
    "multiSelect": True,
    "options": [{"label": "S", "description": "small"}, {"label": "L", "description": "large"}],
}


async def test_an_allowed_command_runs(tmp_path: Path) -> None:
    with open_api(bash("touch made.txt"), say("done")) as api:
        rig = Rig(tmp_path, api)
        events = await play(rig, decision=Decision("allow"))
    assert [asked.ask.payload["input"]["command"] for asked in asks_of(events)] == ["touch made.txt"]
    assert end_of(events).answer == "done"
    assert (rig.workspace / "made.txt").exists()


async def test_a_command_denied_with_a_reason_does_not_run_and_the_turn_goes_on(tmp_path: Path) -> None:
    with open_api(bash("touch made.txt"), say("as you wish")) as api:
        rig = Rig(tmp_path, api)
        events = await play(rig, decision=Decision("deny", text="not on a Friday"))
        assert "not on a Friday" in str(api.main[-1].tool_results)
    assert end_of(events).answer == "as you wish"
    assert not (rig.workspace / "made.txt").exists()
    assert any("made.txt" in text for text in notices_of(events))


async def test_a_plain_no_stops_the_turn(tmp_path: Path) -> None:
    with open_api(bash("touch made.txt"), say("never said")) as api:
        rig = Rig(tmp_path, api)
        events = await play(rig, decision=Decision("deny"))
        assert len(api.main) == 1
    assert end_of(events).outcome == "cancelled"
    assert not (rig.workspace / "made.txt").exists()


async def test_what_a_person_changed_is_what_runs(tmp_path: Path) -> None:
    with open_api(bash("touch made.txt"), say("done")) as api:
        rig = Rig(tmp_path, api)
        instead = {"command": "touch other.txt", "description": "d"}
        events = await play(rig, decision=Decision("allow", input=instead))
    assert end_of(events).outcome == "completed"
    assert [path.name for path in rig.workspace.iterdir()] == ["other.txt"]


async def test_reading_inside_the_workspace_asks_nobody_and_read_only_commands_do(tmp_path: Path) -> None:
    with open_api(call("Read", file_path="a.txt"), bash("ls"), say("done")) as api:
        rig = Rig(tmp_path, api)
        (rig.workspace / "a.txt").write_text("alpha")
        events = await play(rig, decision=Decision("allow"))
        assert "alpha" in api.main[1].text
    assert [asked.ask.payload["tool"] for asked in asks_of(events)] == ["Bash"]


async def test_a_link_out_of_the_workspace_is_outside(tmp_path: Path) -> None:
    with open_api(call("Read", file_path="inside.txt"), say("done")) as api:
        rig = Rig(tmp_path, api)
        (tmp_path / "secret.txt").write_text("the-secret")
        (rig.workspace / "inside.txt").symlink_to(tmp_path / "secret.txt")
        events = await play(rig, decision=Decision("deny", text="no"))
        assert "the-secret" not in api.main[-1].text
    assert len(asks_of(events)) == 1


async def test_full_access_asks_nobody(tmp_path: Path) -> None:
    with open_api(bash("touch made.txt"), say("done")) as api:
        rig = Rig(tmp_path, api)
        async with rig.engine() as engine, engine.open(rig.brief(approval_mode="full-access")) as session:
            events = await read(session)
    assert asks_of(events) == []
    assert (rig.workspace / "made.txt").exists()


@pytest.mark.parametrize(
    ("decision", "told"),
    [(Decision("answer", ("2",)), "Blue"), (Decision("answer", text="teal, please"), "teal, please")],
)
async def test_a_question_is_answered_by_an_option_or_by_typed_text(
    tmp_path: Path, decision: Decision, told: str
) -> None:
    with open_api(call("AskUserQuestion", questions=[QUESTION]), say("done")) as api:
        events = await play(Rig(tmp_path, api), decision=decision)
        assert f'"Which colour?"="{told}"' in api.main[-1].tool_results[0]["content"]
    (asked,) = asks_of(events)
    assert asked.ask.kind == "question"
    assert asked.ask.free_text
    assert [option.label for option in asked.ask.options] == ["Red: warm", "Blue: cold"]


async def test_several_questions_are_several_asks_and_one_answer(tmp_path: Path) -> None:
    with open_api(call("AskUserQuestion", questions=[QUESTION, SIZES]), say("done")) as api:
        rig = Rig(tmp_path, api)
        async with rig.engine() as engine, engine.open(rig.brief()) as session:
            answers = {
                "Which colour?": Decision("answer", ("1",)),
                "Which sizes?": Decision("answer", ("1", "2")),
            }
            events = await read(
                session,
                when=lambda event: (
                    session.answer(event.ask.id, answers[event.ask.title])
                    if isinstance(event, Asked)
                    else None
                ),
            )
        told = api.main[-1].tool_results[0]["content"]
    assert len(asks_of(events)) == 2
    assert '"Which colour?"="Red", "Which sizes?"="S, L"' in told


async def test_a_no_to_one_of_several_questions_withdraws_the_others(tmp_path: Path) -> None:
    with open_api(call("AskUserQuestion", questions=[QUESTION, SIZES]), say("as you wish")) as api:
        rig = Rig(tmp_path, api)
        async with rig.engine() as engine, engine.open(rig.brief()) as session:
            events = await read(
                session,
                when=lambda event: (
                    session.answer(event.ask.id, Decision("deny", text="ask later"))
                    if isinstance(event, Asked) and event.ask.title == "Which sizes?"
                    else None
                ),
            )
        assert "ask later" in str(api.main[-1].tool_results)
    colour, _ = asks_of(events)
    assert [event for event in events if isinstance(event, AskChanged)] == [
        AskChanged(colour.ask.id, "withdrawn")
    ]
    assert end_of(events).answer == "as you wish"


async def test_a_question_that_nobody_answers_lets_the_turn_go_on(tmp_path: Path) -> None:
    with open_api(call("AskUserQuestion", questions=[QUESTION]), say("then I choose")) as api:
        events = await play(Rig(tmp_path, api), decision=Decision("deny", text="nobody answered in time"))
        assert "nobody answered in time" in str(api.main[-1].tool_results)
    assert end_of(events).answer == "then I choose"


async def test_a_plan_is_approved_or_sent_back(tmp_path: Path) -> None:
    plan = call("ExitPlanMode", plan="1. Paint it\n2. Sell it")
    with open_api(plan, say("then not"), plan, say("going")) as api:
        rig = Rig(tmp_path, api, permission_mode="plan")
        async with rig.engine() as engine, engine.open(rig.brief()) as session:
            no = await read(session, "plan", answer_with(session, Decision("deny", text="cheaper, please")))
            assert "cheaper, please" in str(api.main[1].tool_results)
            yes = await read(session, "plan", answer_with(session, Decision("allow")))
    assert [asked.ask.kind for asked in asks_of(no)] == ["plan"]
    assert "Paint it" in asks_of(no)[0].ask.title
    assert end_of(yes).answer == "going"


async def test_a_turn_that_is_stopped_withdraws_its_ask(tmp_path: Path) -> None:
    with open_api(bash("touch made.txt"), say("never")) as api:
        rig = Rig(tmp_path, api)
        async with rig.engine() as engine, engine.open(rig.brief()) as session:

            async def stop() -> None:
                await anyio.sleep(0.3)
                await session.interrupt()

            def when(event: EngineEvent) -> Any:
                return stop() if isinstance(event, Asked) else None

            events = await read(session, when=when)
            late = asks_of(events)[0].ask.id
            await session.answer(late, Decision("allow"))
    assert end_of(events).outcome == "cancelled"
    assert [event.state for event in events if isinstance(event, AskChanged)] == ["withdrawn"]
    assert not (rig.workspace / "made.txt").exists()


@pytest.mark.parametrize("mode", ["acceptEdits", "bypassPermissions", "auto"])
async def test_the_gate_holds_in_every_permission_mode_of_the_cli(tmp_path: Path, mode: str) -> None:
    with open_api(call("Write", file_path="a.txt", content="x"), bash("touch b.txt"), say("done")) as api:
        extra = ["--allow-dangerously-skip-permissions"] if mode == "bypassPermissions" else []
        rig = Rig(tmp_path, api, permission_mode=mode, sandboxed=True, extra_args=extra)
        events = await play(rig, decision=Decision("deny", text="no"))
    assert [asked.ask.payload["tool"] for asked in asks_of(events)] == ["Write", "Bash"]
    assert list(rig.workspace.iterdir()) == []


async def test_a_tier_narrows_the_tools_of_the_next_turn_and_a_broken_one_leaves_none(tmp_path: Path) -> None:
    with open_api(say("ok")) as api:
        rig = Rig(tmp_path, api)
        settings = tmp_path / "settings"
        settings.mkdir()
        token, tools, told = None, list[list[str]](), list[list[str]]()
        async with rig.engine() as engine:
            for text in (None, '{"tier": "readonly", "note": "Touch nothing."}', '{"tier": "everything"}'):
                if text is not None:
                    (settings / "PERMISSIONS.json").write_text(text)
                brief = rig.brief(resume=token, settings_dir=str(settings))
                async with engine.open(brief) as session:
                    events = await read(session)
                token = end_of(events).resume
                tools += [list(event.tools) for event in events if isinstance(event, SessionStarted)]
                told.append(notices_of(events))
        notes = [request.text.count("Touch nothing.") for request in api.requests]
    assert "Bash" in tools[0]
    assert "Read" in tools[1] and "Bash" not in tools[1]
    assert not {"Bash", "Read", "Edit"} & set(tools[2])
    assert notes[0] == 0 and notes[1] == 1
    assert "no tool is allowed" in told[2][0]


@pytest.mark.parametrize("tier", ["readonly", "everything"])
@pytest.mark.parametrize("by", ["the brief", "its arguments"])
async def test_a_file_that_leaves_no_server_leaves_none_however_it_was_named(
    tmp_path: Path, tier: str, by: str
) -> None:
    """In full access, where no rule holds anything back."""
    server = {"command": sys.executable, "args": [str(Path(__file__).with_name("image_server.py"))]}
    settings = tmp_path / "settings"
    settings.mkdir()
    (settings / "PERMISSIONS.json").write_text(json.dumps({"tier": tier}))
    named = {"images": server} if by == "the brief" else {}
    extra: list[str] = [] if named else ["--mcp-config", json.dumps({"mcpServers": {"images": server}})]
    with open_api(call("mcp__images__draw"), say("there")) as api:
        rig = Rig(tmp_path, api, extra_args=extra)
        brief = rig.brief(
            mcp_servers=named,
            environment={"ENABLE_TOOL_SEARCH": "false"},
            approval_mode="full-access",
            settings_dir=str(settings),
        )
        async with rig.engine() as engine, engine.open(brief) as session:
            events = await read(session)
        offered = {tool["name"] for request in api.requests for tool in request.body.get("tools") or ()}
    assert end_of(events).outcome == "completed"
    assert not any(isinstance(event, MediaProduced) for event in events)
    assert ("mcp__images__draw" in offered) == (by == "its arguments"), "else the gate has nothing to hold"
