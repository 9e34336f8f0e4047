"""A group that becomes a supergroup gets another number: its conversation goes on there, also after a restart."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest
from tests.channels.telegram.gateway_house import GatewayHouse, config_for, open_gateway
from tests.channels.telegram.server.running import Server
from tests.runtime.puppet import Strings

from pilothouse.core.ask import Ask
from pilothouse.core.ids import AskId, ConversationId
from pilothouse.core.trigger import Trigger

pytestmark = pytest.mark.anyio

APPROVAL = Ask(AskId("a"), "approval", "Run make?", {"command": "make"})


async def sessions(house: GatewayHouse) -> int:
    return len(await house.rig.store.read(lambda tx: tx.sessions.of()))


async def test_the_session_and_the_trigger_go_along_and_last(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    group = ada.make_group("Work", kind="group")
    config = config_for(server, chats={str(group.id): Trigger("all")})
    async with open_gateway(server, tmp_path, {ada: "owner"}, config=config) as house:
        ada.say("hello", chat=group)
        await house.until_shown(group.id, "hello")
        moved = ada.migrate(group)
        ada.say("still there?", chat=moved)
        await house.until_shown(moved.id, "still there?")
        assert await sessions(house) == 1
    async with open_gateway(server, tmp_path, {ada: "owner"}, config=config, name="second") as house:
        ada.say("and now?", chat=moved)
        await house.until_shown(moved.id, "and now?")
        assert await sessions(house) == 1


async def test_an_approval_that_was_open_is_given_in_the_new_group(server: Server, tmp_path: Path) -> None:
    ada = server.person("Ada")
    group = ada.make_group("Work", kind="group")

    async def asks(strings: Strings) -> None:
        await strings.start()
        decision = await strings.ask(APPROVAL)
        await strings.end(f"It was {decision.verdict}.")

    async with open_gateway(server, tmp_path, {ada: "owner"}, asks) as house:
        ada.say("@pilot_test_bot build", chat=group)
        await house.until_shown(group.id, "Run make?")
        moved = ada.migrate(group)
        again = await house.until_button(moved.id, "Allow once")
        ada.press(again, "Allow once")
        await house.until_shown(moved.id, "It was allow.")
        await house.until_shown(moved.id, "Allowed by Ada: Run make?")


async def test_a_move_that_only_a_refusal_tells_of_moves_the_conversation_too(
    server: Server, tmp_path: Path
) -> None:
    ada, go = server.person("Ada"), anyio.Event()
    group = ada.make_group("Work", kind="group")

    async def works(strings: Strings) -> None:
        await strings.start()
        await go.wait()
        await strings.end("It is built.")

    async with open_gateway(server, tmp_path, {ada: "owner"}, works) as house:
        ada.say("@pilot_test_bot build", chat=group)
        await house.rig.until_live(ConversationId(f"telegram:{group.id}"), "running")
        told = len(server.world.pending)
        moved = ada.migrate(group)
        del server.world.pending[told:]
        go.set()
        await house.until_shown(moved.id, "It is built.")
        here = ConversationId(f"telegram:{group.id}")
        await house.rig.until(
            lambda tx: (place := tx.conversations.get(here)) and place.address.place == str(moved.id)
        )
        ada.say("@pilot_test_bot again", chat=moved)
        await house.until(lambda: len(house.rig.engine.turns) == 2)
        assert await sessions(house) == 1


async def test_nothing_of_the_new_group_is_changed_in_the_name_of_the_old(
    server: Server, tmp_path: Path
) -> None:
    """Messages of both are numbered from one: what stood in the old group must not be looked for in the new one."""
    ada, go = server.person("Ada"), anyio.Event()
    group = ada.make_group("Work", kind="group")

    async def works(strings: Strings) -> None:
        await strings.start()
        await strings.tool(kind="tool", title="make all")
        await go.wait()
        await strings.end("It is built.")

    async with open_gateway(server, tmp_path, {ada: "owner"}, works) as house:
        ada.say("@pilot_test_bot build", chat=group)
        await house.until(lambda: server.world.shown(group.id))
        moved = ada.migrate(group)
        go.set()
        await house.until_shown(moved.id, "It is built.")
        await house.rig.until_idle()
        changed = [
            call
            for call in server.calls
            if call.method in ("editMessageText", "deleteMessage")
            and str(call.params.get("chat_id")) == str(moved.id)
        ]
        ours = {post.id for post in server.world.shown(moved.id)}
        assert all(int(call.params["message_id"]) not in ours for call in changed)
