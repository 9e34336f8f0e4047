"""The versions of engines' programs that run in jails."""

from __future__ import annotations

import os
import sys
import threading
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from tests.isolation.canary import Stage, jails, need_jail

from pilothouse.core.engine import ProcessStart
from pilothouse.isolation.versions import RunningVersions, find_program
from pilothouse.processes import Launcher

pytestmark = pytest.mark.anyio
WITHIN_S = 60.0


def write_program(folder: Path, version: str, name: str = "codex", first: str = "") -> ProcessStart:
    """Write a program as an update does: a new file takes the place of the old one."""
    folder.mkdir(exist_ok=True)
    new = folder / "new"
    lines = (
        first or f"#!{sys.executable}",
        "import sys",
        f"print('{name}-cli {version}')",
        "sys.stdin.read()",
    )
    new.write_text("\n".join(lines))
    new.chmod(0o755)
    os.replace(new, folder / name)
    return ProcessStart("test", (name, "serve"), str(folder), {"PATH": str(folder)}, workspace="/nowhere")


async def until_known(versions: RunningVersions, engine: str, *wanted: str) -> None:
    with anyio.fail_after(WITHIN_S):
        while (*versions.of(engine),) != wanted:
            await anyio.sleep(0.01)


class Reader:
    """Answers for programs, as many times as it was asked."""

    def __init__(self, *told: str) -> None:
        self.told = [*told]
        self.asked: list[str] = []

    def __call__(self, program: str, within_s: float) -> str:
        self.asked.append(program)
        return self.told.pop(0)


async def test_a_program_tells_its_version_once_when_it_is_first_started(tmp_path: Path) -> None:
    reader = Reader("codex-cli 0.166.0")
    versions, start = RunningVersions(reader), write_program(tmp_path / "bin", "0.166.0")
    assert versions.of("codex") == []
    for _ in range(2):
        with versions.note("codex", start, ()), versions.note("codex", start, ()):
            await until_known(versions, "codex", "0.166.0", "0.166.0")
            assert versions.of("claude") == []
    assert versions.of("codex") == []
    assert reader.asked == [str(tmp_path / "bin" / "codex")]


async def test_an_update_is_noticed_and_makes_the_version_of_what_runs_unknown(tmp_path: Path) -> None:
    versions, start = RunningVersions(), write_program(tmp_path / "bin", "2.1.5")
    with versions.note("codex", start, ()):
        await until_known(versions, "codex", "2.1.5")
        write_program(tmp_path / "bin", "2.2.0")
        assert versions.of("codex") == [""]
        with versions.note("codex", start, ()):
            await until_known(versions, "codex", "", "2.2.0")


async def test_a_linked_version_counts_as_long_as_its_own_file_is_the_same(tmp_path: Path) -> None:
    for version in ("2.1.5", "2.2.0"):
        write_program(tmp_path / f"codex-{version}", version)
    link = tmp_path / "bin" / "codex"
    link.parent.mkdir()
    start = ProcessStart("test", (str(link),), "/", {}, workspace="/nowhere")
    versions = RunningVersions()
    link.symlink_to(tmp_path / "codex-2.1.5" / "codex")
    with versions.note("codex", start, ()):
        await until_known(versions, "codex", "2.1.5")
        link.unlink()
        link.symlink_to(tmp_path / "codex-2.2.0" / "codex")
        with versions.note("codex", start, ()):
            await until_known(versions, "codex", "2.1.5", "2.2.0")


async def test_a_program_that_changes_while_it_is_asked_has_no_version(tmp_path: Path) -> None:
    start, asked = write_program(tmp_path / "bin", "2.1.5"), threading.Event()

    def read(program: str, within_s: float) -> str:
        write_program(tmp_path / "bin", "2.2.0")
        asked.set()
        return "2.1.5"

    versions = RunningVersions(read)
    with versions.note("codex", start, ()):
        assert await anyio.to_thread.run_sync(asked.wait, WITHIN_S)
        assert versions.of("codex") == [""]


def test_only_a_program_that_tells_its_own_version_is_asked(tmp_path: Path) -> None:
    folder = tmp_path / "codex" / "bin"
    folder.parent.mkdir()
    plain = write_program(folder, "1.2.3")
    assert find_program("codex", plain, ()) is not None
    assert find_program("codex", plain, (str(folder.parent),)) is None, "its agent may write there"
    assert find_program("claude", plain, ()) is None
    assert find_program("codex", write_program(folder, "1.2.3", "node"), ()) is None
    assert find_program("codex", write_program(folder, "1.2.3", first="#!/usr/bin/env bash"), ()) is None
    shim = tmp_path / "shims" / "manager"
    shim.parent.mkdir()
    shim.write_bytes((folder / "codex").read_bytes())
    (folder / "codex").unlink()
    (folder / "codex").symlink_to(shim)
    assert find_program("codex", plain, ()) is None
    (folder / "codex").unlink()
    assert find_program("codex", plain, ()) is None


@pytest.mark.parametrize(("network", "wanted"), [("none", ["0.166.0"]), ("open", [])])
async def test_the_version_of_a_jailed_engine_is_known_while_it_runs(
    network: str, wanted: list[str], stage: Stage, tmp_path: Path
) -> None:
    need_jail()
    made, place = jails(stage, tmp_path, network=network), str(stage.workspace)
    made.versions = RunningVersions(Reader("0.166.0"))
    program = write_program(stage.home / "bin", "0.166.0", first="#!/usr/bin/python3")
    environment = {"PATH": f"{stage.home / 'bin'}:{os.environ['PATH']}", "HOME": str(stage.home)}
    start = ProcessStart("test", program.argv, place, environment, place)
    async with Launcher(partial(made.open, engine="codex")).open(start):
        await until_known(made.versions, "codex", *wanted)
    assert made.versions.of("codex") == []
