"""What is rendered goes through our client to a server that aiogram and TDLib judge: both take all of it."""

from __future__ import annotations

import anyio
import pytest
from tests.channels.telegram.golden import Look, all_contents
from tests.channels.telegram.posts import edit_text, send_message
from tests.channels.telegram.scenes import ASKS, VIEWS, asked
from tests.channels.telegram.server.running import Server

from pilothouse.channels.telegram.client import BotClient
from pilothouse.channels.telegram.pace import Gate, Request
from pilothouse.channels.telegram.payload import Payload, Progress, Target, Upload, unpack
from pilothouse.channels.telegram.progress import render_view
from pilothouse.channels.telegram.render import render
from pilothouse.channels.telegram.trouble import Trouble
from pilothouse.runtime.ports import SystemClock

pytestmark = pytest.mark.anyio
LOOKS = (Look(), Look(rich=True))
DRAFT = 7


async def send(client: BotClient, chat: int, payload: Payload) -> object:
    match payload:
        case Upload():
            return None
        case Progress():
            return await client.draft(Target(chat), DRAFT, payload)
        case _:
            return await client.post(Target(chat), payload)


@pytest.mark.parametrize("look", LOOKS, ids=["entities", "rich"])
async def test_everything_that_is_said_is_taken(server: Server, client: BotClient, look: Look) -> None:
    ada = server.person()
    for content in (*map(asked, ASKS.values()), *(content for _, content in all_contents())):
        for part in render(content, look):
            assert not isinstance(await send(client, ada.id, unpack(part)), Trouble)


@pytest.mark.parametrize("look", LOOKS, ids=["entities", "rich"])
async def test_every_view_is_taken_as_a_draft_and_as_a_message(
    server: Server, client: BotClient, look: Look
) -> None:
    ada = server.person()
    first = await send_message(client, ada.id, "Starting.")
    assert not isinstance(first, Trouble)
    for view, now in VIEWS.values():
        shown = render_view(view, now, look)
        assert not isinstance(await send(client, ada.id, shown), Trouble)
        edited = await edit_text(
            client,
            ada.id,
            first.message_id,
            shown.text,
            entities=shown.entities,
            reply_markup=shown.reply_markup,
        )
        assert not isinstance(edited, Trouble)


@pytest.mark.slow
async def test_chats_that_stream_at_once_break_no_limit_of_a_server_that_enforces_them(
    server: Server, client: BotClient
) -> None:
    server.flood.mode = "enforce"
    gate = Gate(SystemClock())
    chats = [server.person(f"P{n}").id for n in range(8)]

    async def stream(chat: int) -> None:
        async with gate.slot(Request(chat, "final")):
            first = await send_message(client, chat, "Working", silent=True)
        assert not isinstance(first, Trouble)
        gate_key = (chat, first.message_id)
        for step in range(4):
            async with gate.slot(Request(chat, "view", gate_key, step)) as slot:
                if slot.may_send:
                    edited = await edit_text(client, chat, first.message_id, f"Working, step {step}")
                    assert not isinstance(edited, Trouble)
            if step % 2 == 1:
                async with gate.slot(Request(chat, "final")) as slot:
                    assert not isinstance(await send_message(client, chat, f"Answer {step}"), Trouble)

    async with anyio.create_task_group() as group:
        for chat in chats:
            group.start_soon(stream, chat)
    assert server.flood.violations == []
    assert len(server.called("sendMessage")) == 8 * 3
