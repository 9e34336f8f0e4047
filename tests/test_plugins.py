"""Plugins: found by real metadata, loaded on demand, and none of them takes another down."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import Struct
from tests.dists import ROOT, SRC, write_dist
from tests.shelf import MODULES, POINTS, PUPPET

from pilothouse.bootstrap.app import default_engine
from pilothouse.core.engine import EngineSpec, EngineStatus
from pilothouse.core.errors import PluginError
from pilothouse.core.ids import EngineId
from pilothouse.plugins import Broken, Found, Group, Loaded, Plugins


def plugins(**groups: list[Found]) -> Plugins:
    def find(group: Group) -> list[Found]:
        return groups.get(group, [])

    return Plugins(find)


GOOD = Found("puppet", "tests.shelf:PUPPET", "puppets")
BAD = Found("torn", "no.such.module:ENGINE", "rags")


def test_a_plugin_that_fails_is_listed_with_its_error_beside_those_that_work() -> None:
    rows = plugins(engines=[BAD, GOOD]).engines()
    assert rows == [
        Loaded("puppet", PUPPET, "puppets"),
        Broken("torn", "ModuleNotFoundError: No module named 'no'", "rags"),
    ]


def test_a_plugin_is_found_by_name_or_alias() -> None:
    found = plugins(engines=[BAD, GOOD])
    assert found.engine("puppet") is PUPPET
    assert found.engine("marionette") is PUPPET


def test_a_name_that_nobody_has_is_answered_with_the_nearest_and_the_list() -> None:
    with pytest.raises(
        PluginError, match=r'there is no engine "pupet"; installed: puppet, torn; did you mean puppet\?'
    ):
        plugins(engines=[GOOD, BAD]).engine("pupet")


def test_asking_for_a_broken_one_says_why_it_did_not_load() -> None:
    with pytest.raises(PluginError, match=r"the engine torn \(from rags\) did not load: ModuleNotFoundError"):
        plugins(engines=[BAD]).engine("torn")


def test_an_object_of_another_kind_is_broken() -> None:
    (row,) = plugins(stores=[Found("odd", "tests.shelf:PUPPET", "x")]).stores()
    assert row == Broken("odd", "tests.shelf:PUPPET has the type EngineSpec, not StoreSpec", "x")


def test_a_stranger_cannot_take_a_built_in_name() -> None:
    ours = Found("puppet", "tests.shelf:PUPPET", "pilothouse")
    theirs = Found("puppet", "tests.shelf:ABSENT", "a-stranger")
    found = plugins(engines=[theirs, ours])
    assert found.engine("puppet") is PUPPET
    assert found.engines()[1] == Broken("puppet", "the engine puppet is taken by pilothouse", "a-stranger")


def test_names_are_told_without_importing_anything() -> None:
    assert plugins(engines=[BAD]).names("engines") == ["torn"]


def test_the_configuration_gets_a_type_for_each_and_none_for_the_broken() -> None:
    found = plugins(engines=[GOOD, BAD])
    assert found.sections("engines") == {"puppet": PUPPET.config, "torn": None}
    assert found.aliases() == {"marionette": "puppet"}


def ask(packages: list[Path], code: str) -> Any:
    """What `code` prints as JSON, in a process that has these packages installed."""
    path = os.pathsep.join(map(str, (SRC, ROOT, *packages)))
    text = f"import json, sys\nfrom pilothouse.plugins import *\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", text],
        env={"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    return json.loads(done.stdout)


def test_installed_packages_are_found_and_a_broken_one_takes_nothing_down(tmp_path: Path) -> None:
    folder = write_dist(tmp_path, "puppets", POINTS, MODULES)
    rows = ask(
        [folder], "print(json.dumps([[type(r).__name__, r.name, r.dist] for r in Plugins().engines()]))"
    )
    mine = [row for row in rows if row[2] == "puppets"]
    assert mine == [
        ["Loaded", "absent", "puppets"],
        ["Loaded", "puppet", "puppets"],
        ["Broken", "torn", "puppets"],
    ]


def test_only_the_plugin_that_is_asked_for_is_imported(tmp_path: Path) -> None:
    modules = {
        name: f"from tests.shelf import STORE\nSTORE, name = STORE, {name!r}\n" for name in ("one", "two")
    }
    points = {"stores": {name: f"{name}:STORE" for name in modules}}
    folder = write_dist(tmp_path, "shelves", points, modules)
    code = "Plugins().store('one')\nprint(json.dumps([name in sys.modules for name in ('one', 'two')]))"
    assert ask([folder], code) == [True, False]


def test_making_plugins_reads_no_metadata() -> None:
    assert ask([], "Plugins()\nprint(json.dumps('importlib.metadata' in sys.modules))") is False


def test_what_a_plugin_prints_at_its_import_does_not_stand_in_a_command_s_answer(tmp_path: Path) -> None:
    modules = {"chatty": "print('look at me')\nfrom tests.shelf import PUPPET as ENGINE\n"}
    folder = write_dist(tmp_path, "chatters", {"engines": {"chatty": "chatty:ENGINE"}}, modules)
    assert ask([folder], "print(json.dumps(Plugins().engine('chatty').title))") == "Puppet"


def test_auto_takes_a_ready_made_agent_only_if_nothing_else_is_here() -> None:
    """Many of those run every command without asking."""

    def row(name: str, is_found: Any = None) -> Loaded[EngineSpec]:
        spec = EngineSpec(EngineId(name), name, Struct, no_engine, no_engine, is_found=is_found)
        return Loaded(name, spec)

    def no_engine(*_: Any) -> Any:
        raise AssertionError

    def is_here(_: EngineSpec) -> EngineStatus:
        return EngineStatus(True)

    def choose(*rows: Loaded[EngineSpec]) -> str:
        adapters = {row.name: SimpleNamespace(enabled=True) for row in rows}
        config = SimpleNamespace(gateway=SimpleNamespace(default_engine="auto"), engines=adapters)
        plugins = SimpleNamespace(engines=lambda: list(rows))
        app: Any = SimpleNamespace(plugins=plugins, config=config, status_of=is_here)
        return default_engine(app)

    ready_made = row("auggie", lambda: True)
    assert choose(ready_made, row("codex"), row("script")) == "codex"
    assert choose(ready_made, row("script")) == "auggie"
    assert choose(row("script")) == "script"
