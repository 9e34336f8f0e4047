"""Keys on a real pty: none of them ends the prompt, and none answers a question while somebody is typing."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from tests.channels.terminal_rig import Pty

ALT_ENTER, CTRL_C, CTRL_J, CTRL_O, CTRL_R, CTRL_V, CTRL_Z = (
    "\x1b\r",
    "\x03",
    "\n",
    "\x0f",
    "\x12",
    "\x16",
    "\x1a",
)
ENTER, ESCAPE, TAB = "\r", "\x1b", "\t"
HINT = "Ctrl-D leaves."
READY = "press y or n"
"""Shown once the question was on the screen long enough to be read."""
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


@pytest.mark.parametrize(
    "key",
    [ALT_ENTER, CTRL_O, CTRL_J, CTRL_Z, CTRL_V, f"{CTRL_R}x{ENTER}", ESCAPE, "\x1b#", "\x18\x05", "\x1c"],
)
def test_no_key_ends_the_prompt(tmp_path: Path, key: str) -> None:
    """B2: Alt+Enter, Escape with Enter, and Ctrl-O ended the prompt. S15: so did Enter in a search."""
    with Pty(str(tmp_path)) as terminal:
        terminal.wait_for(HINT)
        terminal.type("one")
        terminal.wait_for("❯ one")
        terminal.type(key)
        terminal.type(CTRL_C + "hello" + ENTER)
        terminal.wait_for("You said: hello")


@pytest.mark.parametrize("key", [ALT_ENTER, CTRL_J, "\\" + ENTER])
def test_a_new_line_is_made_in_three_ways(tmp_path: Path, key: str) -> None:
    """S8: no key made a new line. P28: further lines were not indented."""
    with Pty(str(tmp_path)) as terminal:
        terminal.wait_for(HINT)
        terminal.type(f"one{key}two")
        terminal.wait_for("❯ one\n  two")
        terminal.type(ENTER)
        terminal.wait_for("You said: one")
        assert "❯ one\n  two\n" in terminal.text


def test_escape_stops_the_turn_and_keeps_what_is_typed(tmp_path: Path) -> None:
    """B2: Escape is Claude Code's key to stop. P1: a stop took five lines."""
    with Pty(str(tmp_path)) as terminal:
        terminal.wait_for(HINT)
        terminal.type("slow" + ENTER)
        terminal.wait_for("Reading …/auth/login.py")
        terminal.type("hello")
        terminal.wait_for("❯ hello")
        terminal.type(ESCAPE)
        terminal.wait_for("  Stopping…\n■ stopped")
        terminal.wait_for("❯ hello")
        assert "failed" not in terminal.text and "Stopped." not in terminal.text
        terminal.type(ENTER)
        terminal.wait_for("You said: hello")


def test_a_search_in_the_history_ends_with_enter(tmp_path: Path) -> None:
    """S15: after Ctrl-R and Enter the prompt stayed `(reverse-i-search)`."""
    with Pty(str(tmp_path)) as terminal:
        terminal.wait_for(HINT)
        terminal.type("alpha" + ENTER)
        terminal.wait_for("You said: alpha")
        terminal.type(CTRL_R + "alp")
        terminal.wait_for("reverse-i-search")
        terminal.type(ENTER)
        terminal.wait_until_gone("reverse-i-search")
        terminal.type(ENTER)
        terminal.wait_for("You said: alpha", times=2)
        terminal.type("beta" + ENTER)
        terminal.wait_for("You said: beta")


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("/sta", "❯ /status"),
        ("/resume ses", "❯ /resume session-7"),
        ("/model op", "❯ /model opus"),
        ("look at @not", "❯ look at @notes.md"),
    ],
)
def test_tab_completes_commands_sessions_models_and_files(tmp_path: Path, typed: str, completed: str) -> None:
    """S8: Tab did nothing."""
    (tmp_path / "notes.md").write_text("")
    with Pty(str(tmp_path), "--here") as terminal:
        terminal.wait_for(HINT)
        terminal.type(typed + TAB)
        terminal.wait_for(completed)


@pytest.mark.parametrize("sentence", ["you should not delete", "no idea, wait", "yes but look first"])
def test_a_message_that_begins_with_an_answer_answers_nothing(tmp_path: Path, sentence: str) -> None:
    """S1: "you should not delete" allowed `rm -rf build`, and left "ou should not delete" in the line."""
    with Pty(str(tmp_path)) as terminal:
        terminal.wait_for(HINT)
        terminal.type("approve" + ENTER)
        terminal.wait_for(READY)
        terminal.type(sentence)
        terminal.wait_for(f"❯ {sentence}")
        terminal.type(ENTER)
        terminal.wait_for(f"You said: {sentence.split(maxsplit=1)[0]}")
        assert "→ Noted." not in terminal.text


@pytest.mark.parametrize(
    ("typed", "outcome"), [("yes", "answered:allow"), ("no", "answered:deny"), ("allow", "answered:allow")]
)
def test_a_typed_word_is_the_whole_answer(tmp_path: Path, typed: str, outcome: str) -> None:
    """S1: "yes" allowed and sent "es" to the model. S11: a plain yes waited behind the question."""
    with Pty(str(tmp_path)) as terminal:
        terminal.wait_for(HINT)
        terminal.type("approve" + ENTER)
        terminal.wait_for("wants to run `rm -rf build`")
        terminal.type(typed + ENTER)
        terminal.wait_for(f"You said: {outcome}")
        assert terminal.text.count("You said:") == 1


@pytest.mark.parametrize(("key", "outcome"), [("y", "answered:allow"), ("n", "answered:deny")])
def test_a_key_that_comes_alone_answers_without_enter(tmp_path: Path, key: str, outcome: str) -> None:
    with Pty(str(tmp_path)) as terminal:
        terminal.wait_for(HINT)
        terminal.type("approve" + ENTER)
        terminal.wait_for(READY)
        terminal.type(key)
        terminal.wait_for(f"You said: {outcome}")


def test_of_two_asks_one_is_on_the_screen_at_a_time(tmp_path: Path) -> None:
    """S4: with two questions, nothing showed which one a key answers."""
    with Pty(str(tmp_path)) as terminal:
        terminal.wait_for(HINT)
        terminal.type("two" + ENTER)
        terminal.wait_for("1 more after this")
        assert "Which colour?" not in terminal.text
        terminal.type("yes" + ENTER)
        terminal.wait_for("? Claude asks: Which colour?")
        terminal.wait_for("press 1 or 2")
        terminal.type("2" + ENTER)
        terminal.wait_for("You said: answered:answer")


def test_words_are_shown_as_they_are_written(tmp_path: Path) -> None:
    """P25: a paragraph appeared only when it was complete."""
    with Pty(str(tmp_path)) as terminal:
        terminal.wait_for(HINT)
        terminal.type("stream" + ENTER)
        terminal.wait_for("The first words of a long")
        terminal.type(ESCAPE)
        terminal.wait_for("■ stopped")
        assert terminal.text.count("The first words of a long") == 1


def test_every_command_that_ran_and_every_changed_file_leaves_a_line(tmp_path: Path) -> None:
    """S9: what ran left no trace. P3: the path of a file in the workspace is relative to it."""
    with Pty(str(tmp_path)) as terminal:
        terminal.wait_for(HINT)
        terminal.type("ran" + ENTER)
        terminal.wait_for("The tool said 4.")
        assert "  $ python3 main.py\n  ± Edited main.py\n" in terminal.text
        assert "passwd" not in terminal.text, "looking is no deed"


@pytest.mark.parametrize(
    "typed",
    [
        "look at @my-pic.png, please",
        "'{folder}/my-pic.png'",
        "{folder}/my\\-pic.png what is it",
        "see file://{folder}/my%2Dpic.png",
    ],
)
def test_an_image_is_sent_by_its_path(tmp_path: Path, typed: str) -> None:
    """Named behind `@`, or dragged into the window: quoted, escaped, or as an address."""
    (tmp_path / "my-pic.png").write_bytes(PNG)
    with Pty(str(tmp_path), "--here", columns=200) as terminal:
        terminal.wait_for(HINT)
        terminal.type(typed.format(folder=tmp_path) + ENTER)
        terminal.wait_for("+ my-pic.png (image/png, 28 B)")
        terminal.wait_for("You said: sent:my-pic.png")


def test_an_image_is_pasted_with_ctrl_v(tmp_path: Path) -> None:
    """The program that reads the clipboard stands in for a desktop's."""
    (tmp_path / "pic").write_bytes(PNG)
    reader = tmp_path / "wl-paste"
    reader.write_text(f"#!/bin/sh\ncat {tmp_path}/pic\n")
    reader.chmod(reader.stat().st_mode | stat.S_IXUSR)
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    with Pty(str(tmp_path), "--here", columns=200, environ=environ) as terminal:
        terminal.wait_for(HINT)
        terminal.type("what is " + CTRL_V)
        terminal.wait_for("❯ what is @")
        terminal.wait_for(".png")
        terminal.type(ENTER)
        terminal.wait_for("You said: sent:pasted-")
