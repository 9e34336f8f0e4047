"""Payloads in the Bot API's own terms, their limits (Bot API 10.3), and how they should look.

A `Part` is a payload in its stored form. `text` is what a person reads or, for a file, its content; it is the part's
own text, so it is stored once. The client adds chat, topic, message and draft id. Telegram counts text in UTF-16
units, after parsing its markup.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import Struct

from pilothouse.channels.parts import read_part
from pilothouse.core.message import AGAIN_MARK, Part

TEXT = 4096
CAPTION = 1024
ENTITIES = 100
CALLBACK_BYTES = 64

RICH_CHARS = 32_768
RICH_BLOCKS = 500
RICH_DEPTH = 16
RICH_COLUMNS = 20

UPLOAD_BYTES = 50_000_000
PHOTO_BYTES = 10_000_000
DOWNLOAD_BYTES = 20 << 20
"""The server's MAX_DOWNLOAD_FILE_SIZE. Upload limits are only documented, as 50 MB and 10 MB: we use decimal MB."""
URL_CHARS = 2048

AGAIN_ROOM = 64
"""Units reserved in every message for the mark of a repeat."""

UploadKind = Literal["photo", "document"]
FILE_NAME = "message.txt"
AS_FILE = "Telegram refused this as a message, so it is sent as a file."


class Look(Struct, frozen=True):
    rich: bool = False
    """The server supports rich messages (Bot API 10.1)."""
    parts: int = 6
    """An answer that needs more messages than this becomes a file."""
    table_width: int = 36
    """Columns of monospace text that fit on a phone; a wider table is written row by row."""
    commands: bool = True
    """Progress shows the text of running commands."""


class Entity(Struct, frozen=True, omit_defaults=True):
    """Offsets and lengths in UTF-16 units."""

    type: str
    offset: int
    length: int
    url: str = ""
    language: str = ""


class Button(Struct, frozen=True):
    text: str
    callback_data: str


class Keyboard(Struct, frozen=True):
    inline_keyboard: tuple[tuple[Button, ...], ...]


class _Payload(Struct, frozen=True, omit_defaults=True, tag_field="method", kw_only=True):
    text: str
    reply_markup: Keyboard | None = None
    silent: bool = False
    reply_to: str = ""


class Message(_Payload, frozen=True, omit_defaults=True, tag="message"):
    entities: tuple[Entity, ...] = ()
    in_group: str = ""
    """Text that is appended in groups only."""


class Rich(_Payload, frozen=True, omit_defaults=True, tag="rich"):
    """A rich message (Bot API 10.1); `text` is its plain form."""

    html: str
    is_rtl: bool = False


class File(_Payload, frozen=True, omit_defaults=True, tag="file"):
    """A text that is too long for messages, as a document. `text` is its content."""

    name: str
    caption: str = ""
    caption_entities: tuple[Entity, ...] = ()


class Upload(_Payload, frozen=True, omit_defaults=True, tag="upload"):
    """The part's attachment; `text` is its caption."""

    kind: UploadKind = "document"
    entities: tuple[Entity, ...] = ()


class Progress(_Payload, frozen=True, omit_defaults=True, tag="progress"):
    """A running turn: a message that is edited or, in a private chat, a draft.

    `html` is the rich draft, if the server supports it; without it, the draft is the text with its entities.
    """

    entities: tuple[Entity, ...] = ()
    html: str = ""


Payload = Message | Rich | File | Upload | Progress

_decoder: msgspec.json.Decoder[Payload] = msgspec.json.Decoder(Payload)


def unpack(part: Part) -> Payload:
    """Return the payload of a part, without the mark of a repeat: the sender marks the form that it sends."""
    return read_part(part, _decoder)


def for_group(payload: Payload) -> Payload:
    if not isinstance(payload, Message) or not payload.in_group:
        return payload
    return msgspec.structs.replace(payload, text=f"{payload.text} {payload.in_group}", in_group="")


def mark_repeat(payload: Payload) -> Payload:
    """Add the note that this message may be a duplicate."""
    match payload:
        case File(caption=caption):
            return msgspec.structs.replace(payload, caption=_joined(caption))
        case Rich(html=html):
            return msgspec.structs.replace(
                payload, text=_joined(payload.text), html=f"{html}<p>{AGAIN_MARK}</p>"
            )
        case _:
            return msgspec.structs.replace(payload, text=_joined(payload.text))


def plainer_form(payload: Payload) -> Payload | None:
    """Return the next plainer form, for a payload that Telegram refused; None if there is none.

    A rich message is rendered again instead, because its plain form may be several messages.
    """
    match payload:
        case Message(entities=entities) | Upload(entities=entities) if entities:
            return msgspec.structs.replace(payload, entities=())
        case File(caption_entities=entities) if entities:
            return msgspec.structs.replace(payload, caption_entities=())
        case Progress(html=html) if html:
            return msgspec.structs.replace(payload, html="")
        case Progress(entities=entities) if entities:
            return msgspec.structs.replace(payload, entities=())
        case Upload(kind=kind) if kind != "document":
            return msgspec.structs.replace(payload, kind="document")
        case Message(text=text):
            return File(text=text, name=FILE_NAME, caption=AS_FILE, **_common(payload))
        case _:
            return None


def _common(payload: Payload) -> dict[str, Any]:
    return {"reply_markup": payload.reply_markup, "silent": payload.silent, "reply_to": payload.reply_to}


def _joined(text: str) -> str:
    return f"{text}\n\n{AGAIN_MARK}" if text else AGAIN_MARK
