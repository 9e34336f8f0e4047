"""Trust: nobody has it by default, an owner gives it to a folder, and no copy brings it along."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.runtime.rig import open_rig
from tests.runtime.test_commands import reply_to

from pilothouse.core.errors import ConfigError
from pilothouse.core.store import Tx
from pilothouse.runtime.trust import (
    choose_jail,
    folder_mark,
    look_at_trust,
    stored_trusts,
    trust,
    untrust,
    was_decided,
)


def is_trusted(tx: Tx, folder: str) -> bool:
    return look_at_trust(tx, os.path.realpath(folder), ()).holds


async def test_a_workspace_is_trusted_by_an_owners_word_alone(tmp_path: Path) -> None:
    noted: list[tuple[str, bool, bool]] = []

    def note(*trust: Any) -> None:
        noted.append(trust)

    async with open_rig(tmp_path, note_trust=note) as rig:
        await rig.channel.say("one")
        await rig.until_ended()
        workspace = rig.engine.briefs[0].workspace
        real = os.path.realpath(workspace)
        await rig.store.write(lambda tx: trust(tx, workspace, "ann", 1.0))
        await rig.store.write(lambda tx: choose_jail(tx, real, "ann", 1.0, jail=True))
        await rig.channel.say("two")
        await rig.until_ended(2)
        assert await rig.store.write(lambda tx: untrust(tx, workspace, "ann", 2.0))
        await rig.channel.say("three")
        await rig.until_ended(3)
        assert [brief.trusted for brief in rig.engine.briefs] == [False, True, False]
        assert noted == [(real, False, False), (real, True, True), (real, False, True)]
        assert await rig.store.read(stored_trusts) == []


async def test_neither_a_copy_nor_what_takes_its_place_is_trusted(tmp_path: Path) -> None:
    shop, copy = tmp_path / "shop", tmp_path / "copy"
    shop.mkdir()
    (tmp_path / "link").symlink_to(shop)
    async with open_rig(tmp_path) as rig:
        await rig.store.write(lambda tx: trust(tx, str(shop), "ann", 1.0))
        shutil.copytree(shop, copy)
        seen = await rig.store.read(
            lambda tx: [
                is_trusted(tx, str(path)) for path in (shop, tmp_path / "link", copy, tmp_path / "gone")
            ]
        )
        assert seen == [True, True, False, False]
        shop.rename(tmp_path / "moved")
        copy.rename(shop)
        assert not await rig.store.read(lambda tx: is_trusted(tx, str(shop)))
        assert not await rig.store.read(lambda tx: is_trusted(tx, str(tmp_path / "moved")))


def replace(folder: Path) -> None:
    """Another folder in its place, as soon as the file system's clock tells the two apart; ext4 gives the same inode again."""
    before = now = folder.stat().st_ctime_ns
    while now == before:
        shutil.rmtree(folder)
        folder.mkdir()
        now = folder.stat().st_ctime_ns


async def test_a_clone_in_the_place_of_a_removed_folder_is_not_trusted(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    async with open_rig(tmp_path) as rig:
        await rig.store.write(lambda tx: trust(tx, str(shop), "ann", 1.0))
        replace(shop)
        assert not await rig.store.read(lambda tx: is_trusted(tx, str(shop)))
        assert not await rig.store.read(lambda tx: was_decided(tx, str(shop))), "it is asked about anew"


async def test_work_in_a_folder_leaves_it_trusted(tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    shop.mkdir()
    async with open_rig(tmp_path) as rig:
        await rig.store.write(lambda tx: trust(tx, str(shop), "ann", 1.0))
        (shop / "src").mkdir()
        (shop / "src").rename(shop / "lib")
        shutil.rmtree(shop / "lib")
        shop.chmod(0o700)
        os.utime(shop, (1, 1))
        shop.rename(tmp_path / "away")
        (tmp_path / "away").rename(shop)
        assert await rig.store.read(lambda tx: is_trusted(tx, str(shop)))


async def test_what_was_trusted_by_its_inode_alone_is_asked_about_again(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        workspace = os.path.realpath(rig.ports.settings().default_workspace)
        inode = str(os.stat(workspace).st_ino)
        await rig.store.write(lambda tx: tx.set_fact(f"trust:{workspace}", inode))
        assert not await rig.store.read(lambda tx: is_trusted(tx, workspace))
        assert not await rig.store.read(lambda tx: was_decided(tx, workspace))
        assert "no longer counts" in await reply_to(rig, "/status")


async def test_a_folder_that_cannot_be_told_from_the_next_cannot_be_trusted(tmp_path: Path) -> None:
    """`/proc` says of no folder when it was made."""
    assert folder_mark("/proc/self") is None
    async with open_rig(tmp_path) as rig:
        with pytest.raises(ConfigError, match="cannot be trusted"):
            await rig.store.write(lambda tx: trust(tx, "/proc/self", "ann", 1.0))
        assert not await rig.store.read(lambda tx: is_trusted(tx, "/proc/self"))


async def test_status_says_what_trust_would_add(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        assert "pilothouse trust" in await reply_to(rig, "/status")
        workspace = rig.ports.settings().default_workspace
        await rig.store.write(lambda tx: trust(tx, workspace, "ann", 1.0))
        assert "trusted" in (text := await reply_to(rig, "/status")) and "pilothouse trust" not in text
