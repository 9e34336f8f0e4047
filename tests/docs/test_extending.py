"""docs/extending.md: its samples are plugins that load, and pass our conformance suites, with nothing else around them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import anyio
import pytest
from tests.dists import ROOT, SRC, write_dist

from pilothouse.core.ask import Ask, hash_payload
from pilothouse.core.channel import Desk
from pilothouse.core.engine import Brief
from pilothouse.core.event import Asked, ResumeToken, ToolStarted, TurnEnded
from pilothouse.core.ids import AskId, SessionId
from pilothouse.core.message import Content
from pilothouse.core.policy import Ruling, Site
from pilothouse.core.turn import Prompt
from pilothouse.testing.desk import ScriptedDesk
from pilothouse.testing.hosts import channel_host, engine_host

PAGES = [ROOT / "docs" / "extending.md", ROOT / "docs" / "engines" / "script.md"]
SAMPLE = re.compile(r"`(\w+)\.py`:\n\n```python\n(.*?)```", re.DOTALL)
WHISPER_TEST = """
import pytest
from test_shell_engine import ShellRig
from whisper_engine import ENGINE

from pilothouse.testing.engine import EngineConformance


class WhisperRig(ShellRig):
    tool_prompt = ask_prompt = failing_prompt = ""
    long_prompt = "word " * 10_000

    def build(self):
        return ENGINE.build(ENGINE.config(), self.host)

    def prompt_saying(self, word):
        return f"I say {word}."


class TestWhisper(EngineConformance):
    @pytest.fixture
    def rig(self, tmp_path):
        return WhisperRig(tmp_path)
"""
LIST = """
import json
from pilothouse.plugins import Loaded, Plugins
found = Plugins()
rows = [*found.engines(), *found.channels()]
print(json.dumps({row.name: row.spec.id if isinstance(row, Loaded) else row.error for row in rows}))
"""


def samples() -> dict[str, str]:
    return {name: code for page in PAGES for name, code in SAMPLE.findall(page.read_text())}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The samples, installed with the entry points that the page declares."""
    declared = re.search(r"```toml\n(\[project\].*?)```", PAGES[0].read_text(), re.DOTALL)
    assert declared
    project = tomllib.loads(declared[1])["project"]
    points = {group.removeprefix("pilothouse."): rows for group, rows in project["entry-points"].items()}
    modules = {**samples(), "test_whisper_engine": WHISPER_TEST}
    return write_dist(tmp_path / "package", project["name"], points, modules)


def run_python(package: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COVERAGE"))}
    environment = {**clean, "PYTHONPATH": f"{SRC}{os.pathsep}{package}"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=package,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def load(package: Path, name: str) -> ModuleType:
    spec = spec_from_file_location(name, package / f"{name}.py")
    assert spec and spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_each_sample_passes_its_suite(package: Path) -> None:
    options = ["-v", "-c", os.devnull, "--rootdir", str(package), "-p", "no:cacheprovider"]
    done = run_python(package, "-m", "pytest", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    passed = Counter(re.findall(r"(?m)^test_(\w+)\.py::.* PASSED", done.stdout))
    assert passed["shell_engine"] >= 9, done.stdout
    assert passed["whisper_engine"] >= 7, done.stdout
    assert passed["notes_channel"] >= 50, done.stdout


def test_the_table_of_the_desk_names_each_of_its_methods_and_no_other() -> None:
    table = PAGES[0].read_text().partition("| of the desk | for |\n|---|---|\n")[2].partition("\n\n")[0]
    named = {name for row in table.splitlines() for name in re.findall(r"`(\w+)[`(]", row.split(" | ")[0])}
    assert named == {name for name in vars(Desk) if not name.startswith("_")}


def test_the_samples_load_as_plugins(package: Path) -> None:
    rows = json.loads(run_python(package, "-c", LIST).stdout)
    assert {name: rows.get(name) for name in ("shell", "whisper", "notes")} == {
        "shell": "shell",
        "whisper": "whisper",
        "notes": "notes",
    }


@pytest.mark.anyio
async def test_the_sample_engine_runs_nothing_that_a_rule_denies(package: Path) -> None:
    async def deny(ask: Ask, site: Site) -> Ruling:
        return Ruling("deny", "deny command touch")

    module = load(package, "shell_engine")
    engine = module.ShellEngine(module.ShellConfig(), engine_host(package, judge=deny))
    async with engine.open(Brief(SessionId("one"), str(package))) as session:
        events = [event async for event in session.run(Prompt("touch ran"))]
    assert not any(isinstance(event, ToolStarted) for event in events)
    assert isinstance(events[-1], TurnEnded)
    assert "deny command touch" in events[-1].answer
    assert not (package / "ran").exists()


@pytest.mark.anyio
async def test_the_sample_engine_asks_again_for_what_was_open_at_a_restart(package: Path) -> None:
    module, asks = load(package, "shell_engine"), list[Ask]()
    engine = module.ShellEngine(module.ShellConfig(), engine_host(package))
    token = ResumeToken(module.ID, "0" * 32)
    for prompt in (Prompt("touch ran"), Prompt("Continue.", by="pilothouse")):
        async with engine.open(Brief(SessionId("one"), str(package), resume=token)) as session:
            asks.append(
                await anext(event.ask async for event in session.run(prompt) if isinstance(event, Asked))
            )
    first, second = asks
    assert first.payload_hash == second.payload_hash


@pytest.mark.anyio
async def test_a_line_of_the_sample_channel_answers_its_ask(package: Path) -> None:
    module, desk = load(package, "notes_channel"), ScriptedDesk()
    payload = {"tool": "Bash", "input": {"command": "make"}, "cwd": "/work"}
    ask = Ask(AskId("ask-1"), "approval", "Run make", payload, hash_payload(payload))
    desk.open_asks.append(ask)
    channel = module.NotesChannel(module.NotesConfig(str(package), 0.01), channel_host(package))
    (part,) = channel.render(Content(ask.title, "ask", ask=ask))
    line = next(line for line in part.text.splitlines() if line.endswith(" Allow once"))
    inbox = package / "diary" / "in"
    inbox.mkdir(parents=True)
    (inbox / "1.txt").write_text(line)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(channel.run, desk)
        await desk.until(lambda: bool(desk.answers))
        tasks.cancel_scope.cancel()
    (answer,) = desk.answers
    assert (answer.ask_id, answer.payload_hash, answer.decision.verdict) == (
        ask.id,
        ask.payload_hash,
        "allow",
    )
    assert desk.accepted == []
