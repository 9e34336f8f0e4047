"""What is rendered goes through our client to a server that aiogram and TDLib judge: both take all of it."""

from __future__ import annotations

import anyio
import pytest
from tests.channels.telegram.golden import Look, all_contents
from tests.channels.telegram.scenes import ASKS, VIEWS, asked
from tests.channels.telegram.server.running import Server

from pilothouse.channels.telegram.client import BotClient
from pilothouse.channels.telegram.pace import Gate, Request
from pilothouse.channels.telegram.payload import File, Message, Payload, Progress, Rich, Upload, unpack
from pilothouse.channels.telegram.progress import render_view
from pilothouse.channels.telegram.render import render
from pilothouse.channels.telegram.shapes import Rich as RichMessage
from pilothouse.channels.telegram.shapes import Upload as Bytes
from pilothouse.channels.telegram.trouble import Trouble
from pilothouse.runtime.clock import SystemClock

pytestmark = pytest.mark.anyio
LOOKS = (Look(), Look(rich=True))
DRAFT = 7


async def send(client: BotClient, chat: int, payload: Payload) -> object:
    match payload:
        case Message(text=text, entities=entities, reply_markup=keyboard, silent=silent):
            return await client.send_message(chat, text, entities=entities, keyboard=keyboard, silent=silent)
        case Rich(html=html, is_rtl=is_rtl, reply_markup=keyboard):
            return await client.send_rich(
                chat, RichMessage(html=html, is_rtl=is_rtl or None), keyboard=keyboard
            )
        case File(text=text, name=name, caption=caption, caption_entities=entities):
            file = Bytes(name, "text/plain", text.encode())
            return await client.send_file(chat, file, caption=caption, entities=entities)
        case Upload():
            return None
        case Progress(html=html) if html:
            return await client.send_rich_draft(chat, DRAFT, RichMessage(html=html), can_stop=True)
        case Progress(text=text, entities=entities):
            return await client.send_draft(chat, DRAFT, text, entities=entities, can_stop=True)


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
    first = await client.send_message(ada.id, "Starting.")
    assert not isinstance(first, Trouble)
    for view, now in VIEWS.values():
        shown = render_view(view, now, look)
        assert not isinstance(await send(client, ada.id, shown), Trouble)
        edited = await client.edit_text(
            ada.id, first.message_id, shown.text, entities=shown.entities, keyboard=shown.reply_markup
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
            first = await client.send_message(chat, "Working", silent=True)
        assert not isinstance(first, Trouble)
        gate_key = (chat, first.message_id)
        for step in range(4):
            async with gate.slot(Request(chat, "view", gate_key, step)) as slot:
                if slot.may_send:
                    edited = await client.edit_text(chat, first.message_id, f"Working, step {step}")
                    assert not isinstance(edited, Trouble)
            if step % 2 == 1:
                async with gate.slot(Request(chat, "final")) as slot:
                    assert not isinstance(await client.send_message(chat, f"Answer {step}"), Trouble)

    async with anyio.create_task_group() as group:
        for chat in chats:
            group.start_soon(stream, chat)
    assert server.flood.violations == []
    assert len(server.called("sendMessage")) == 8 * 3
