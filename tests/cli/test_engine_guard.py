"""Commands that change something are refused below an engine: real processes, the real program."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time

import anyio
import click
import pytest
from tests.cli.conftest import House, with_bots

from pilothouse.bootstrap.machine import this_node
from pilothouse.cli.engine_guard import READING, changing_words
from pilothouse.cli.group import COMMANDS, pilothouse
from pilothouse.core.engine import NODE_MARKER
from pilothouse.core.store import Tx
from pilothouse.processes import open_process
from pilothouse.stores.sqlite import STORE, SqliteConfig

GRANT = ("users", "grant", "telegram:2", "owner")
CHANGING = (
    GRANT,
    ("users", "revoke", "telegram:2"),
    ("trust", "."),
    ("untrust", "."),
    ("rules", "add", "--everywhere", "allow tool *"),
    ("rules", "remove", "rule-1"),
    ("pair", "--role", "owner"),
    ("init", "--owner", "telegram:2", "--engine", "auto"),
    ("asks", "--limit", "5", "allow", "ask-1"),
    ("asks", "deny", "ask-1"),
    ("asks", "answer", "ask-1", "yes"),
    ("chat",),
    ("up", "--approval-mode", "full-access"),
    ("discord",),
)
READS = (("status",), ("users",), ("rules", "list"), ("asks",), ("config", "path"), ("audit", "verify"))


@pytest.fixture
def house(house: House) -> House:
    with_bots(house)
    return house


def assert_refused(code: int | None, error: str) -> None:
    assert code == 1, error
    assert "an engine started it" in error
    assert "in your own terminal" in error


def users(house: House) -> list[str]:
    return [row["user"] for row in house.json("users")]


@pytest.mark.parametrize("words", CHANGING, ids=" ".join)
def test_an_engine_cannot_change_anything(house: House, words: tuple[str, ...]) -> None:
    done = house.run(*words, **{NODE_MARKER: "any"})
    assert_refused(done.returncode, done.stderr)
    assert done.stdout == ""
    assert [path.name for path in house.home.iterdir()] == []


@pytest.mark.parametrize("words", READS, ids=" ".join)
def test_an_engine_may_read(house: House, words: tuple[str, ...]) -> None:
    assert house.run(*words, **{NODE_MARKER: "any"}).returncode == 0


def test_a_person_may_change_what_an_engine_may_not(house: House) -> None:
    assert house.run(*GRANT).returncode == 0
    assert "telegram:2" in users(house)


def test_a_child_that_takes_the_marker_off_is_known_by_its_ancestors(house: House) -> None:
    own = [sys.executable, "-m", "pilothouse", *GRANT]
    script = f'env -u {NODE_MARKER} "$@"; exit $?'
    done = subprocess.run(
        ["/bin/sh", "-c", script, "sh", *own],
        env=house.environ(**{NODE_MARKER: "any"}),
        cwd=house.home,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert_refused(done.returncode, done.stderr)
    assert "telegram:2" not in users(house)


@pytest.mark.anyio
async def test_whatever_is_started_as_engines_are_is_refused(house: House) -> None:
    argv = [sys.executable, "-m", "pilothouse", *GRANT]
    async with open_process(argv, cwd=house.home, env=house.environ()) as process:
        with anyio.fail_after(60):
            code = await process.wait()
        assert_refused(code, process.stderr_tail())


def test_an_orphan_that_a_gateway_adopted_is_refused(house: House) -> None:
    """This test process is the gateway here, and the program its descendant without any marker."""

    def add_node(tx: Tx) -> None:
        tx.nodes.join(this_node("here"), ("engines",), time.time() + 600)

    async def join() -> None:
        async with STORE.open(SqliteConfig(path=str(house.home / "pilothouse.db"))) as store:
            await store.write(add_node)

    asyncio.run(join())
    done = house.run(*GRANT)
    assert_refused(done.returncode, done.stderr)
    assert "telegram:2" not in users(house)


def test_every_command_that_may_run_below_an_engine_exists() -> None:
    context = click.Context(pilothouse)
    for name in COMMANDS:
        command = pilothouse.get_command(context, name)
        assert command is not None
        for word in command.commands if isinstance(command, click.Group) else ():
            assert changing_words(name, command, [word]) == (
                "" if f"{name} {word}" in READING else f"{name} {word}"
            )
    assert {words.split()[0] for words in READING} <= set(COMMANDS)
