"""A program in one jail swaps files of the workspace for links while another jail is made: nothing beyond the workspace is shown or made."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest
from tests.isolation.canary import Stage, jails, need_jail
from tests.isolation.test_jail import output, start

from pilothouse.isolation.pins import SWAPPED, make_folders
from pilothouse.isolation.repository import repository_mounts
from pilothouse.processes import Launcher

STARTS = 1000


@pytest.mark.parametrize("by", ["link", "copy"])
@pytest.mark.parametrize("name", [".git", ".git/hooks", ".git/config", ".pilothouse.toml"])
async def test_nothing_runs_in_a_jail_that_shows_something_swapped(
    name: str, by: str, stage: Stage, tmp_path: Path
) -> None:
    need_jail()
    (stage.workspace / ".pilothouse.toml").write_text("show_cost = true\n")
    path, moved = stage.workspace / name, tmp_path / "moved"
    secret = stage.home / "secret.txt" if path.is_file() else stage.home
    script = f"echo ran; cat {name}/secret.txt {name}; echo x > {name}/written"
    async with jails(stage, tmp_path).open(start(stage, script)) as jailed:
        path.rename(moved)
        if by == "link":
            path.symlink_to(secret)
        elif moved.is_file():
            shutil.copy(moved, path)
        else:
            shutil.copytree(moved, path)
        told = await output(Launcher(), jailed)
    assert "ran" not in told
    assert "of the user" not in told
    assert SWAPPED in told or by == "link"
    assert not (stage.home / "written").exists()


async def test_the_file_of_a_workspace_cannot_be_changed_or_replaced(stage: Stage, tmp_path: Path) -> None:
    need_jail()
    file = stage.workspace / ".pilothouse.toml"
    file.write_text('network = "none"\n')
    script = f"cat {file.name}; echo > {file.name}; rm -f {file.name}; mv {file.name} x; echo > y; mv y {file.name}"
    told = await output(Launcher(jails(stage, tmp_path).open), start(stage, script))
    assert 'network = "none"' in told
    assert file.read_text() == 'network = "none"\n'


def test_the_gateway_makes_nothing_through_a_link(tmp_path: Path) -> None:
    work, beyond = tmp_path / "work", tmp_path / "beyond"
    for folder in (work / ".git", beyond):
        folder.mkdir(parents=True)
    with flipping(work / ".git", beyond):
        for _ in range(STARTS):
            repository_mounts(str(work))
    assert list(beyond.iterdir()) == []


def test_folders_are_made_in_folders_and_not_through_links(tmp_path: Path) -> None:
    (tmp_path / "beyond").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "beyond")
    make_folders(str(tmp_path), ("a", "b"))
    make_folders(str(tmp_path), ("a", "b", "c"))
    assert (tmp_path / "a" / "b" / "c").is_dir()
    with pytest.raises(OSError, match="link"):
        make_folders(str(tmp_path), ("link", "b"))
    assert list((tmp_path / "beyond").iterdir()) == []


@contextmanager
def flipping(folder: Path, target: Path) -> Iterator[None]:
    """Swap a folder for a link and back, all the time."""
    kept, link, done = folder.with_name("kept"), folder.with_name("link"), Event()
    link.symlink_to(target)

    def flip() -> None:
        while not done.is_set():
            os.rename(folder, kept)
            os.rename(link, folder)
            os.rename(folder, link)
            os.rename(kept, folder)

    thread = Thread(target=flip)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
