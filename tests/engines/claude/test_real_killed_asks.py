"""Asks of the real CLI, answered from the shell after the gateway was killed while they were open.

Nothing runs that was not allowed; the ask stands again, and its answer goes on with the work.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.engines.claude.api import Reply, Script, ScriptedApi, bash, call, in_order, open_api, say
from tests.engines.claude.test_real_gateway import House
from tests.engines.gateway_terminal import WITHIN_S, Terminal, until
from tests.forked import run

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


class Shell:
    """`pilothouse`, beside whatever gateway runs."""

    def __init__(self, house: House) -> None:
        self._house = house

    def run(self, *words: str) -> Any:
        return self.pilothouse("asks", *words)

    def pilothouse(self, *words: str) -> Any:
        env, folder = self._house.environ, self._house.home
        done = run("pilothouse", *words, "--json", env=env, cwd=folder, within_s=WITHIN_S)
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


def test_a_long_wait_needs_no_process_and_the_answer_goes_on_with_the_work(tmp_path: Path) -> None:
    with open_api(until_made(tmp_path)) as api:
        house = House(tmp_path, api)
        config = house.home / "config.toml"
        config.write_text(config.read_text().replace("[gateway]", "[gateway]\nhold_s = 0.2", 1))
        shell = Shell(house)
        with house.chatting() as terminal:
            terminal.see("claude")
            terminal.type("Go\r")
            ask = shell.open_ask(terminal)
            until(lambda: _is_released(house.home), "the end of its process", terminal.look)
            _answer(shell, house, terminal, ask, ("allow",), "all done")
        assert (house.rig.workspace / "made.txt").exists()


def _is_released(home: Path) -> bool:
    return any("turn.released" in path.read_text() for path in home.rglob("*.log"))


class Scenario(NamedTuple):
    """The model says `script`; the shell answers its ask with `words`, and `seen` comes up."""

    script: Script
    words: tuple[str, ...]
    seen: str


def scenarios(folder: Path) -> dict[str, Scenario]:
    reason = answering_with(say("as you wish"), once="not on a Friday")
    chosen = answering_with(say("noted, both"), once='"Which sizes?"="S, L"', before=ASK)
    return {
        "a reason": Scenario(reason, ("deny", "--reason", "not on a Friday"), "as you wish"),
        "a plain no": Scenario(in_order(MAKE), ("deny",), "· denied"),
        "options": Scenario(chosen, ("answer", "1", "L"), "noted, both"),
        "always": Scenario(until_made(folder), ("allow", "--always"), "all done"),
    }


@pytest.mark.timeout(180)
def test_each_answer_to_an_ask_of_a_killed_gateway_has_its_effect(tmp_path: Path) -> None:
    """The gateway that gets an answer asks the next question, and is killed."""
    with open_api(say("never said")) as api:
        house = House(tmp_path, api)
        shell = Shell(house)
        made = house.rig.workspace / "made.txt"
        ask: dict[str, Any] = {}
        answered: Scenario | None = None
        for name, scenario in scenarios(tmp_path).items():
            with house.chatting() as terminal:
                if answered:
                    _answer_again(shell, house, terminal, ask, answered)
                assert not made.exists()
                ask, answered = _ask(shell, terminal, api, name, scenario), scenario
        with house.chatting() as terminal:
            assert answered
            _answer_again(shell, house, terminal, ask, answered)
        assert made.exists()
        assert shell.run() == []
        assert "allow path made.txt" in str(shell.pilothouse("rules"))


def _ask(shell: Shell, terminal: Terminal, api: ScriptedApi, name: str, scenario: Scenario) -> dict[str, Any]:
    """A turn asks, and its gateway dies."""
    api.script = scenario.script
    api.requests.clear()
    terminal.see("claude")
    terminal.type(f"Go on with {name}\r")
    ask = shell.open_ask(terminal)
    terminal.process.kill()
    terminal.process.wait()
    return ask


def _answer_again(
    shell: Shell, house: House, terminal: Terminal, ask: dict[str, Any], scenario: Scenario
) -> None:
    terminal.see(ask["title"].splitlines()[0])
    assert shell.open_ask(terminal)["id"] == ask["id"], "it outlives the gateway that asked"
    house.rig.api.requests.clear()  # a CLI whose gateway is killed may tell the model so, before it ends
    _answer(shell, house, terminal, ask, scenario.words, scenario.seen)
    if scenario.words == ("deny",):
        told = any(request.tool_results for request in house.rig.api.main)
        assert not told, "nothing more was said to the model"
