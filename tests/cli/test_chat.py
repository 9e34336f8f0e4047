"""`pilothouse chat` whole: the real program on a real terminal, with a scripted engine behind it."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.channels.terminal_rig import Pty
from tests.dists import SRC
from tests.forked import Forked, run

CTRL_D, ENTER = "\x04", "\r"
HINT = "Ctrl-D leaves."
CHAT = ("pilothouse", "chat")
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
        return run("pilothouse", *words, env=self.environ(), cwd=self.folder, within_s=50)

    def environ(self) -> dict[str, str]:
        """With nothing on PATH: no engine of this machine is found."""
        own = {"HOME": str(self.folder), "PILOTHOUSE_HOME": str(self.folder)}
        return {"PYTHONPATH": str(SRC), "PATH": str(self.folder), **own}

    @contextmanager
    def up(self) -> Iterator[Callable[[str], str]]:
        """A gateway beside the chats; the function returns the next line of its own with these words."""
        reading, writing = os.pipe()
        with open(reading) as stderr, open(os.devnull) as nothing:
            streams = (nothing.fileno(), writing, writing)
            process = Forked("pilothouse", "up", env=self.environ(), cwd=self.folder, streams=streams)
            os.close(writing)
            try:
                yield lambda words: next(line for line in stderr if words in line)
            finally:
                process.kill()
                process.wait()

    def wait_until_delivered(self) -> None:
        """A place is told how a question ended only if it is known that the question was shown there."""
        deadline = time.monotonic() + 100
        with closing(sqlite3.connect(self.folder / "pilothouse.db")) as db:
            while db.execute("SELECT count(*) FROM outbox WHERE ended_at IS NULL").fetchone() != (0,):
                assert time.monotonic() < deadline
                time.sleep(0.02)

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
        terminal.wait_for("one prompt may have 5")
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
    """P5: leaving waited ten seconds for a turn that only waits for an answer."""
    home = Home(tmp_path, ASK)
    home.write("grace_s = 600.0")
    with home.chat() as terminal:
        terminal.wait_for(HINT)
        terminal.type("go" + ENTER)
        terminal.wait_for("Waiting for your answer")
        terminal.type(CTRL_D)
        assert terminal.wait() == 0
        assert "Leaving" not in terminal.text
        assert "An approval is still open, for up to" in terminal.text
    (turn,) = home.listed("turns")
    assert (turn["status"], turn["failure"]) == ("cancelled", None)
    (ask,) = home.listed("asks")
    assert ask["state"] == "open"
    with home.chat() as terminal:
        terminal.wait_for("Answer it, and the work")
        terminal.wait_for("y allow once")
        terminal.type("y" + ENTER)
        terminal.wait_for("Pushed.")
        terminal.type(CTRL_D)
        assert terminal.wait() == 0
        assert terminal.text.count("? The demo wants to run `git push`\n  Push it?") == 1


def test_a_message_at_an_open_ask_waits_and_is_told_so(tmp_path: Path) -> None:
    """S11: it was told that its sender's request is still being worked on."""
    home = Home(tmp_path, ASK)
    with home.chat() as terminal:
        terminal.wait_for(HINT)
        terminal.type("go" + ENTER)
        terminal.wait_for("y allow once")
        home.wait_until_delivered()
        terminal.type("you should not push" + ENTER)
        terminal.wait_for("I'm waiting for your answer above; your message comes after it")
        terminal.type("yes" + ENTER)
        terminal.wait_for("Pushed.")
        terminal.wait_for("y allow once", times=2)


def test_one_message_answers_no_question_and_supersedes_that_of_a_lost_turn(tmp_path: Path) -> None:
    home = Home(tmp_path, QUESTION)
    home.write("grace_s = 0.1")
    with home.chat() as terminal:
        terminal.wait_for(HINT)
        terminal.type("go" + ENTER)
        terminal.wait_for("Waiting for your answer")
        home.wait_until_delivered()
        terminal.type(CTRL_D)
        assert terminal.wait() == 0
    done = home.pilothouse("chat", "by the way")
    assert (done.returncode, done.stdout) == (0, "heard: by the way\n")
    assert "No longer open: Which colour?" in done.stderr
    assert home.listed("asks") == []


def test_a_real_engine_takes_over_from_the_demo_and_the_header_says_so(tmp_path: Path) -> None:
    """B1: after the demo, Claude never answered in that folder, although the header named it."""
    home = Home(tmp_path)
    home.config.write_text(f'[engines.script]\nscript = "{tmp_path}/script.toml"\n')
    assert home.pilothouse("chat", "hi").stdout == "heard: hi\n"
    claude = tmp_path / "claude"
    claude.write_text("#!/bin/sh\necho 2.1.325\n")
    claude.chmod(0o755)
    taken_over = home.pilothouse("chat", "are you Claude now?")
    assert "· claude 2.1.325 ·" in taken_over.stderr
    assert "heard" not in taken_over.stdout
    assert [turn["engine"] for turn in home.listed("turns")] == ["claude", "script"]
    claude.unlink()
    left = home.pilothouse("chat", "and now?")
    assert "· claude ·" in left.stderr, (
        "the header names the engine of this conversation, though it does not work"
    )
    assert next(turn["engine"] for turn in home.listed("turns")) == "claude"
    home.write("", "[engines.claude]\nenabled = false\n")
    assert home.pilothouse("chat", "hi again").stdout == "heard: hi again\n"


def test_a_real_engine_takes_over_from_the_demo_of_a_running_gateway(tmp_path: Path) -> None:
    """B1 beside `up`: the header of a new chat named Claude, and the gateway's demo answered until it was restarted."""
    home = Home(tmp_path)
    home.config.write_text(f'[engines.script]\nscript = "{tmp_path}/script.toml"\n')
    with home.up() as told:
        said = told("warning: no coding agent")
        assert (
            "so the demo answers. To get one: npm install -g @anthropic-ai/claude-code, and log in." in said
        )
        assert home.pilothouse("chat", "hi").stdout == "heard: hi\n"
        claude = tmp_path / "claude"
        claude.write_text("#!/bin/sh\necho 2.1.325\n")
        claude.chmod(0o755)
        taken_over = home.pilothouse("chat", "are you Claude now?")
        assert "· claude 2.1.325 ·" in taken_over.stderr
        assert "heard" not in taken_over.stdout
        assert [turn["engine"] for turn in home.listed("turns")] == ["claude", "script"]


def test_a_chat_says_which_session_it_continues(tmp_path: Path) -> None:
    """S13: a chat went on with the old session without a word."""
    home = Home(tmp_path)
    assert "continuing" not in home.pilothouse("chat", "first words").stderr
    assert "continuing after “first words” · 1 turn, " in home.pilothouse("chat", "more").stderr
    with home.chat() as terminal:
        terminal.wait_for("continuing after “more” · 2 turns, ")
        terminal.wait_for("ago · /new starts afresh")
    assert "continuing" not in home.pilothouse("chat", "--new", "other words").stderr


def test_of_two_chats_in_one_folder_each_hears_the_replies_to_its_own(tmp_path: Path) -> None:
    """S2: replies came up in the other chat, and that one showed answers without their question."""
    home = Home(tmp_path)
    with home.chat() as one, home.chat() as other:
        for terminal in (one, other):
            terminal.wait_for(HINT)
        for times in (1, 2, 3):
            one.type("/queue" + ENTER)
            one.wait_for("Nothing waits.", times=times)
        one.type("hello there" + ENTER)
        one.wait_for("heard: hello there")
        other.wait_for("❯ hello there\n\nheard: hello there")
        assert "Nothing waits." not in other.text
        assert one.text.count("❯ hello there") == 1
