"""Agent groups: an agent registers a workspace and its place, and an admin decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.agent_tools.test_agents import House, Scene, answer, open_house
from tests.runtime.rig import ADMIN, MEMBER

from pilothouse.channels.memory import MEMORY
from pilothouse.core.conversation import Conversation
from pilothouse.core.ids import ConversationId
from pilothouse.core.message import Address
from pilothouse.core.trigger import Trigger
from pilothouse.runtime.conversations.agent_groups import find_group
from pilothouse.runtime.conversations.binding import threads_in
from pilothouse.runtime.conversations.places import trigger_of

TEAM, THREAD = ConversationId("memory:team"), ConversationId("memory:team#7")
ADDRESS = Address(MEMORY, "team", "7")
GROUP: dict[str, Any] = {
    "name": "helpers",
    "folder": "helpers",
    "platformId": "team",
    "channelType": "memory",
    "triggerRules": {"words": ["deploy"]},
    "sessionMode": "shared",
}


def register_once(house: House, **changes: Any) -> Any:
    async def act(scene: Scene) -> str:
        if "SYSTEM RESPONSE" in scene.text:
            return f"heard: {scene.text}"
        told = await scene.call("register_agent_group", **{**GROUP, **changes})
        house.told.append(told)
        return told

    return act


def roots(tmp_path: Path) -> dict[str, Any]:
    (tmp_path / "root").mkdir(exist_ok=True)
    return {"roots": (str((tmp_path / "root").resolve()),)}


async def test_an_admin_allows_a_group_and_its_place_works_in_its_folder(tmp_path: Path) -> None:
    house = House()
    house.acts = {"shop": register_once(house), "helpers": answer}
    async with open_house(tmp_path, house, **roots(tmp_path)) as rig:
        await rig.channel.say("go", author=ADMIN)
        ask = await rig.until_asked("Register the agent helpers?")
        folder = tmp_path / "root" / "helpers"
        assert str(folder.resolve()) in ask.title and "deploy" in ask.title
        assert not folder.exists() and await rig.store.read(lambda tx: find_group(tx, "helpers")) is None
        assert not (await rig.channel.answer(ask, "allow", author=MEMBER)).accepted
        assert (await rig.channel.answer(ask, "allow", author=ADMIN)).accepted
        text = await house.until_prompted("shop", "Action: register_agent_group")
        assert 'Status: success\nResult: {"agent_group_id":"helpers"' in text
        await house.settled()
        assert folder.is_dir()
        settings = rig.ports.settings()
        trigger, threads = await rig.store.read(
            lambda tx: (trigger_of(tx, TEAM), threads_in(tx, settings, Conversation(THREAD, ADDRESS, 1.0)))
        )
        assert trigger == Trigger("pattern", words=("deploy",)) and threads == "shared"
        await rig.channel.say("hello", "team")
        await house.until_prompted("helpers", "hello")
        await house.settled()
        rows = await rig.store.read(lambda tx: tx.audit.list(limit=200))
        registered = [row.who for row in rows if row.what == "agent_group.registered"]
        assert registered == [ADMIN.id]

        async def shop(scene: Scene) -> str:
            if "SYSTEM RESPONSE" in scene.text:
                return "noted"
            return await scene.call("send_to_agent", agentGroupId="helpers", text="Who are you?")

        house.acts["shop"] = shop
        await rig.channel.say("ask it")
        await house.until_prompted("helpers", "Who are you?")
        await house.until_prompted("shop", "Status: success\nResult: The agent helpers")


async def test_a_group_needs_an_admin_a_root_a_free_name_and_a_free_place(tmp_path: Path) -> None:
    house = House()
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "link").symlink_to(tmp_path)
    refused = {
        "name": ("Bad name!", "A name has 1 to 40 small letters"),
        "folder": ("../shop", "is not below a configured root"),
        "channelType": ("carrier-pigeon", "There is no channel 'carrier-pigeon'"),
        "platformId": (" ", "must not be empty"),
        "triggerRules": ({"mode": "sometimes"}, "The triggerRules are not valid"),
        "sessionMode": ("one", "are not valid"),
    }
    more = [
        ({"name": "docs"}, "The workspace docs is configured already"),
        ({"folder": "link"}, "is not below a configured root"),
        ({"folder": "/etc"}, "is not below a configured root"),
        ({"folder": ".hidden"}, "is not below a configured root"),
        ({"platformId": "bound"}, "memory:bound is bound to another folder"),
        ({"triggerRules": {"words": ["*"]}}, "has no letter and no digit"),
    ]
    cases: list[tuple[dict[str, Any], str]] = [
        *(({key: value}, why) for key, (value, why) in refused.items()),
        *more,
    ]

    async def shop(scene: Scene) -> str:
        for change, _ in cases:
            house.told.append(await scene.call("register_agent_group", **{**GROUP, **change}))
        return "done"

    house.acts = {"shop": shop}
    async with open_house(tmp_path, house, **roots(tmp_path)) as rig:
        await rig.channel.say("/bind docs", "bound")
        await rig.until_said("From your next message on")
        await rig.channel.say("go")
        await rig.until_ended()
        for told, (change, why) in zip(house.told, cases, strict=True):
            assert told.startswith("refused: ") and why in told, (change, told)
        house.acts = {"shop": register_once(house)}
        await rig.channel.say("go", author=MEMBER)
        await rig.until_ended(2)
        assert house.told[-1].startswith("refused: Only an admin may register agent groups")
        assert not await rig.store.read(lambda tx: tx.asks.open_in(ConversationId("memory:main")))
        assert not list((tmp_path / "root").glob("[!l]*"))


async def test_a_refused_group_leaves_nothing_and_the_agent_is_told(tmp_path: Path) -> None:
    house = House()
    house.acts = {"shop": register_once(house)}
    async with open_house(tmp_path, house, **roots(tmp_path)) as rig:
        await rig.channel.say("go")
        ask = await rig.until_asked("Register the agent helpers?")
        assert (await rig.channel.answer(ask, "deny")).accepted
        assert "Status: refused" in await house.until_prompted("shop", "SYSTEM RESPONSE")
        assert not (tmp_path / "root" / "helpers").exists()
        await rig.channel.say("go again")
        again = await rig.until_asked("Register the agent helpers?")
        (tmp_path / "root" / "helpers").symlink_to(tmp_path / "shop")
        assert (await rig.channel.answer(again, "allow")).accepted
        text = await house.until_prompted("shop", "is a link now")
        assert "Status: failed" in text
        assert await rig.store.read(lambda tx: find_group(tx, "helpers")) is None
