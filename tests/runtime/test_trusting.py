"""Trust: nobody has it by default, an owner gives it to a folder, and no copy brings it along."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.runtime.rig import open_rig
from tests.runtime.test_commands import reply_to

from pilothouse.runtime.trusting import is_trusted, trust, untrust


async def test_a_workspace_is_trusted_by_an_owners_word_alone(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await rig.channel.say("one")
        await rig.until_ended()
        workspace = rig.engine.briefs[0].workspace
        await rig.store.write(lambda tx: trust(tx, workspace, "ann", 1.0))
        await rig.channel.say("two")
        await rig.until_ended(2)
        assert await rig.store.write(lambda tx: untrust(tx, workspace, "ann", 2.0))
        await rig.channel.say("three")
        await rig.until_ended(3)
        assert [brief.trusted for brief in rig.engine.briefs] == [False, True, False]


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


async def test_status_says_what_trust_would_add(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        assert "pilothouse trust" in await reply_to(rig, "/status")
        workspace = rig.ports.settings().default_workspace
        await rig.store.write(lambda tx: trust(tx, workspace, "ann", 1.0))
        assert "trusted" in (text := await reply_to(rig, "/status")) and "pilothouse trust" not in text
