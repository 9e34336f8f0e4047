"""Messages, files, cards, edits and reactions of an agent, and what is refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
from tests.agent_tools.agent import Agent, Stage
from tests.runtime.rig import MEMBER, open_rig

from pilothouse.agent_tools.send_card import buttons_of
from pilothouse.agent_tools.server import AgentToolServer
from pilothouse.bootstrap.files import read_file
from pilothouse.channels.presses import pressable
from pilothouse.core.message import Address, CommandButton
from pilothouse.core.policy import parse_rule
from pilothouse.runtime.agent_calls.caller import MOST_CALLS, CallKeys
from pilothouse.runtime.agent_calls.messages import parse_destinations
from pilothouse.testing.policy import FixedPolicy

TEAM = "memory:team#7"


def number_in(told: str) -> str:
    return told.partition("messageId: ")[2].split()[0]


async def test_what_an_agent_sends_edits_and_marks_is_seen(tmp_path: Path) -> None:
    told: dict[str, str] = {}

    async def scene(agent: Agent) -> None:
        told["sent"] = await agent.call("send_message", text="Half done.")
        told["again"] = await agent.call("send_message", text="Half done.", use_id="toolu_1")
        told["repeated"] = await agent.call("send_message", text="Half done.", use_id="toolu_1")
        told["edited"] = await agent.call("edit_message", messageId=number_in(told["sent"]), text="All done.")
        told["reacted"] = await agent.call("add_reaction", messageId=1, emoji="thumbs_up")
        told["own"] = await agent.call("add_reaction", messageId=number_in(told["sent"]), emoji="🎉")
        told["file"] = await agent.call("send_file", path="report.txt", text="Here.", filename="../r.txt")
        (tmp_path / "report.txt").unlink()
        told["card"] = await agent.call(
            "send_card",
            card={
                "title": "Deploy?",
                "fields": [{"name": "Branch", "value": "main"}],
                "children": [{"type": "text", "text": "All checks passed."}],
                "actions": [
                    {"label": "Go", "value": "Deploy it now"},
                    {"label": "Log", "url": "https://x.y/z"},
                ],
            },
        )

    stage = Stage(scene)
    (tmp_path / "report.txt").write_text("42")
    async with open_rig(tmp_path, stage.engine, policy=FixedPolicy()) as rig:
        rig.ports.read_file = read_file
        await stage.play(rig)
        said, marks, sent = rig.said(), list(rig.channel.reactions), list(rig.channel.sent)
        await rig.channel.say("/say Deploy it now", author=MEMBER)
        turns = await rig.until_ended(2)
    assert said == [
        "All done.",
        "Half done.",
        "Here.\n[r.txt]",
        "**Deploy?**\n\n**Branch:** main\n\nAll checks passed.\n\n- Go\n- [Log](https://x.y/z)",
        "The turn is over.",
    ]
    assert told["repeated"] == told["again"] != told["sent"]
    assert (told["edited"], told["reacted"], told["own"]) == (
        "Edited.",
        "Reacted with 👍.",
        "Reacted with 🎉.",
    )
    assert [emoji for _, emoji in marks] == ["👍", "🎉"]
    (card,) = [posted for posted in sent if posted.text.startswith("**Deploy")]
    assert card.part.data["buttons"] == [["Go", "/say Deploy it now"]]
    assert (turns[1].prompt.text, turns[1].prompt.authors) == ("Deploy it now", (MEMBER.id,))


async def test_bad_calls_say_why_and_do_nothing(tmp_path: Path) -> None:
    told: dict[str, str] = {}
    work = tmp_path / "work"
    work.mkdir()
    (work / ".env").write_text("SECRET=1")
    (work / "empty").touch()
    (tmp_path / "outside.txt").write_text("x")
    (work / "link").symlink_to(tmp_path / "outside.txt")
    os.mkfifo(work / "pipe")

    async def scene(agent: Agent) -> None:
        calls: dict[str, tuple[str, dict[str, Any]]] = {
            "empty": ("send_message", {"text": " "}),
            "long": ("send_message", {"text": "x" * 200_001}),
            "extra": ("send_message", {"text": "x", "conversation": "memory:other"}),
            "type": ("send_message", {"text": 5}),
            "stranger": ("send_message", {"text": "x", "to": "boss"}),
            "foreign": ("send_message", {"text": "x", "channel": "memory", "platformId": "other"}),
            "no card": ("send_card", {"card": {"actions": [{"url": "https://x.y"}]}}),
            "button": (
                "send_card",
                {"card": {"title": "Go?", "actions": [{"label": "Go", "value": "да" * 15}]}},
            ),
            "number": ("edit_message", {"messageId": "one", "text": "x"}),
            "theirs": ("edit_message", {"messageId": 1, "text": "x"}),
            "unknown": ("add_reaction", {"messageId": 99, "emoji": "👍"}),
            "not ours": ("edit_message", {"messageId": 1999, "text": "x"}),
            "name": ("add_reaction", {"messageId": 1, "emoji": "no_such_emoji"}),
            "lacking": ("add_reaction", {"messageId": 1, "emoji": "🦄"}),
            "gone": ("send_file", {"path": "nothing.txt"}),
            "pipe": ("send_file", {"path": "pipe"}),
            "device": ("send_file", {"path": "/dev/zero"}),
            "link": ("send_file", {"path": "link"}),
            "secret": ("send_file", {"path": ".env"}),
            "nothing": ("send_file", {"path": "empty"}),
        }
        for name, (tool, given) in calls.items():
            told[name] = await agent.call(tool, **given)
        for _ in range(MOST_CALLS):
            told["many"] = await agent.call("add_reaction", messageId=99, emoji="👍")

    stage = Stage(scene)
    granted = {str(work.resolve()): parse_destinations({"team": TEAM})}
    async with open_rig(
        tmp_path,
        stage.engine,
        policy=FixedPolicy(),
        default_workspace=str(work),
        destinations=granted,
    ) as rig:
        rig.ports.read_file = read_file
        await stage.play(rig)
        assert rig.said() == ["The turn is over."], told
    expected = {
        "empty": "no text",
        "long": "200000 is the most",
        "extra": "unknown field `conversation`",
        "type": "Expected `str`",
        "stranger": "Granted destinations: team",
        "foreign": "Granted destinations: team",
        "no card": "no text",
        "button": "The value of the action 'Go' is too long for a button: 57 bytes are the most.",
        "number": "is not the number",
        "theirs": "Only messages that a tool sent",
        "unknown": "no message 99",
        "not ours": "No tool of this session",
        "name": "one of: thumbs_up",
        "lacking": "there is no reaction 🦄",
        "gone": "no such file",
        "pipe": "not a plain file",
        "device": "outside the workspace",
        "link": "outside the workspace",
        "secret": "/send .env",
        "nothing": "it is empty",
        "many": f"{MOST_CALLS} calls",
    }
    for name, words in expected.items():
        assert told[name].startswith("refused: ") and words in told[name], (name, told[name])


async def test_a_rule_takes_a_tool_away_whatever_the_engine_asked(tmp_path: Path) -> None:
    told: list[str] = []

    async def scene(agent: Agent) -> None:
        told.append(await agent.call("send_message", text="Half done."))
        told.append(await agent.call("list_tasks"))

    stage = Stage(scene)
    rules = [parse_rule("deny mcp pilothouse send_message"), parse_rule("ask mcp pilothouse list_tasks")]
    async with open_rig(tmp_path, stage.engine, policy=FixedPolicy(rules)) as rig:
        await stage.play(rig)
        assert rig.said() == ["The turn is over."], told
    assert "deny mcp pilothouse send_message" in told[0]
    assert "denied" not in told[1]


async def test_a_granted_destination_is_reached_and_a_failure_is_told_later(tmp_path: Path) -> None:
    told: list[str] = []

    async def speak(agent: Agent) -> None:
        told.append(await agent.call("send_message", text="To the team.", to="team"))
        told.append(await agent.call("send_message", text="By ids.", platformId="team", threadId="7"))

    async def fail(agent: Agent) -> None:
        assert isinstance(stage.rig, object) and stage.rig is not None
        stage.rig.channel.rejected = "the chat is closed"
        told.append(await agent.call("send_message", text="Nobody reads this."))
        stage.rig.channel.rejected = ""

    async def quiet(agent: Agent) -> None:
        pass

    stage = Stage(speak, fail, quiet)
    granted = {str(tmp_path.resolve()): parse_destinations({"team": TEAM})}
    async with open_rig(tmp_path, stage.engine, destinations=granted) as rig:
        await stage.play(rig)
        assert [
            p.text for p in rig.channel.sent if p.ref.address == Address(rig.channel.id, "team", "7")
        ] == [
            "To the team.",
            "By ids.",
        ]
        await stage.play(rig, count=2)
        await stage.play(rig, count=3)
        prompt = (await rig.turns())[2].prompt.text
    assert (
        told[2]
        == "refused: Not delivered: A message could not be delivered (the chat is closed): Nobody reads this."
    )
    assert "[SYSTEM RESPONSE] Action: send_message\nStatus: failed" in prompt


async def test_a_repeated_turn_says_nothing_twice_and_an_ended_one_nothing_at_all(tmp_path: Path) -> None:
    agents: list[Agent] = []

    async def scene(agent: Agent) -> None:
        agents.append(agent)
        await agent.call("send_message", text="Once.")
        assert stage.rig is not None
        turn = (await stage.rig.turns())[0]
        repeated = msgspec.structs.replace(turn, attempts=turn.attempts + 1)
        keys = CallKeys()
        first = keys.key(turn, "send_message", {"text": "Once."}, "toolu_1")
        assert keys.key(repeated, "send_message", {"text": "Once."}, "toolu_2") == first
        assert keys.key(turn, "send_message", {"text": "Once."}, "toolu_3") != first

    stage = Stage(scene)
    async with open_rig(tmp_path, stage.engine, tools=AgentToolServer()) as rig:
        await stage.play(rig)
        late = await agents[0].call("send_message", text="Too late.")
        assert rig.said() == ["Once.", "The turn is over."]
    assert late.startswith("refused: No turn of this session runs now")


def test_the_longest_value_of_an_action_fits_into_a_button_of_every_platform() -> None:
    (button,) = buttons_of({"actions": [{"label": "Go", "value": "x" * 57}]})
    assert pressable([button]) and not pressable([CommandButton("Go", f"{button.line}x")])
