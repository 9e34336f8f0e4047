"""Asks of the real CLI, answered from the shell: each once as it should be, and once with the gateway killed while it was
open. Nothing runs that was not allowed; the ask stands again, and its answer goes on with the work."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.engines.claude.api import Reply, Script, ScriptedApi, bash, call, open_api, say
from tests.engines.claude.test_real_gateway import WITHIN_S, House, Terminal, until

pytestmark = pytest.mark.slow

MAKE = bash("touch made.txt")
ASK = call(
    "AskUserQuestion",
    questions=[
        {
            "question": "Which sizes?",
            "header": "Sizes",
            "multiSelect": True,
            "options": [
                {"label": "S", "description": "small"},
                {"label": "M", "description": "middle"},
                {"label": "L", "description": "large"},
            ],
        }
    ],
)
killed = pytest.mark.parametrize("killed", [False, True], ids=["alive", "killed"])


class Shell:
    """`pilothouse`, beside whatever gateway runs."""

    def __init__(self, house: House) -> None:
        self._house = house

    def run(self, *words: str) -> Any:
        return self.pilothouse("asks", *words)

    def pilothouse(self, *words: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "pilothouse", *words, "--json"],
            env=self._house.environ,
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
            found[:] = self.run()
            return len(found) == 1

        until(look, "one open ask", terminal.look)
        return found[0]["ask"]

    def state_of(self, id: str) -> str:
        return self.run("show", id)["state"]


def answered(
    folder: Path, replies: tuple[Reply | Script, ...], *words: str, killed: bool, seen: str
) -> tuple[House, ScriptedApi]:
    """A turn asks; perhaps the gateway dies and another takes over; the shell answers, and `seen` comes up."""
    with open_api(*replies) as api:
        house = House(folder, api)
        shell = Shell(house)
        with house.chatting() as terminal:
            terminal.see("claude")
            terminal.type("Go\r")
            ask = shell.open_ask(terminal)
            if not killed:
                _answer(shell, house, terminal, ask, words, seen)
            terminal.process.kill()
            terminal.process.wait()
        if killed:
            assert not (house.rig.workspace / "made.txt").exists()
            with house.chatting() as terminal:
                terminal.see(ask["title"].splitlines()[0])
                assert shell.open_ask(terminal)["id"] == ask["id"], "it outlives the gateway that asked"
                _answer(shell, house, terminal, ask, words, seen)
        assert shell.run() == []
        return house, api


def _answer(
    shell: Shell, house: House, terminal: Terminal, ask: dict[str, Any], words: tuple[str, ...], seen: str
) -> None:
    assert not (house.rig.workspace / "made.txt").exists(), "nobody has allowed it"
    verb, *rest = words
    told = shell.run(verb, ask["id"], *rest)
    assert told["accepted"], told
    again = shell.run("allow" if verb == "deny" else "deny", ask["id"])
    assert not again["accepted"]
    terminal.see(seen)
    until(lambda: shell.state_of(ask["id"]) == "answered", "the answer", terminal.look)


def answering_with(reply: Reply, *, once: str, before: Reply = MAKE) -> Script:
    """`reply` when a tool's result says `once`, else what asks. By what was done, not by count: a process that is killed
    may have asked once more than we saw."""
    return lambda request: reply if once in str(request.tool_results) else before


def until_made(folder: Path) -> Script:
    return lambda _: say("all done") if (folder / "work" / "made.txt").exists() else MAKE


@killed
def test_what_was_allowed_runs_once(tmp_path: Path, killed: bool) -> None:
    house, _ = answered(tmp_path, (until_made(tmp_path),), "allow", killed=killed, seen="all done")
    assert (house.rig.workspace / "made.txt").exists()


@killed
def test_what_is_always_allowed_runs_and_is_a_rule_from_then_on(tmp_path: Path, killed: bool) -> None:
    house, _ = answered(
        tmp_path, (until_made(tmp_path),), "allow", "--always", killed=killed, seen="all done"
    )
    assert (house.rig.workspace / "made.txt").exists()
    assert "allow command touch" in str(Shell(house).pilothouse("rules"))


@killed
def test_what_was_denied_with_a_reason_does_not_run_and_the_engine_hears_why(
    tmp_path: Path, killed: bool
) -> None:
    reply = answering_with(say("as you wish"), once="not on a Friday")
    house, _ = answered(
        tmp_path, (reply,), "deny", "--reason", "not on a Friday", killed=killed, seen="as you wish"
    )
    assert not (house.rig.workspace / "made.txt").exists()


@killed
def test_a_plain_no_stops_the_turn(tmp_path: Path, killed: bool) -> None:
    house, api = answered(tmp_path, (lambda _: MAKE,), "deny", killed=killed, seen="Stopped")
    assert not (house.rig.workspace / "made.txt").exists()
    assert not any(request.tool_results for request in api.main), "nothing more was said to the model"


@killed
def test_a_question_gets_the_options_that_were_chosen(tmp_path: Path, killed: bool) -> None:
    reply = answering_with(say("noted, both"), once='"Which sizes?"="S, L"', before=ASK)
    answered(tmp_path, (reply,), "answer", "1", "L", killed=killed, seen="noted, both")
