"""The whole program with the native engine: a chat, Pilothouse's own tools, and the log of its requests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import tomllib
from pathlib import Path

import anyio
import pytest
from tests.dists import SRC
from tests.engines.native.model import Call, Reply, Request, open_model
from tests.engines.native.pairs import unpaired
from tests.forked import Forked, run

from pilothouse.engines.native.key_file import Kept, KeyFile

NOW = "mcp__pilothouse__list_tasks"


def script(request: Request) -> Reply:
    if NOW in request.text and not request.results:
        return Reply("Let me look.", [Call(NOW, {})])
    return Reply("There are none.")


class Home:
    def __init__(self, folder: Path, more: str) -> None:
        self.folder = folder
        self.work = folder / "work"
        self.work.mkdir()
        settings = f'[gateway]\ndefault_engine = "native"\n[engines.native]\n{more}'
        (folder / "config.toml").write_text(settings)

    @property
    def environ(self) -> dict[str, str]:
        home = str(self.folder)
        return {
            "PYTHONPATH": str(SRC),
            "HOME": home,
            "PILOTHOUSE_HOME": home,
            "COLUMNS": "200",
            "PATH": os.environ["PATH"],
        }

    def pilothouse(self, *words: str) -> subprocess.CompletedProcess[str]:
        return run("pilothouse", *words, env=self.environ, cwd=self.work)

    def kill_when(self, event: threading.Event, *words: str) -> None:
        """Start the program, and kill it with -9 once the event is set."""
        with open(os.devnull, "r+b") as nothing:
            streams = (nothing.fileno(),) * 3
            with Forked("pilothouse", *words, env=self.environ, cwd=self.work, streams=streams) as process:
                assert event.wait(50)
                os.kill(process.pid, signal.SIGKILL)
                process.wait()


def test_the_agent_calls_pilothouses_own_tools_and_its_requests_are_logged(tmp_path: Path) -> None:
    with open_model(script) as model:
        home = Home(tmp_path, f'provider = "compatible"\nbase_url = "{model.url}/v1"\nmodel = "scripted"\n')
        done = home.pilothouse("chat", "Which tasks are there?")
        assert done.returncode == 0, done.stderr
        assert "There are none." in done.stdout
        first, last = model.requests
    assert NOW in {tool["function"]["name"] for tool in first.body["tools"]}
    assert "No task" in last.results[0] or "no task" in last.results[0], last.results
    (turn,) = json.loads(home.pilothouse("turns", "--json").stdout)
    calls = json.loads(home.pilothouse("trace", turn["id"], "--calls", "--json").stdout)
    assert [(one["seq"], one["shared_prefix"], one["problem"]) for one in calls] == [
        (1, None, ""),
        (2, 1.0, ""),
    ]
    assert [one["bytes"] for one in calls] == [len(first.data), len(last.data)]
    shown = home.pilothouse("trace", turn["id"], "--calls").stdout
    assert "100.0%" in shown
    assert "compatible/scripted" in shown


def test_a_session_goes_on_after_the_program_was_killed_in_a_call(tmp_path: Path) -> None:
    """The first program dies while a command runs: the call has begun, and its result is not known."""
    ran = threading.Event()
    marker = tmp_path / "work" / "ran"

    def script(request: Request) -> Reply:
        if "again" in request.prompt:
            return Reply("I went on.")
        if not request.results:
            threading.Thread(target=watch, daemon=True).start()
            return Reply("Let me run it.", [Call("bash", {"command": "touch ran; sleep 60"})])
        return Reply("It ran.")

    def watch() -> None:
        while not marker.exists():
            ran.wait(0.02)
        ran.set()

    with open_model(script) as model:
        home = Home(
            tmp_path,
            f'provider = "compatible"\nbase_url = "{model.url}/v1"\nmodel = "scripted"\n'
            '[policy]\napproval_mode = "full-access"\n',
        )
        home.kill_when(ran, "chat", "run it")
        assert "I went on." in home.pilothouse("chat", "again").stdout
        last = model.requests[-1]
    assert unpaired(last.body) == set()
    assert "run it" in last.text
    assert "interrupted before its result was known" in last.text


def test_without_a_key_a_chat_that_cannot_ask_says_what_is_missing(tmp_path: Path) -> None:
    done = Home(tmp_path, "").pilothouse("chat", "Hello")
    assert done.returncode != 0
    assert "native agent has no key" in done.stdout + done.stderr


def test_init_leads_somebody_without_any_agent_to_this_one(tmp_path: Path) -> None:
    home = Home(tmp_path, "")
    (tmp_path / "config.toml").unlink()
    words = ("init", "--yes", "--no-telegram", "--no-discord", "--workspace", str(home.work))
    done = run("pilothouse", *words, env={**home.environ, "PATH": str(home.work)}, cwd=home.work)
    assert (
        "Native agent needs an API key only, and asks for it: pilothouse chat --engine native" in done.stdout
    )
    demo = tomllib.loads((SRC / "pilothouse/engines/script/demo.toml").read_text())
    assert all("`/engine native`" in str(turn) for turn in demo["turn"])


@pytest.mark.parametrize("words", [["trace", "x", "--calls"]])
def test_calls_of_a_turn_that_does_not_exist_are_an_error(tmp_path: Path, words: list[str]) -> None:
    done = Home(tmp_path, "").pilothouse(*words)
    assert "Traceback" not in done.stdout + done.stderr


def test_a_key_that_was_given_in_a_chat_is_seen_by_engines(tmp_path: Path) -> None:
    home = Home(tmp_path, "")
    assert "has no API key" in home.pilothouse("engines").stdout
    state = tmp_path / "state" / "engines" / "native"
    kept = Kept(keys={"openai": "no-key-at-all"}, provider="openai", model="gpt-5.4")

    def give(_before: Kept) -> Kept:
        return kept

    anyio.run(KeyFile(str(state)).change, give)
    told = home.pilothouse("engines").stdout
    assert "openai/gpt-5.4" in told
    assert "has no API key" not in told
    assert "no-key-at-all" not in told
