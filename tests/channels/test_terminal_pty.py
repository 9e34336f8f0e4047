"""A real pty, a real line editor, real keys: what a person at a terminal does and sees."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.channels.terminal_rig import ROOT, Pty, leave_mark

from pilothouse.channels.terminal.config import TERMINAL
from pilothouse.core.message import Address

CTRL_C, CTRL_D, ENTER, UP = "\x03", "\x04", "\r", "\x1b[A"
HINT = "Ctrl-D leaves."


def test_a_message_is_answered_and_ctrl_d_leaves(tmp_path: Path) -> None:
    with Pty(str(tmp_path)) as terminal:
        terminal.wait_for("pilothouse 0.1.0 · script · /work/demo")
        terminal.wait_for(HINT)
        terminal.type("fix it" + ENTER)
        terminal.wait_for("± Edited src/auth/login.py  +3 −1")
        terminal.wait_for("it never expired.")
        terminal.wait_for("A test covers it.")
        terminal.wait_for("✓ 3 steps")
        terminal.type(CTRL_D)
        assert terminal.wait() == 0
        assert terminal.text.rstrip().endswith("`pilothouse chat` in this folder continues here.")
        assert terminal.text.count("it never expired.") == 1
        assert terminal.text.count("✓ 3 steps") == 1


def test_ctrl_c_stops_the_turn_and_the_next_two_leave(tmp_path: Path) -> None:
    with Pty(str(tmp_path)) as terminal:
        terminal.wait_for(HINT)
        terminal.type("slow" + ENTER)
        terminal.wait_for("Reading …/auth/login.py")
        terminal.type(CTRL_C)
        terminal.wait_for("Stopping…")
        terminal.wait_for("■ stopped")
        terminal.type(CTRL_C)
        terminal.wait_for("Ctrl-C again leaves.")
        terminal.type(CTRL_C)
        assert terminal.wait() == 0


def test_a_second_ctrl_c_leaves_a_turn_that_will_not_stop(tmp_path: Path) -> None:
    with Pty(str(tmp_path), "--deaf") as terminal:
        terminal.wait_for(HINT)
        terminal.type("slow" + ENTER)
        terminal.wait_for("Reading …/auth/login.py")
        terminal.type(CTRL_C)
        terminal.wait_for("Stopping…")
        terminal.type(CTRL_C)
        assert terminal.wait() == 0


def test_ctrl_c_first_empties_the_line(tmp_path: Path) -> None:
    with Pty(str(tmp_path)) as terminal:
        terminal.wait_for(HINT)
        terminal.type("half a thought")
        terminal.wait_for("half a thought")
        terminal.type(CTRL_C + "hello" + ENTER)
        terminal.wait_for("You said: hello")


@pytest.mark.parametrize(
    ("word", "shown", "key", "outcome"),
    [
        ("approve", "y allow once · n deny\n  r deny with a reason", "y" + ENTER, "answered:allow"),
        ("approve", "? Claude wants to run `rm -rf build`", "n" + ENTER, "answered:deny"),
        ("choose", "2 Blue", "2" + ENTER, "answered:answer"),
        ("name", "Type your answer, then Enter.", "Bob" + ENTER, "answered:answer"),
    ],
)
def test_an_ask_is_answered_by_key(tmp_path: Path, word: str, shown: str, key: str, outcome: str) -> None:
    with Pty(str(tmp_path)) as terminal:
        terminal.wait_for(HINT)
        terminal.type(word + ENTER)
        terminal.wait_for(shown)
        terminal.wait_for("Waiting for your answer")
        terminal.type(key)
        terminal.wait_for("→ Noted.")
        terminal.wait_for(f"You said: {outcome}")
        assert terminal.text.count("→") == 1


def test_a_no_may_come_with_a_reason(tmp_path: Path) -> None:
    with Pty(str(tmp_path)) as terminal:
        terminal.wait_for(HINT)
        terminal.type("approve" + ENTER)
        terminal.wait_for("Waiting for your answer")
        terminal.type("r" + ENTER)
        terminal.wait_for("Why not?")
        terminal.type(ENTER)
        terminal.wait_for("Not answered yet.")
        terminal.type("r" + ENTER + "you know why" + ENTER)
        terminal.wait_for("→ Noted.")
        terminal.wait_for("You said: answered:deny:you know why")


def test_an_ask_that_outlives_its_turn_is_answered_by_key(tmp_path: Path) -> None:
    with Pty(str(tmp_path)) as terminal:
        terminal.wait_for(HINT)
        terminal.type("lost" + ENTER)
        terminal.wait_for("✗ failed")
        terminal.type("y" + ENTER)
        terminal.wait_for("→ Noted.")
        terminal.wait_for("You said: answered:allow")
        terminal.type("yes" + ENTER)
        terminal.wait_for("You said: yes")


def test_an_ask_of_before_is_shown_at_the_opening_and_answered_by_key(tmp_path: Path) -> None:
    with Pty(str(tmp_path), "--open-ask") as terminal:
        terminal.wait_for("wants to run `rm -rf build`")
        terminal.type("y" + ENTER)
        terminal.wait_for("→ Noted.")
        terminal.wait_for("You said: answered:allow")


def test_a_mark_ahead_of_the_log_is_passed_over(tmp_path: Path) -> None:
    mark = leave_mark(tmp_path, Address(TERMINAL, "/work/demo"), 99_999)
    with Pty(str(tmp_path)) as terminal:
        terminal.wait_for(HINT)
        terminal.type("approve" + ENTER)
        terminal.wait_for("Waiting for your answer")
        terminal.type("y" + ENTER)
        terminal.wait_for("You said: answered:allow")
        terminal.type(CTRL_D)
        assert terminal.wait() == 0
    assert int(mark.read_text()) < 99


def test_an_answer_that_the_store_did_not_take_is_given_again(tmp_path: Path) -> None:
    with Pty(str(tmp_path), "--trouble") as terminal:
        terminal.wait_for(HINT)
        terminal.type("approve" + ENTER)
        terminal.wait_for("Waiting for your answer")
        terminal.type("y" + ENTER)
        terminal.wait_for("The store is locked. Answer again.")
        terminal.type("y" + ENTER)
        terminal.wait_for("→ Noted.")
        terminal.wait_for("You said: answered:allow")


def test_a_message_can_be_sent_while_a_turn_runs(tmp_path: Path) -> None:
    with Pty(str(tmp_path), "--busy") as terminal:
        terminal.wait_for(HINT)
        terminal.type("slow" + ENTER)
        terminal.wait_for("Reading …/auth/login.py")
        terminal.type("hello" + ENTER)
        terminal.wait_for("It waits for the turn before it.")


def test_what_was_typed_is_remembered_and_nobody_else_may_read_it(tmp_path: Path) -> None:
    with Pty(str(tmp_path)) as terminal:
        terminal.wait_for(HINT)
        terminal.type("hello" + ENTER)
        terminal.wait_for("You said: hello")
        terminal.type(CTRL_D)
        assert terminal.wait() == 0
    with Pty(str(tmp_path)) as terminal:
        terminal.wait_for(HINT)
        terminal.press_until(UP, "❯ hello")
        terminal.type(ENTER)
        terminal.wait_for("You said: hello")
    history = tmp_path / "terminal" / "history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert "hello" in history.read_text()


def test_at_60_columns_no_line_is_wider(tmp_path: Path) -> None:
    with Pty(str(tmp_path), columns=60) as terminal:
        terminal.wait_for(HINT)
        terminal.type("fix it" + ENTER)
        terminal.wait_for("✓ 3 steps")
        assert max(map(len, terminal.text.split("\n"))) <= 60


def test_what_is_said_of_a_message_is_broken_between_words(tmp_path: Path) -> None:
    with Pty(str(tmp_path), "--busy", columns=30) as terminal:
        terminal.wait_for(HINT)
        terminal.type("slow" + ENTER)
        terminal.wait_for("Reading")
        terminal.type("hello" + ENTER)
        terminal.wait_for("  It waits for the turn before\n  it.")


def test_what_failed_is_broken_between_words(tmp_path: Path) -> None:
    with Pty(str(tmp_path), columns=30) as terminal:
        terminal.wait_for(HINT)
        terminal.type("break" + ENTER)
        terminal.wait_for("The engine stopped without\nfinishing its turn.")


def test_a_dumb_terminal_gets_no_escape_at_all(tmp_path: Path) -> None:
    with Pty(str(tmp_path), environ={"TERM": "dumb"}) as terminal:
        terminal.wait_for(HINT)
        terminal.type("fix it\n")
        terminal.wait_for("✓ 3 steps")
        terminal.type("approve\n")
        terminal.wait_for("y allow")
        terminal.type("y\n")
        terminal.wait_for("You said: answered:allow")
        terminal.type("/exit\n")
        assert terminal.wait() == 0
        assert "\x1b" not in terminal.raw


@pytest.mark.parametrize("word", ["/exit", "/quit"])
def test_help_names_what_leaves_and_it_does(tmp_path: Path, word: str) -> None:
    with Pty(str(tmp_path)) as terminal:
        terminal.wait_for(HINT)
        terminal.type("/help\r")
        terminal.wait_for(word)
        terminal.type(f"{word}\r")
        assert terminal.wait() == 0


def test_no_color_is_honoured(tmp_path: Path) -> None:
    with Pty(str(tmp_path), "fix it", environ={"NO_COLOR": "1"}) as terminal:
        assert terminal.wait() == 0
        assert "\x1b[3" not in terminal.raw
        assert "it never expired" in terminal.text


def test_one_shot_ctrl_c_stops_the_turn(tmp_path: Path) -> None:
    with Pty(str(tmp_path), "slow") as terminal:
        terminal.wait_for("Reading …/auth/login.py")
        terminal.type(CTRL_C)
        terminal.wait_for("Stopping…")
        terminal.wait_for("■ stopped")
        assert terminal.wait() == 130


def test_one_shot_asks_on_the_tty(tmp_path: Path) -> None:
    with Pty(str(tmp_path), "approve") as terminal:
        terminal.wait_for("y allow")
        terminal.wait_for("Type one of these, then Enter.")
        terminal.type("what\n")
        terminal.wait_for("Press one of y, n, r, d, ?, then Enter.")
        terminal.type("y\n")
        terminal.wait_for("You said: answered:allow")
        assert terminal.wait() == 0
        assert terminal.text.count("→") == 1, "who answered here needs to be told once"


def test_one_shot_takes_a_reason_on_the_tty(tmp_path: Path) -> None:
    with Pty(str(tmp_path), "approve") as terminal:
        terminal.wait_for("Type one of these, then Enter.")
        terminal.type("r\n")
        terminal.wait_for("Why not?")
        terminal.type("not on a Friday\n")
        terminal.wait_for("You said: answered:deny:not on a Friday")
        assert terminal.wait() == 0


def test_a_closed_window_ends_it(tmp_path: Path) -> None:
    with Pty(str(tmp_path)) as terminal:
        terminal.wait_for(HINT)
        terminal.hang_up()
        assert terminal.process.wait(timeout=100) is not None


def test_piped_in_and_piped_out(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "tests.channels.terminal_scene", str(tmp_path)]
    done = subprocess.run(
        command, input="hello\n", capture_output=True, text=True, env=env, cwd=ROOT, timeout=100, check=False
    )
    assert (done.returncode, done.stdout) == (0, "You said: hello\n")
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("pilothouse.channels.terminal", ("rich", "prompt_toolkit", "anyio")),
        ("pilothouse.channels.memory", ("rich", "prompt_toolkit", "anyio")),
        ("pilothouse.channels.terminal.oneshot", ("rich", "prompt_toolkit")),
        ("pilothouse.channels.terminal.interactive", ("rich", "prompt_toolkit")),
    ],
)
def test_an_import_brings_nothing_heavy(module: str, unwanted: tuple[str, ...]) -> None:
    code = f"import sys, {module}; print([name for name in {unwanted!r} if name in sys.modules])"
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=True)
    assert done.stdout.strip() == "[]"
