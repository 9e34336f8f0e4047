"""What a place's people chose that we react to: who may, where it holds, and that it lasts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.runtime.rig import ADMIN, MEMBER, Rig, open_rig

from pilothouse.core.message import Author
from pilothouse.core.trigger import Trigger
from pilothouse.runtime.outbox import content_of

pytestmark = pytest.mark.anyio


async def reply(rig: Rig, line: str, *, by: Author = ADMIN, place: str = "group", thread: str = "") -> str:
    receipt = await rig.channel.say(line, place, author=by, thread=thread or None, private=False)
    row = await rig.until(lambda tx: tx.outbox.by_key(f"reply:{receipt.message_id}"))
    return content_of(row).text


async def chosen(rig: Rig, place: str = "group", thread: str | None = None) -> Trigger | None:
    return (await rig.gateway.desk.settings_of(rig.channel.address(place, thread))).trigger


async def test_a_group_chooses_what_we_react_to(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        assert await chosen(rig) is None
        assert "the configured trigger" in await reply(rig, "/trigger")
        assert "every message" in await reply(rig, "/trigger all")
        assert await chosen(rig) == Trigger("all")
        assert "deploy, pilot*" in await reply(rig, "/trigger pattern deploy pilot*")
        assert await chosen(rig) == Trigger("pattern", words=("deploy", "pilot*"))
        assert "deploy, pilot*" in await reply(rig, "/trigger", by=MEMBER)
        assert "configured" in await reply(rig, "/trigger default")
        assert await chosen(rig) is None
        assert await chosen(rig, "elsewhere") is None


async def test_only_an_admin_changes_a_trigger(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        assert "Only an admin" in await reply(rig, "/trigger all", by=MEMBER)
        assert await chosen(rig) is None


@pytest.mark.parametrize("said", ["sometimes", "pattern", "pattern *", "all day", "pattern " + "x" * 100])
async def test_what_cannot_work_changes_nothing_and_says_why(tmp_path: Path, said: str) -> None:
    async with open_rig(tmp_path) as rig:
        await reply(rig, "/trigger reply")
        text = await reply(rig, f"/trigger {said}")
        assert "There is no trigger" in text or "Nothing was changed" in text
        assert await chosen(rig) == Trigger("reply")


async def test_a_thread_hears_what_its_parent_hears_until_it_has_its_own(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await reply(rig, "/trigger all")
        assert await chosen(rig, thread="7") == Trigger("all")
        await reply(rig, "/trigger reply", thread="7")
        assert await chosen(rig, thread="7") == Trigger("reply")
        assert await chosen(rig, thread="8") == Trigger("all")
        assert await chosen(rig) == Trigger("all")
        await reply(rig, "/trigger default", thread="7")
        assert await chosen(rig, thread="7") == Trigger("all")


async def test_a_trigger_survives_a_restart(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await reply(rig, "/trigger all")
    async with open_rig(tmp_path, name="second") as rig:
        assert await chosen(rig) == Trigger("all")


async def test_what_another_process_changed_is_heard_of(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        assert await chosen(rig) is None
        async with open_rig(tmp_path, name="second", standby=True) as other:
            await reply(other, "/trigger all")
            while await chosen(rig) is None:  # as soon as the hint of the other's commit comes
                await rig.until_true(lambda: True)


async def test_what_is_known_is_not_looked_up_again(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await reply(rig, "/trigger all")
        desk, address = rig.gateway.desk, rig.channel.address("group")
        first = await desk.settings_of(address)
        assert await desk.settings_of(address) is first


async def test_in_private_there_is_nothing_to_choose(tmp_path: Path) -> None:
    async with open_rig(tmp_path) as rig:
        await rig.channel.say("hello", "alone")
        assert "private chat" in await reply(rig, "/trigger reply", place="alone")
        assert await chosen(rig, "alone") is None
