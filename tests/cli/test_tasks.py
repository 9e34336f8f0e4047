"""`pilothouse tasks`: added, listed, changed, removed; and a real script through the launcher."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest
from tests.cli.conftest import House

from pilothouse.bootstrap.agent_processes import run_script
from pilothouse.core.conversation import Conversation
from pilothouse.core.ids import ChannelId, ConversationId
from pilothouse.core.message import Address
from pilothouse.core.store import NodeInfo, Tx
from pilothouse.runtime.schedules.script import ScriptResult, read_result
from pilothouse.stores.sqlite import STORE


def meet(house: House, *places: str) -> None:
    """People have written from these places."""

    def unit(tx: Tx) -> None:
        for place in places:
            address = Address(ChannelId("memory"), place)
            tx.conversations.ensure(Conversation(ConversationId(f"memory:{place}"), address, 1.0))

    async def write() -> None:
        async with STORE.open(STORE.config(path=str(house.home / "pilothouse.db"))) as store:
            await store.write(unit)

    asyncio.run(write())


def join(house: House) -> None:
    """A gateway runs on another machine, so only its lease counts."""

    def unit(tx: Tx) -> None:
        tx.nodes.join(NodeInfo("there", "another", 1, ""), ("engines",), time.time() + 3600)

    async def write() -> None:
        async with STORE.open(STORE.config(path=str(house.home / "pilothouse.db"))) as store:
            await store.write(unit)

    asyncio.run(write())


def test_a_task_is_added_shown_changed_and_removed(house: House) -> None:
    assert "No tasks. To add one" in house.run("tasks").stdout
    nobody = house.run("tasks", "add", "--every", "2h", "look")
    assert nobody.returncode == 1 and "Write a message to Pilothouse first." in nobody.stderr
    meet(house, "main")
    words = ("tasks", "add", "--cron", "0 9 * * 1-5", "--zone", "Europe/Berlin", "Look at the PRs")
    added = house.run(*words)
    assert added.returncode == 0, added.stderr
    id = added.stdout.split()[1].strip(".")
    assert added.stdout.count(" at 09:00") == 3 and "(Europe/Berlin)" in added.stdout
    assert f"This task exists already: {id}" in house.run(*words).stdout
    meet(house, "other")
    several = house.run("tasks", "add", "--every", "2h", "look")
    assert several.returncode == 1 and "memory:other" in several.stderr
    table = house.run("tasks").stdout
    assert id in table and "Look at the PRs" in table
    assert f"Paused {id}" in house.run("tasks", "pause", id[-4:]).stdout
    changed = house.run("tasks", "edit", id, "--every", "90m", "Look at all of it", "--missed", "skip")
    assert changed.returncode == 0, changed.stderr
    assert "It is paused." in changed.stdout
    (task,) = house.json("tasks")["tasks"]
    assert (task["timing"]["every_s"], task["prompt"], task["missed"]) == (
        5400.0,
        "Look at all of it",
        "skip",
    )
    assert "Resumed" in house.run("tasks", "resume", id).stdout
    waits = house.run("tasks", "run", id).stdout
    assert (
        waits == f"{id} waits, because no gateway is running. Start one, and it runs at once: pilothouse up\n"
    )
    assert house.json("tasks", "log", id)[0]["state"] == "waiting"
    assert "running" in house.run("tasks", "log").stdout
    assert f"Removed {id}" in house.run("tasks", "remove", id).stdout
    assert "skipped" in house.run("tasks", "log").stdout
    again = house.run(*words, "--to", "memory:main").stdout.split()[1].strip(".")
    join(house)
    assert house.run("tasks", "run", again).stdout.startswith(f"{again} runs now")
    assert f"Removed {again}" in house.run("tasks", "remove", again).stdout
    gone = house.run("tasks", "run", id)
    assert gone.returncode == 1 and "There is no task" in gone.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--cron", "0 0 31 2 *"), "is not a cron expression: bad day-of-month"),
        (("--cron", "0 9 * * *", "--zone", "Berlin"), "did you mean Europe/Berlin?"),
        (("--at", "2020-01-01 10:00"), "is in the past"),
        (("--at", "soon"), "is not a time"),
        (("--every", "5s"), "give 1 minute to 366 days"),
        (("--every", "2h", "--cron", "@daily"), "not both"),
        ((), "This task has no time"),
    ],
    ids=["never", "zone", "past", "no time", "too often", "both", "none"],
)
def test_what_cannot_be_done_says_what_to_write(house: House, words: tuple[str, ...], told: str) -> None:
    meet(house, "main")
    done = house.run("tasks", "add", *words, "look")
    assert done.returncode == 1 and told in done.stderr, done.stderr


def test_a_script_of_the_machine_is_approved_unless_a_rule_denies_it(house: House) -> None:
    meet(house, "main")
    house.config.write_text("[policy]\nrules = ['deny command git push']\n")
    (house.home / "good.sh").write_text("curl x\necho '{\"wakeAgent\": false}'\n")
    (house.home / "bad.sh").write_text("git push\n")
    done = house.run("tasks", "add", "--every", "2h", "--script", "good.sh", "look")
    assert done.returncode == 0, done.stderr
    shown = house.run("tasks", "show", done.stdout.split()[1].strip("."))
    assert "Script (approved):\ncurl x" in shown.stdout
    denied = house.run("tasks", "add", "--every", "3h", "--script", "bad.sh", "look")
    assert denied.returncode == 1 and "The script may not run" in denied.stderr
    long = house.run("tasks", "add", "--every", "3h", "--script", "-", "look", said="x" * 20_001)
    assert long.returncode == 1 and "at most 20,000" in long.stderr


SCRIPTS: list[tuple[str, ScriptResult]] = [
    ('pwd >&2; echo noise; echo \'{"wakeAgent":true,"data":{"a":[1]}}\'', ScriptResult(True, '{"a":[1]}')),
    ("echo '{\"wakeAgent\":false}'; echo", ScriptResult()),
    ("echo broken >&2; exit 3", ScriptResult(error="it ended with exit code 3", detail="broken")),
    ("echo '{\"wake\":1}'", ScriptResult(error='its last line is {"wake":1}, and not JSON with wakeAgent')),
    ("", ScriptResult(error="its last line is nothing, and not JSON with wakeAgent")),
    ("sleep 60 & sleep 60", ScriptResult(error="it took longer than 2 seconds")),
    ("head -c 1100000 /dev/zero | tr '\\0' x", ScriptResult(error="it wrote more than 1 MB")),
    ('echo "{\\"wakeAgent\\":true,\\"data\\":\\"$SECRET\\"}"', ScriptResult(True, '""')),
]


@pytest.mark.anyio
async def test_a_script_runs_in_the_folder_within_its_limits_and_sees_no_secret(tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "SECRET": "hidden"}
    for script, expected in SCRIPTS:
        end = await run_script(environment, "marker", script, str(tmp_path), 2.0, 1_000_000)
        assert read_result(end) == expected, script
    assert str(tmp_path) in (await run_script(environment, "m", "pwd >&2", str(tmp_path), 20.0, 100)).stderr
    missing = await run_script(environment, "m", "pwd", str(tmp_path / "none"), 2.0, 100)
    assert missing.problem.startswith("it did not start: ")
