"""Which call of the Bot API shows a payload: as a new message, as a draft, or in the place of what stands there."""

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


class Spot(Struct, frozen=True):
    """A chat, and the topic in it."""

    chat: int
    thread: int | None = None

    @property
    def is_group(self) -> bool:
        """Telegram counts people upwards from zero, and groups downwards."""
        return self.chat < 0


class Poster:
    def __init__(self, client: BotClient, blobs: Blobs) -> None:
        self._client = client
        self._blobs = blobs

    async def post(self, spot: Spot, payload: Payload, files: Sequence[Attachment]) -> Posted | Trouble:
        client, thread, keyboard = self._client, spot.thread, payload.reply_markup
        silent, reply_to = payload.silent, _reply(payload)
        match payload:
            case Message(entities=entities) | Progress(entities=entities):
                return await client.send_message(
                    spot.chat,
                    payload.text,
                    thread_id=thread,
                    entities=entities,
                    keyboard=keyboard,
                    reply_to=reply_to,
                    silent=silent,
                )
            case Rich():
                return await client.send_rich(
                    spot.chat,
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
            spot.chat,
            upload,
            kind="photo" if photo else "document",
            caption=caption,
            entities=entities,
            thread_id=thread,
            keyboard=keyboard,
            reply_to=reply_to,
            silent=silent,
        )

    async def draft(self, spot: Spot, draft_id: int, payload: Progress) -> bool | Trouble:
        client, thread = self._client, spot.thread
        if payload.html:
            rich = RichShape(html=payload.html)
            return await client.send_rich_draft(spot.chat, draft_id, rich, thread_id=thread, can_stop=True)
        return await client.send_draft(
            spot.chat, draft_id, payload.text, thread_id=thread, entities=payload.entities, can_stop=True
        )

    async def replace(self, spot: Spot, message_id: int, payload: Payload) -> Posted | Trouble:
        """A file stays what it is: of one, only the words below it change."""
        client, keyboard = self._client, payload.reply_markup
        match payload:
            case Message(entities=entities) | Progress(entities=entities):
                text = payload.text
                found = await client.edit_text(
                    spot.chat, message_id, text, entities=entities, keyboard=keyboard
                )
                if not isinstance(found, Refused) or "no text" not in found.text:
                    return found
                caption = text  # words that shall stand there instead of a file stand below it
            case Rich():
                return await client.edit_rich(spot.chat, message_id, _rich(payload), keyboard=keyboard)
            case File(caption=caption, caption_entities=entities):
                pass
            case Upload(text=caption, entities=entities):
                pass
        return await client.edit_caption(spot.chat, message_id, caption, entities=entities, keyboard=keyboard)

    async def _fetch(self, file: Attachment) -> Bytes:
        return Bytes(sent_name(file.name, "file"), file.media_type, await self._blobs.get(file.blob))


def _rich(payload: Rich) -> RichShape:
    return RichShape(html=payload.html, is_rtl=payload.is_rtl or None)


def _reply(payload: Payload) -> ReplyTo | None:
    """What is no message of Telegram's, such as a reaction, cannot be answered."""
    return ReplyTo(int(payload.reply_to)) if payload.reply_to.isdecimal() else None
