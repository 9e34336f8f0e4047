"""`pilothouse chat` whole: the real program on a real terminal, with a scripted engine behind it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.channels.terminal_rig import Pty
from tests.dists import SRC

CTRL_C, CTRL_D, ENTER = "\x03", "\x04", "\r"
HINT = "Ctrl-D leaves."
CHAT = (
    "-c",
    "import fcntl, runpy, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); runpy.run_module('pilothouse', run_name='__main__')",
    "chat",
)
"""It takes the pty for its own, as a shell's programs have theirs: Ctrl-C there reaches it."""
ASK = """\
[[turn]]
steps = [
  { ask = "Push it?", payload = { tool = "Bash", input = { command = "git push" } }, on_allow = [{ say = "Pushed." }] },
]
"""
QUESTION = """\
[[turn]]
match = "by the way"
steps = [ { say = "heard: {prompt}" } ]
[[turn]]
steps = [ { ask = "Which colour?", kind = "question", free_text = true }, { say = "{answer} it is" } ]
"""
SAY = '[[turn]]\nsteps = [ { say = "heard: {prompt}" } ]\n'


class Home:
    """A house of its own, and the folder that is talked about in it."""

    def __init__(self, folder: Path, script: str = SAY) -> None:
        self.folder = folder
        self.config = folder / "config.toml"
        (folder / "script.toml").write_text(script)
        self.write("")

    def write(self, gateway: str, more: str = "") -> None:
        """In one step, as editors do: half a file is another edit."""
        fresh = self.folder / "fresh.toml"
        fresh.write_text(
            f'[engines.script]\nscript = "{self.folder}/script.toml"\n'
            f'[gateway]\ndefault_engine = "script"\n{gateway}\n{more}'
        )
        fresh.replace(self.config)

    def chat(self, *words: str) -> Pty:
        environ = {"HOME": str(self.folder), "PILOTHOUSE_HOME": str(self.folder)}
        return Pty("--approval-mode", "minimal", *words, program=CHAT, folder=self.folder, environ=environ)

    def pilothouse(self, *words: str) -> subprocess.CompletedProcess[str]:
        """With nothing on PATH: no engine of this machine is found."""
        environ = {"PYTHONPATH": str(SRC), "HOME": str(self.folder), "PILOTHOUSE_HOME": str(self.folder)}
        return subprocess.run(
            [sys.executable, "-m", "pilothouse", *words],
            env=environ | {"PATH": str(self.folder)},
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )

    def logged(self, event: str) -> list[dict[str, object]]:
        rows = map(json.loads, (self.folder / "logs" / "pilothouse.log").read_text().splitlines())
        return [row for row in rows if row["event"] == event]

    def listed(self, *words: str) -> list[dict[str, Any]]:
        return json.loads(self.pilothouse(*words, "--json").stdout)


def test_an_edit_of_the_configuration_is_in_force_and_told_in_the_chat(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with home.chat() as terminal:
        terminal.wait_for(HINT)
        home.write("max_message_chars = 5\nmax_turns_at_once = 2")
        terminal.wait_for("The configuration was edited. Now in force: gateway.max_message_chars;")
        terminal.wait_for("restart: gateway.max_turns_at_once")
        terminal.type("much too long" + ENTER)
        terminal.wait_for("at most 5 go into one")
        terminal.type(CTRL_D)
        assert terminal.wait() == 0
        assert "heard" not in terminal.text
    assert len(home.logged("config.reloaded")) == 1


def test_a_broken_edit_is_told_in_the_chat_and_changes_nothing(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with home.chat() as terminal:
        terminal.wait_for(HINT)
        home.write("max_message_chars = 'few'")
        terminal.wait_for("The configuration is broken, so the last good one stays in force:")
        terminal.wait_for("gateway.max_message_chars")
        terminal.type("as long as before" + ENTER)
        terminal.wait_for("heard: as long as before")
        terminal.type(CTRL_D)
        assert terminal.wait() == 0


def test_an_engine_that_is_not_installed_is_refused_with_what_doctor_says(tmp_path: Path) -> None:
    home = Home(tmp_path)
    refused = home.pilothouse("chat", "/engine claude")
    assert refused.returncode == 1
    problem, fix = "There is no 'claude' on PATH.", "npm install -g @anthropic-ai/claude-code"
    assert f"claude does not work here: {problem} To fix it: {fix}." in refused.stdout
    assert "the engine is script" in refused.stdout
    advised = home.pilothouse("doctor").stdout
    assert problem in advised and fix in advised
    assert home.pilothouse("chat", "still there?").stdout == "heard: still there?\n"


def test_so_is_one_that_a_flag_names_and_it_is_not_kept(tmp_path: Path) -> None:
    home = Home(tmp_path)
    for words in (("hi",), ()):
        refused = home.pilothouse("chat", "--engine", "claude", *words)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "claude does not work here" in refused.stderr
        assert "To fix it: npm install" in refused.stderr
    assert home.pilothouse("chat", "hi").stdout == "heard: hi\n"


def test_whoever_leaves_at_an_open_ask_has_left_and_the_ask_stays(tmp_path: Path) -> None:
    home = Home(tmp_path, ASK)
    home.write("grace_s = 600.0")
    with home.chat() as terminal:
        terminal.wait_for(HINT)
        terminal.type("go" + ENTER)
        terminal.wait_for("Waiting for your answer")
        terminal.type(CTRL_D)
        terminal.wait_for("Ctrl-C leaves now.")
        terminal.type(CTRL_C)
        assert terminal.wait() == 0
    (turn,) = home.listed("turns")
    assert (turn["status"], turn["failure"]) == ("cancelled", None)
    (ask,) = home.listed("asks")
    assert ask["state"] == "open"
    with home.chat() as terminal:
        terminal.wait_for("The question stays open")
        terminal.wait_for("y allow")
        terminal.type("y")
        terminal.wait_for("Pushed.")
        terminal.type(CTRL_D)
        assert terminal.wait() == 0
        assert terminal.text.count("? Push it?") == 1


def test_one_message_answers_no_question_and_supersedes_that_of_a_lost_turn(tmp_path: Path) -> None:
    home = Home(tmp_path, QUESTION)
    home.write("grace_s = 0.1")
    with home.chat() as terminal:
        terminal.wait_for(HINT)
        terminal.type("go" + ENTER)
        terminal.wait_for("Waiting for your answer")
        terminal.type(CTRL_D)
        assert terminal.wait() == 0
    done = home.pilothouse("chat", "by the way")
    assert (done.returncode, done.stdout) == (0, "heard: by the way\n")
    assert "No longer open: Which colour?" in done.stderr
    assert home.listed("asks") == []
