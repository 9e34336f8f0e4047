"""What is ours, and the home folder, stays hidden behind everything that a jail shows."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest
from tests.isolation.canary import Stage, jails, need_jail, no_log
from tests.isolation.test_jail import output, start

from pilothouse.core.isolation import Isolation, Needs
from pilothouse.isolation.jail import Jails, Places
from pilothouse.isolation.system import ADMINISTERED, closed_paths, program_mounts
from pilothouse.processes import Launcher


def jails_hiding(stage: Stage, folder: Path, *hidden: Path, **settings: object) -> Jails:
    places = Places(str(folder / "jails"), tuple(map(str, hidden)), str(stage.home))
    isolation = Isolation("jail", **settings)  # pyrefly: ignore[bad-argument-type]
    return Jails(lambda workspace: isolation, places, no_log)


def make_program(path: Path, text: str = "#!/bin/sh\necho started\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


async def test_a_node_below_the_home_folder_does_not_show_what_lies_beside_it(
    stage: Stage, tmp_path: Path
) -> None:
    need_jail()
    store = stage.home / ".local" / "share" / "pilothouse" / "pilothouse.db"
    store.parent.mkdir(parents=True)
    store.write_text("the store")
    node = stage.home / ".local" / "bin" / "node"
    node.parent.mkdir()
    shutil.copy("/bin/sh", node)
    script = f"#!/usr/bin/env node\necho started; cat {store}; ls {store.parent}\n"
    program = make_program(stage.home / ".local" / "lib" / "node_modules" / "x" / "cli.js", script)
    begun = start(stage, "", argv=[str(program)])
    path = f"{node.parent}:{os.environ['PATH']}"
    begun = msgspec.structs.replace(begun, environment={**begun.environment, "PATH": path})
    told = await output(Launcher(jails_hiding(stage, tmp_path, store.parent).open), begun)
    assert "started" in told
    assert "the store" not in told
    assert store.name not in told.splitlines()


def test_what_other_users_cannot_open_is_found_and_what_lies_in_it_is_not_named(tmp_path: Path) -> None:
    for name, mode in (("open", 0o755), ("passable", 0o711), ("closed", 0o750)):
        (tmp_path / name).mkdir()
        for file, bits in (("key", 0o640), ("text", 0o644)):
            (tmp_path / name / file).write_text("x")
            (tmp_path / name / file).chmod(bits)
        (tmp_path / name).chmod(mode)
    (tmp_path / "link").symlink_to(tmp_path / "closed")
    found = [os.path.relpath(path, tmp_path) for path in closed_paths(str(tmp_path))]
    assert found == ["closed", "open/key", "passable/key"]
    assert list(closed_paths(str(tmp_path / "missing"))) == []


async def test_a_jail_of_root_hides_the_files_that_only_root_may_read(stage: Stage, tmp_path: Path) -> None:
    need_jail()
    if os.geteuid() != 0:
        pytest.skip("NOT TESTED: files that only root may read need a gateway of root")
    find = f"find {' '.join(ADMINISTERED)} -type f ! -perm -o=r 2>/dev/null; echo done"
    assert len((await output(Launcher(), start(stage, find))).splitlines()) > 1
    assert await output(Launcher(jails(stage, tmp_path).open), start(stage, find)) == "done\n"


def test_the_prefix_of_an_interpreter_is_shown_without_what_else_lies_in_it(tmp_path: Path) -> None:
    home, path = str(tmp_path), os.defpath

    def shown(name: str, private: str) -> list[str]:
        program = make_program(tmp_path / "local" / "bin" / name)
        return [mount.target for mount in program_mounts(str(program), path, (private,))]

    local = f"{home}/local"
    assert shown("python3.12", "/elsewhere")[0] == local
    for private in (f"{local}/share/ours", local):
        assert shown("python3.12", private)[:3] == [f"{local}/bin", f"{local}/lib", f"{local}/lib64"]
    for name in ("python-foo", "nodemon", "python3-config"):
        assert shown(name, "/elsewhere") == [f"{local}/bin/{name}"]


async def test_a_link_to_a_folder_with_our_settings_shows_the_folder_without_them(
    stage: Stage, tmp_path: Path
) -> None:
    need_jail()
    real, link = tmp_path / "dotfiles" / "config", stage.home / ".config"
    (real / "pilothouse").mkdir(parents=True)
    (real / "pilothouse" / "config.toml").write_text("token = ours")
    (real / "tool.ini").write_text("theirs")
    link.symlink_to(real)
    ours = link / "pilothouse"
    script = "; ".join(f"cat {one}/tool.ini {one}/pilothouse/config.toml" for one in (link, real))
    for allowed in ({"allow_read": (str(link),)}, {"allow_write": (str(link),)}):
        made = jails_hiding(stage, tmp_path, ours, ours / "config.toml", **allowed)
        told = await output(Launcher(made.open), start(stage, script))
        assert told.count("theirs") == 2, told
        assert "ours" not in told


async def test_a_link_in_the_workspace_to_a_folder_that_may_be_read_works(
    stage: Stage, tmp_path: Path
) -> None:
    need_jail()
    link = stage.workspace / "notes"
    link.symlink_to(stage.other)
    made = jails(stage, tmp_path, allow_read=(str(link),))
    told = await output(Launcher(made.open), start(stage, f"cat {link}/notes.txt"))
    assert told.strip() == "of another conversation"


async def test_a_folder_that_was_added_to_a_session_does_not_show_our_data(
    stage: Stage, tmp_path: Path
) -> None:
    need_jail()
    added = tmp_path / "data"
    (added / "theirs.txt").write_text("theirs")
    needs = Needs(write=(str(added),))
    made = jails_hiding(stage, tmp_path, stage.store)
    told = await output(
        Launcher(made.open), start(stage, f"cat {added}/theirs.txt {stage.store}", needs=needs)
    )
    assert "theirs" in told
    assert "the store" not in told
