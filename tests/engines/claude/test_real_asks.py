"""Asks of the real CLI: approvals in every outcome, questions, plans, and what the gate lets pass."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.engines.claude.api import Reply, Request, bash, call, in_order, open_api, say
from tests.engines.claude.rig import Reaction, Rig, answer_with, asks_of, end_of, notices_of, play, read

from pilothouse.core.ask import Decision
from pilothouse.core.event import AskChanged, Asked, EngineEvent, MediaProduced, SessionStarted
from pilothouse.engines.claude.session import ClaudeSession

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


class Chat:
    """One process of the CLI, whose model says what each scenario wants: a start costs more than a second."""

    def __init__(self, rig: Rig, session: ClaudeSession) -> None:
        self.rig, self.session = rig, session

    @property
    def heard(self) -> list[Request]:
        return self.rig.api.main

    @property
    def results(self) -> str:
        """What the model was told last of its calls."""
        return str(self.heard[-1].tool_results)

    async def play(self, *replies: Reply, when: Reaction) -> list[EngineEvent]:
        self.rig.api.script = in_order(*replies)
        self.rig.api.requests.clear()
        return await read(self.session, "go", when)

    async def answer(self, *replies: Reply, decision: Decision) -> list[EngineEvent]:
        return await self.play(*replies, when=answer_with(self.session, decision))


async def test_one_process_asks_about_calls_and_asks_questions(tmp_path: Path) -> None:
    with open_api(say("never said")) as api:
        rig = Rig(tmp_path, api)
        async with rig.engine() as engine, engine.open(rig.brief()) as session:
            assert isinstance(session, ClaudeSession)
            chat = Chat(rig, session)
            await each_answer_to_an_approval_has_its_effect(chat)
            await a_question_is_answered_by_an_option_by_typed_text_or_by_nobody(chat)
            await several_questions_are_several_asks_and_one_answer(chat)
            await a_no_to_one_of_several_questions_withdraws_the_others(chat)
            await a_turn_that_is_stopped_withdraws_its_ask(chat)
            await reading_inside_the_workspace_asks_nobody_and_a_link_out_and_other_commands_do(chat)


async def each_answer_to_an_approval_has_its_effect(chat: Chat) -> None:
    """Allowed, changed, denied with a reason, and with none, which ends the turn."""
    decisions = {
        "a": Decision("allow"),
        "b": Decision("allow", input={"command": "touch other.txt", "description": "d"}),
        "c": Decision("deny", text="not on a Friday"),
        "d": Decision("deny"),
    }
    turns: dict[str, list[EngineEvent]] = {}
    for name, decision in decisions.items():
        replies = bash(f"touch {name}.txt"), say(f"after {name}")
        turns[name] = await chat.answer(*replies, decision=decision)
        (asked,) = asks_of(turns[name])
        assert asked.ask.payload["input"]["command"] == f"touch {name}.txt"
        if name == "c":
            assert "not on a Friday" in chat.results
    assert len(chat.heard) == 1, "after a plain no, nothing more was said to the model"
    assert [end_of(turns[name]).answer for name in "abc"] == ["after a", "after b", "after c"]
    assert any("c.txt" in text for text in notices_of(turns["c"]))
    assert end_of(turns["d"]).outcome == "cancelled"
    assert sorted(path.name for path in chat.rig.workspace.iterdir()) == ["a.txt", "other.txt"]


async def reading_inside_the_workspace_asks_nobody_and_a_link_out_and_other_commands_do(chat: Chat) -> None:
    workspace = chat.rig.workspace
    secret = workspace.parent / "secret.txt"
    (workspace / "alpha.txt").write_text("alpha")
    secret.write_text("the-secret")
    (workspace / "inside.txt").symlink_to(secret)
    reads = call("Read", file_path="alpha.txt"), call("Read", file_path="inside.txt")
    events = await chat.answer(
        reads[0], bash("ls"), bash("env"), reads[1], say("done"), decision=Decision("deny", text="no")
    )
    assert "alpha" in str(chat.heard[1].tool_results)
    assert "the-secret" not in chat.heard[-1].text
    commands = [asked.ask.payload["input"].get("command") for asked in asks_of(events)]
    assert commands == ["env", None]


async def a_question_is_answered_by_an_option_by_typed_text_or_by_nobody(chat: Chat) -> None:
    question = call("AskUserQuestion", questions=[QUESTION])
    answers = {
        '"Which colour?"="Blue"': Decision("answer", ("2",)),
        '"Which colour?"="teal, please"': Decision("answer", text="teal, please"),
        "nobody answered in time": Decision("deny", text="nobody answered in time"),
    }
    for told, decision in answers.items():
        events = await chat.answer(question, say("done"), decision=decision)
        assert told in chat.results
        assert end_of(events).answer == "done"
        (asked,) = asks_of(events)
        assert (asked.ask.kind, asked.ask.free_text) == ("question", True)
        assert [option.label for option in asked.ask.options] == ["Red: warm", "Blue: cold"]


async def several_questions_are_several_asks_and_one_answer(chat: Chat) -> None:
    answers = {
        "Which colour?": Decision("answer", ("1",)),
        "Which sizes?": Decision("answer", ("1", "2")),
    }
    events = await chat.play(
        call("AskUserQuestion", questions=[QUESTION, SIZES]),
        say("done"),
        when=lambda event: (
            chat.session.answer(event.ask.id, answers[event.ask.title]) if isinstance(event, Asked) else None
        ),
    )
    assert len(asks_of(events)) == 2
    assert '"Which colour?"="Red", "Which sizes?"="S, L"' in chat.results


async def a_no_to_one_of_several_questions_withdraws_the_others(chat: Chat) -> None:
    events = await chat.play(
        call("AskUserQuestion", questions=[QUESTION, SIZES]),
        say("as you wish"),
        when=lambda event: (
            chat.session.answer(event.ask.id, Decision("deny", text="ask later"))
            if isinstance(event, Asked) and event.ask.title == "Which sizes?"
            else None
        ),
    )
    assert "ask later" in chat.results
    colour, _ = asks_of(events)
    assert [event for event in events if isinstance(event, AskChanged)] == [
        AskChanged(colour.ask.id, "withdrawn")
    ]
    assert end_of(events).answer == "as you wish"


async def a_turn_that_is_stopped_withdraws_its_ask(chat: Chat) -> None:
    async def stop() -> None:
        await anyio.sleep(0.3)
        await chat.session.interrupt()

    events = await chat.play(
        bash("touch stopped.txt"),
        say("never"),
        when=lambda event: stop() if isinstance(event, Asked) else None,
    )
    late = asks_of(events)[0].ask.id
    await chat.session.answer(late, Decision("allow"))
    assert end_of(events).outcome == "cancelled"
    assert [event.state for event in events if isinstance(event, AskChanged)] == ["withdrawn"]
    assert not (chat.rig.workspace / "stopped.txt").exists()


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


@pytest.mark.parametrize("mode", ["bypassPermissions", "auto"])
async def test_the_gate_holds_in_the_widest_permission_modes_of_the_cli(tmp_path: Path, mode: str) -> None:
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


@pytest.mark.parametrize(("tier", "by"), [("readonly", "its arguments"), ("everything", "the brief")])
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
