"""Approvals of the real CLI at a terminal: each answer that a person can give, typed; and the question about trust."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from tests.engines.claude.api import bash, call, open_api, say
from tests.engines.claude.test_real_gateway import House, Terminal, until

pytestmark = pytest.mark.slow

CTRL_U, ENTER = "\x15", "\r"


def leave(terminal: Terminal) -> None:
    terminal.process.send_signal(signal.SIGTERM)
    until(lambda: terminal.process.poll() is not None, "the end", terminal.look)


def ask_for(terminal: Terminal, what: str) -> None:
    terminal.see("Ctrl-D leaves")
    terminal.type("Go" + ENTER)
    terminal.see("deny, and say why")
    terminal.see(what)


def test_an_allowed_edit_was_shown_as_a_diff_and_is_done(tmp_path: Path) -> None:
    replies = (
        call("Read", file_path="a.txt"),
        call("Edit", file_path="a.txt", old_string="two", new_string="2"),
        say("Edited it."),
    )
    with open_api(*replies) as api:
        house = House(tmp_path, api)
        file = house.rig.workspace / "a.txt"
        file.write_text("one\ntwo\nthree\n")
        with house.chatting() as terminal:
            ask_for(terminal, "+2")
            assert all(line in terminal.screen for line in ("--- a.txt", "-two", " three", " one"))
            assert file.read_text() == "one\ntwo\nthree\n", "nothing is done before it is allowed"
            terminal.type("y")
            terminal.see("Edited it.")
            terminal.see("allowed, by")
            leave(terminal)
        assert file.read_text() == "one\n2\nthree\n"
    assert house.rig.leftovers() == []


def test_what_a_person_made_of_the_command_is_what_runs(tmp_path: Path) -> None:
    with open_api(bash("touch made.txt"), say("Made it.")) as api:
        house = House(tmp_path, api)
        with house.chatting() as terminal:
            ask_for(terminal, "touch made.txt")
            terminal.type("m" + ENTER)
            terminal.see("Change the command")
            terminal.type(CTRL_U + "touch other.txt" + ENTER)
            terminal.see("allowed with a change, by")
            terminal.see("Made it.")
            leave(terminal)
        assert [path.name for path in house.rig.workspace.iterdir()] == ["other.txt"]


def test_one_message_on_a_terminal_asks_there_and_takes_a_change(tmp_path: Path) -> None:
    with open_api(bash("touch made.txt"), say("Made it.")) as api:
        house = House(tmp_path, api)
        with house.chatting("Go") as terminal:
            terminal.see("Type one of these, then Enter.")
            terminal.type("m" + ENTER)
            terminal.see("❯")
            terminal.type(CTRL_U + "touch other.txt" + ENTER)
            terminal.see("Made it.")
            until(lambda: terminal.process.poll() is not None, "the end", terminal.look)
            assert terminal.process.returncode == 0
        assert [path.name for path in house.rig.workspace.iterdir()] == ["other.txt"]


def test_a_no_with_a_reason_is_heard_and_the_turn_goes_on(tmp_path: Path) -> None:
    with open_api(bash("touch made.txt"), say("As you wish.")) as api:
        house = House(tmp_path, api)
        with house.chatting() as terminal:
            ask_for(terminal, "touch made.txt")
            terminal.type("r" + ENTER)
            terminal.see("Why not?")
            terminal.type("not on a Friday" + ENTER)
            terminal.see("As you wish.")
            terminal.see("denied: not on a Friday, by")
            leave(terminal)
        assert "not on a Friday" in str(api.main[-1].tool_results)
        assert list(house.rig.workspace.iterdir()) == []


def test_a_plain_no_stops_the_turn(tmp_path: Path) -> None:
    with open_api(bash("touch made.txt"), say("never said")) as api:
        house = House(tmp_path, api)
        with house.chatting() as terminal:
            ask_for(terminal, "touch made.txt")
            terminal.type("n")
            terminal.see("■ stopped")
            leave(terminal)
        assert len(api.main) == 1
        assert list(house.rig.workspace.iterdir()) == []


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
            terminal.see("Not trusted.")
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
