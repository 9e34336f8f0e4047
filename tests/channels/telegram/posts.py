"""Messages that tests send and change through the client."""

from __future__ import annotations

from typing import Any

from pilothouse.channels.telegram.client import BotClient
from pilothouse.channels.telegram.payload import (
    Button,
    Entity,
    FileBytes,
    Keyboard,
    Message,
    Progress,
    Rich,
    Target,
    Upload,
    UploadKind,
)
from pilothouse.channels.telegram.trouble import Trouble
from pilothouse.channels.telegram.wire import Message as Posted


def keyboard(*buttons: Button) -> Keyboard:
    """One row."""
    return Keyboard((buttons,))


async def send_message(
    client: BotClient, chat: int, text: str, *, thread: int | None = None, **more: Any
) -> Posted | Trouble:
    return await client.post(Target(chat, thread), Message(text=text, **more))


async def send_rich(client: BotClient, chat: int, html: str) -> Posted | Trouble:
    return await client.post(Target(chat), Rich(text="", html=html))


async def send_file(
    client: BotClient, chat: int, file: FileBytes, *, kind: UploadKind = "document", caption: str = ""
) -> Posted | Trouble:
    return await client.post(Target(chat), Upload(text=caption, kind=kind), file)


async def edit_text(client: BotClient, chat: int, number: int, text: str, **more: Any) -> Posted | Trouble:
    return await client.edit(chat, number, Message(text=text, **more))


async def edit_rich(client: BotClient, chat: int, number: int, html: str) -> Posted | Trouble:
    return await client.edit(chat, number, Rich(text="", html=html))


async def edit_caption(
    client: BotClient, chat: int, number: int, caption: str, entities: tuple[Entity, ...] = ()
) -> Posted | Trouble:
    return await client.edit(chat, number, Upload(text=caption, entities=entities))


async def send_draft(
    client: BotClient, chat: int, draft_id: int, text: str, html: str = ""
) -> bool | Trouble:
    return await client.draft(Target(chat), draft_id, Progress(text=text, html=html))
