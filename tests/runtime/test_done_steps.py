"""The answer of a turn lists the commands that ran and the files that changed."""

from __future__ import annotations

from pathlib import Path

from tests.runtime.puppet import PuppetEngine, Strings
from tests.runtime.rig import open_rig

from pilothouse.core.event import ToolCall, ToolFinished, ToolStarted, ToolUpdated
from pilothouse.core.ids import CallId
from pilothouse.core.message import DoneStep
from pilothouse.runtime.outbox import content_of, end_key
from pilothouse.runtime.turns.last_message import MAX_STEPS, DoneSteps


async def test_an_answer_carries_the_steps_of_its_turn(tmp_path: Path) -> None:
    async def play(strings: Strings) -> None:
        await strings.start()
        for id, kind, title, ok in (
            ("1", "read", "tool: Read main.py", True),
            ("2", "file_change", "edit: src/main.py", True),
            ("3", "command", "npm test", False),
            ("4", "file_change", "edit: src/main.py", True),
            ("5", "command", "npm test", True),
        ):
            await strings.tool(id, kind, title)
            await strings.tool_done(id, ok)
        await strings.end("Done.")

    async with open_rig(tmp_path, PuppetEngine(play)) as rig:
        await rig.channel.say("mend it")
        (turn,) = await rig.until_ended()
        row = await rig.store.read(lambda tx: tx.outbox.by_key(end_key(turn.id)))
        assert row is not None
        assert content_of(row).steps == (
            DoneStep("src/main.py"),
            DoneStep("npm test", ok=False, is_command=True),
            DoneStep("npm test", is_command=True),
        )


def test_a_step_has_its_last_title_and_counts_as_failed_until_it_ended_well() -> None:
    steps, id = DoneSteps(), CallId("1")
    steps.note(ToolStarted(ToolCall(id, "command", "command")))
    steps.note(ToolUpdated(id, "make\n  all"))
    assert steps.listed() == (DoneStep("make all", ok=False, is_command=True),)
    steps.note(ToolFinished(id, ok=True))
    steps.note(ToolFinished(CallId("other"), ok=True))
    assert steps.listed() == (DoneStep("make all", is_command=True),)


def test_a_turn_of_very_many_steps_keeps_the_first_ones() -> None:
    steps = DoneSteps()
    for number in range(MAX_STEPS * 2):
        steps.note(ToolStarted(ToolCall(CallId(str(number)), "command", f"step {number}")))
    assert [step.label for step in steps.listed()] == [f"step {number}" for number in range(MAX_STEPS)]


def test_hidden_characters_of_a_command_are_written_out() -> None:
    steps = DoneSteps()
    steps.note(ToolStarted(ToolCall(CallId("1"), "command", "echo safe \u202e; rm x")))
    assert steps.listed() == (DoneStep("echo safe \\u202e; rm x", ok=False, is_command=True),)
