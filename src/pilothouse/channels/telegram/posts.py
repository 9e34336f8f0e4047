"""Chooses the Bot API call for a payload: a new message, a draft, or an edit."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from pilothouse.channels.parts import sent_name
from pilothouse.channels.telegram.client import BotClient
from pilothouse.channels.telegram.payload import File, Message, Payload, Progress, Rich, Upload
from pilothouse.channels.telegram.shapes import ReplyTo
from pilothouse.channels.telegram.shapes import Rich as RichShape
from pilothouse.channels.telegram.shapes import Upload as Bytes
from pilothouse.channels.telegram.trouble import Refused, Trouble
from pilothouse.channels.telegram.wire import Message as Posted
from pilothouse.core.engine import Blobs
from pilothouse.core.message import Attachment


class Target(Struct, frozen=True):
    """A chat and its topic."""

    chat: int
    thread: int | None = None

    @property
    def is_group(self) -> bool:
        """People have positive numbers, groups negative ones."""
        return self.chat < 0


class Poster:
    def __init__(self, client: BotClient, blobs: Blobs) -> None:
        self._client = client
        self._blobs = blobs

    async def post(self, target: Target, payload: Payload, files: Sequence[Attachment]) -> Posted | Trouble:
        client, thread, keyboard = self._client, target.thread, payload.reply_markup
        silent, reply_to = payload.silent, _reply(payload)
        match payload:
            case Message(entities=entities) | Progress(entities=entities):
                return await client.send_message(
                    target.chat,
                    payload.text,
                    thread_id=thread,
                    entities=entities,
                    keyboard=keyboard,
                    reply_to=reply_to,
                    silent=silent,
                )
            case Rich():
                return await client.send_rich(
                    target.chat,
                    _rich(payload),
                    thread_id=thread,
                    keyboard=keyboard,
                    reply_to=reply_to,
                    silent=silent,
                )
            case File(caption=caption, caption_entities=entities, name=name):
                upload, photo = Bytes(name, "text/plain", payload.text.encode(errors="replace")), False
            case Upload(text=caption, entities=entities, kind=kind):
                upload, photo = await self._fetch(files[0]), kind == "photo"
        return await client.send_file(
            target.chat,
            upload,
            kind="photo" if photo else "document",
            caption=caption,
            entities=entities,
            thread_id=thread,
            keyboard=keyboard,
            reply_to=reply_to,
            silent=silent,
        )

    async def draft(self, target: Target, draft_id: int, payload: Progress) -> bool | Trouble:
        client, thread = self._client, target.thread
        if payload.html:
            rich = RichShape(html=payload.html)
            return await client.send_rich_draft(target.chat, draft_id, rich, thread_id=thread, can_stop=True)
        return await client.send_draft(
            target.chat, draft_id, payload.text, thread_id=thread, entities=payload.entities, can_stop=True
        )

    async def replace(self, target: Target, message_id: int, payload: Payload) -> Posted | Trouble:
        """Edit a message. Of a file only the caption changes."""
        client, keyboard = self._client, payload.reply_markup
        match payload:
            case Message(entities=entities) | Progress(entities=entities):
                text = payload.text
                found = await client.edit_text(
                    target.chat, message_id, text, entities=entities, keyboard=keyboard
                )
                if not isinstance(found, Refused) or "no text" not in found.text:
                    return found
                caption = text  # the message is a file: the text becomes its caption
            case Rich():
                return await client.edit_rich(target.chat, message_id, _rich(payload), keyboard=keyboard)
            case File(caption=caption, caption_entities=entities):
                pass
            case Upload(text=caption, entities=entities):
                pass
        return await client.edit_caption(
            target.chat, message_id, caption, entities=entities, keyboard=keyboard
        )

    async def _fetch(self, file: Attachment) -> Bytes:
        return Bytes(sent_name(file.name, "file"), file.media_type, await self._blobs.get(file.blob))


def _rich(payload: Rich) -> RichShape:
    return RichShape(html=payload.html, is_rtl=payload.is_rtl or None)


def _reply(payload: Payload) -> ReplyTo | None:
    """Return the message to reply to. A reaction, which has no message number, cannot be replied to."""
    return ReplyTo(int(payload.reply_to)) if payload.reply_to.isdecimal() else None
