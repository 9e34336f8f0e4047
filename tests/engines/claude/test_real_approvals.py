"""Approvals of the real CLI at a terminal: an edit, a changed command, and the question about trust.

A no is in `test_real_gateway.py`.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from tests.engines.claude.api import bash, call, open_api, say
from tests.engines.claude.test_real_gateway import House
from tests.engines.gateway_terminal import Terminal, until

pytestmark = pytest.mark.slow

CTRL_U, ENTER = "\x15", "\r"


def leave(terminal: Terminal) -> None:
    terminal.process.send_signal(signal.SIGTERM)
    until(lambda: terminal.process.poll() is not None, "the end", terminal.look)


def made_in(workspace: Path) -> list[str]:
    """Lists what the agent made: without our folder of transcripts."""
    return sorted(path.name for path in workspace.iterdir() if path.name != ".pilothouse")


def ask_for(terminal: Terminal, what: str) -> None:
    terminal.type("Go" + ENTER)
    terminal.see("deny with a reason")
    terminal.see(what)


def test_an_allowed_edit_was_shown_as_a_diff_and_a_changed_command_is_what_runs(tmp_path: Path) -> None:
    replies = (
        call("Read", file_path="a.txt"),
        call("Edit", file_path="a.txt", old_string="two", new_string="2"),
        say("Edited it."),
        bash("touch made.txt"),
        say("Made it."),
    )
    with open_api(*replies) as api:
        house = House(tmp_path, api)
        file = house.rig.workspace / "a.txt"
        file.write_text("one\ntwo\nthree\n")
        with house.chatting() as terminal:
            terminal.see("Ctrl-D leaves")
            ask_for(terminal, "+2")
            assert all(line in terminal.screen for line in ("--- a.txt", "-two", " three", " one"))
            assert file.read_text() == "one\ntwo\nthree\n", "nothing is done before it is allowed"
            terminal.type("y" + ENTER)
            terminal.see("Edited it.")
            terminal.see("Allowed by")
            terminal.screen = ""
            ask_for(terminal, "touch made.txt")
            terminal.type("m" + ENTER)
            terminal.see("Change the command")
            terminal.type(CTRL_U + "touch other.txt" + ENTER)
            terminal.see("Allowed with a change by")
            terminal.see("Made it.")
            leave(terminal)
        assert file.read_text() == "one\n2\nthree\n"
        assert made_in(house.rig.workspace) == ["a.txt", "other.txt"]
    assert house.rig.leftovers() == []


def test_one_message_on_a_terminal_asks_there_and_takes_a_change(tmp_path: Path) -> None:
    with open_api(bash("touch made.txt"), say("Made it.")) as api:
        house = House(tmp_path, api)
        with house.chatting("Go") as terminal:
            terminal.see("Type one of these, then Enter.")
            terminal.screen = ""
            terminal.type("m" + ENTER)
            terminal.see("touch made.txt")  # the line is filled in
            terminal.type(CTRL_U + "touch other.txt" + ENTER)
            terminal.see("Made it.")
            until(lambda: terminal.process.poll() is not None, "the end", terminal.look)
            assert terminal.process.returncode == 0
        assert made_in(house.rig.workspace) == ["other.txt"]


def test_a_folder_that_brings_hooks_is_asked_about_once_and_the_answer_counts(tmp_path: Path) -> None:
    with open_api(say("Hello."), say("Hello again.")) as api:
        house = House(tmp_path, api)
        mark = tmp_path / "hooked"
        hook = {"hooks": [{"type": "command", "command": f"touch {mark}"}]}
        settings = house.rig.workspace / ".claude" / "settings.json"
        settings.parent.mkdir()
        settings.write_text(json.dumps({"hooks": {"UserPromptSubmit": [hook]}}))
        with house.chatting() as terminal:
            terminal.see("Trust this folder?")
            assert "settings and hooks, which run programs" in terminal.screen
            terminal.type("n\n")
            terminal.see("The folder is not trusted.")
            terminal.see("Ctrl-D leaves")
            terminal.type("Hi" + ENTER)
            terminal.see("Hello.")
            leave(terminal)
        assert not mark.exists()
        with house.chatting("--trust") as terminal:
            terminal.see("Ctrl-D leaves")
            assert "Trust this folder?" not in terminal.screen
            terminal.type("Hi" + ENTER)
            terminal.see("Hello again.")
            leave(terminal)
        assert mark.exists()
