"""The whole program with the real Codex: `pilothouse chat` on a terminal, killed while an ask is open."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.dists import ROOT, SRC, write_dist
from tests.engines.codex.api import Reply, Request, ScriptedApi, open_api, say, shell, wait_for
from tests.engines.codex.binary import codex_binary
from tests.engines.codex.rig import Rig
from tests.engines.gateway_terminal import WITHIN_S, Terminal, declared_plugins, until

pytestmark = pytest.mark.slow

MARK = "GATEWAY_UNDER_TEST"


class House:
    """A home of its own, whose only engine is the real Codex against the scripted API."""

    def __init__(self, folder: Path, api: ScriptedApi) -> None:
        self.rig = Rig(folder, api)
        self._mark = str(folder)
        self._home = folder / "house"
        self._home.mkdir()
        self._packages = write_dist(folder / "packages", "pilothouse", declared_plugins())
        lines = [
            "[gateway]",
            'default_engine = "codex"',
            "[engines.codex]",
            f"command = {json.dumps(str(codex_binary()))}",
            f'environment = ["{MARK}"]',
            "[isolation]",  # a jailed Codex ends with its gateway
            'kind = "none"',
        ]
        (self._home / "config.toml").write_text("\n".join(lines) + "\n")
        (self._home / "config.toml").chmod(0o600)

    @property
    def environ(self) -> dict[str, str]:
        path = os.pathsep.join(map(str, (SRC, self._packages, ROOT)))
        own = {"PYTHONPATH": path, "PILOTHOUSE_HOME": str(self._home), "COLUMNS": "100", "TERM": "xterm"}
        return {**self.rig.environment(), **own, "PILOTHOUSE_APPROVAL_MODE": "minimal", MARK: self._mark}

    def pids(self) -> list[int]:
        """The living processes of its app-servers, and of their commands."""
        wanted = f"{MARK}={self._mark}".encode()
        return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _carries(pid, wanted)]

    def asks(self, *words: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "pilothouse", "asks", *words, "--json"],
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=WITHIN_S,
            check=False,
        )
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def open_ask(self, terminal: Terminal) -> dict[str, Any]:
        found: list[dict[str, Any]] = []

        def look() -> bool:
            terminal.look()
            found[:] = self.asks()
            return len(found) == 1

        until(look, "one open ask", terminal.look)
        return found[0]["ask"]

    @contextmanager
    def chatting(self) -> Iterator[Terminal]:
        ours, theirs = pty.openpty()
        argv = [sys.executable, "-m", "pilothouse", "chat", "--workspace", str(self.rig.workspace)]
        process = subprocess.Popen(
            argv, env=self.environ, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        try:
            yield Terminal(ours, process)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
            os.close(ours)

    def clear(self) -> None:
        """End what a test that failed has left."""
        for pid in self.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _carries(pid: int, wanted: bytes) -> bool:
    try:
        return wanted in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def test_a_turn_that_ran_when_the_gateway_was_killed_is_shown_to_its_end(tmp_path: Path) -> None:
    """Pilothouse's tools are gone for the rest of that turn, and there again in the next one of its session."""
    restarted = threading.Event()
    by_tool = {"call": "send_message", "namespace": "mcp__pilothouse", "arguments": {"text": "By a tool."}}
    slow = Reply([{"say": "First words."}, wait_for(restarted), by_tool])
    with open_api(slow, say("And the last ones."), Reply([by_tool]), say("Told.")) as api:
        house = House(tmp_path, api)
        try:
            with house.chatting() as terminal:
                terminal.see("codex")
                terminal.type("Go\r")
                terminal.see("First words")
                terminal.process.kill()
                terminal.process.wait()
            with house.chatting() as terminal:
                terminal.see("Pilothouse stopped in the middle of this.")
                restarted.set()
                terminal.see("And the last ones.")
                terminal.type("Tell me\r")
                terminal.see("Told.")
        finally:
            house.clear()
    assert [("Delivered" in api.requests[number].outputs[-1]) for number in (1, 3)] == [False, True]
    assert len(api.requests) == 4, "nothing was run again"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = tmp_path / "work" / "made.txt"

    def model(request: Request) -> Reply:
        return say("all done") if made.exists() else shell("echo once >> made.txt")

    with open_api(model) as api:
        house = House(tmp_path, api)
        yield house
        house.clear()


def test_a_turn_and_its_ask_outlive_the_gateway_and_go_on_with_the_answer(house: House) -> None:
    made = house.rig.workspace / "made.txt"
    with house.chatting() as terminal:
        terminal.see("codex")
        terminal.type("Go\r")
        ask = house.open_ask(terminal)
        terminal.process.kill()
        terminal.process.wait()
    kept = house.pids()
    assert kept
    assert not made.exists()
    with house.chatting() as terminal:
        terminal.see("echo once >> made.txt")
        assert house.open_ask(terminal)["id"] == ask["id"]
        assert set(house.pids()) >= set(kept)
        assert house.asks("allow", ask["id"])["accepted"]
        terminal.see("all done")
        assert house.asks() == []
        terminal.process.send_signal(signal.SIGTERM)
        until(lambda: terminal.look() is not None and terminal.process.poll() is not None, "its end")
    until(lambda: not house.pids(), "the end of every process", lambda: str(house.pids()))
    assert made.read_text() == "once\n"
    # The model was told the result of the command, and no second prompt.
    assert [request.prompt for request in house.rig.api.requests] == ["Go", "Go"]


def test_a_gateway_that_leaves_takes_its_app_server_along(tmp_path: Path) -> None:
    with open_api(say("I am Ada.")) as api:
        house = House(tmp_path, api)
        with house.chatting() as terminal:
            terminal.see("codex")
            terminal.type("Who are you?\r")
            terminal.see("I am Ada.")
            assert house.pids()
            terminal.process.send_signal(signal.SIGTERM)
            until(lambda: terminal.look() is not None and terminal.process.poll() is not None, "its end")
            until(lambda: not house.pids(), "the end of every process", lambda: str(house.pids()))
