"""The whole program with the real CLI: `pilothouse chat` on a terminal, killed, stopped, and hurried."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.dists import ROOT, SRC, write_dist
from tests.engines.claude.api import Reply, Request, ScriptedApi, bash, open_api, say
from tests.engines.claude.binary import VERSION, claude_binary, claude_version
from tests.engines.claude.rig import MARK, Rig
from tests.engines.gateway_terminal import WITHIN_S, Terminal, declared_plugins, until
from tests.forked import Forked, run

from pilothouse.engines.claude.gate_proof import PROOFS, remember_proof

pytestmark = pytest.mark.slow


class House:
    """A home of its own, whose only engine is the real CLI against the scripted API."""

    def __init__(self, folder: Path, api: ScriptedApi) -> None:
        self.rig = Rig(folder, api)
        self.mode = "minimal"
        """Empty: nobody has said, and whoever opens a chat is asked."""
        self.home = folder / "house"
        self.home.mkdir()
        self.packages = write_dist(folder / "packages", "pilothouse", declared_plugins())
        names = ["ANTHROPIC_*", "CLAUDE_CODE_*", "DISABLE_*", MARK]
        lines = [
            "[gateway]",
            'default_engine = "claude-code"',
            "[engines.claude]",
            f"command = {json.dumps(str(claude_binary()))}",
            f"environment = {json.dumps(names)}",
            "max_retries = 1",
        ]
        (self.home / "config.toml").write_text("\n".join(lines) + "\n")
        (self.home / "config.toml").chmod(0o600)
        remember_proof(
            self.home / "state" / "engines" / "claude" / PROOFS, str(claude_binary()), claude_version()
        )

    @property
    def environ(self) -> dict[str, str]:
        path = os.pathsep.join(map(str, (SRC, self.packages, ROOT)))
        own = {"PYTHONPATH": path, "PILOTHOUSE_HOME": str(self.home), "COLUMNS": "100", "TERM": "xterm"}
        mode = {"PILOTHOUSE_APPROVAL_MODE": self.mode} if self.mode else {}
        return {**self.rig.environment(), **own, **mode}

    def argv(self, *words: str) -> list[str]:
        return ["pilothouse", "chat", "--workspace", str(self.rig.workspace), *words]

    def say(self, text: str) -> str:
        """One question and its answer."""
        return self.ask(text).stdout

    def ask(self, *words: str) -> subprocess.CompletedProcess[str]:
        done = run(*self.argv(*words), env=self.environ, cwd=self.home, within_s=WITHIN_S)
        assert done.returncode == 0, done.stdout + done.stderr
        return done

    @contextmanager
    def chatting(self, *words: str) -> Iterator[Terminal]:
        ours, theirs = pty.openpty()
        streams = (theirs, theirs, theirs)
        process = Forked(*self.argv(*words), env=self.environ, cwd=self.home, streams=streams, session="new")
        os.close(theirs)
        try:
            yield Terminal(ours, process)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            os.close(ours)
            # Whatever a test that failed, or a kill, has left: it is ours.
            for pid in self.rig.pids():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def test_a_session_goes_on_after_the_gateway_was_killed_and_nothing_of_it_is_left(tmp_path: Path) -> None:
    with open_api(say("I am Ada."), say("Ada, as I said.")) as api:
        house = House(tmp_path, api)
        with house.chatting() as terminal:
            terminal.see("claude")
            terminal.type("Who are you?\r")
            terminal.see("I am Ada.")
            terminal.process.kill()
            terminal.process.wait()
        assert "Ada, as I said." in house.say("Who?")
        until(
            lambda: not house.rig.leftovers(), "the end of every process", lambda: str(house.rig.leftovers())
        )
        assert "I am Ada." in api.main[-1].text


def test_an_answer_from_the_terminal_has_its_effect_and_a_stop_leaves_nothing(tmp_path: Path) -> None:
    make = bash("touch made.txt; sh -c 'sleep 600; true'")
    with open_api(make, say("as you wish"), make, make, say("never said")) as api:
        house = House(tmp_path, api)
        made = house.rig.workspace / "made.txt"
        with house.chatting() as terminal:
            terminal.see("claude")
            terminal.type("Go\r")
            terminal.see("deny with a reason")
            terminal.type("r\r")
            terminal.see("Why not?")
            terminal.type("not on a Friday\r")
            terminal.see("as you wish")
            assert "not on a Friday" in str(api.main[1].tool_results)
            terminal.screen = ""
            terminal.type("Go\r")
            terminal.see("deny with a reason")
            terminal.type("n\r")
            terminal.see("■ stopped")
            assert len(api.main) == 3, "a plain no ends the turn"
            assert not made.exists()
            terminal.screen = ""
            terminal.type("Go\r")
            terminal.see("allow")
            assert not made.exists()
            terminal.type("y\r")
            until(made.exists, "the command", terminal.look)
            until(
                lambda: any(": sleep 600" in line for line in house.rig.leftovers()),
                "its child",
                lambda: "\n".join(line[-200:] for line in house.rig.leftovers()),
            )
            terminal.process.send_signal(signal.SIGTERM)
            until(lambda: terminal.process.poll() is not None, "the end", terminal.look)
            assert house.rig.leftovers() == []


def test_where_nobody_can_answer_it_is_denied_at_once_and_said(tmp_path: Path) -> None:
    with open_api(bash("touch made.txt"), say("then I leave it")) as api:
        house = House(tmp_path, api)
        began = time.monotonic()
        said = house.say("Go")
        assert "nobody can answer here" in str(api.main[-1].tool_results)
    assert "then I leave it" in said
    assert time.monotonic() - began < WITHIN_S
    assert not (house.rig.workspace / "made.txt").exists()


def test_the_ready_line_names_the_engine_its_version_and_the_folder(tmp_path: Path) -> None:
    with open_api(say("never")) as api:
        house = House(tmp_path, api)
        config = house.home / "config.toml"
        folder = json.dumps(str(house.rig.workspace))
        config.write_text(config.read_text().replace("[gateway]", f"[gateway]\ndefault_workspace = {folder}"))
        reading, writing = os.pipe()
        with open(reading) as told, open(os.devnull, "r+b") as nothing:
            streams = (nothing.fileno(), nothing.fileno(), writing)
            up = Forked("pilothouse", "up", env=house.environ, cwd=house.home, streams=streams)
            os.close(writing)
            try:
                line = next(line for line in told if "is ready" in line)
            finally:
                up.send_signal(signal.SIGTERM)
                up.wait(WITHIN_S)
        assert f"· claude {VERSION} · {house.rig.workspace} ·" in line
        with house.chatting() as terminal:
            terminal.see(f"claude {VERSION}")


def test_two_messages_at_once_to_a_new_session_are_one_session_in_order(tmp_path: Path) -> None:
    def model(request: Request) -> Reply:
        return say(
            "first" if "number one" in request.prompt and "number two" not in request.prompt else "second"
        )

    with ScriptedApi(model).serving() as api:
        house = House(tmp_path, api)
        with house.chatting() as terminal:
            terminal.see("claude")
            terminal.type("number one\r")
            terminal.type("number two\r")
            until(lambda: "number two" in "".join(r.prompt for r in api.main), "the second", terminal.look)
            terminal.see("second")
            terminal.process.send_signal(signal.SIGTERM)
            until(lambda: terminal.process.poll() is not None, "the end", terminal.look)
        prompts = [request.prompt for request in api.main]
        assert "number one" in prompts[0]
        assert "number one" in api.main[-1].text
        logs = list((house.rig.home / ".claude" / "projects").rglob("*.jsonl"))
        assert len(logs) == 1, "one session"
    assert house.rig.leftovers() == []
