"""What Telegram takes in one message, and gives in one file (Bot API 10.3). Text is counted in UTF-16 units, after its
markup is parsed.

How messages shall look: what the server can show, and what people prefer.

What is sent, as values in the Bot API's own terms. A `Part` is one of them in its stored form.

`text` is always what a person reads of it, or, for a file, what stands in the file; it is the part's own text, so it
is stored once. The client adds where it goes: chat, topic, message, draft id.
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
"""What its server gives out (MAX_DOWNLOAD_FILE_SIZE). What it takes is only documented, as 50 MB and 10 MB: the
smaller reading of that is surely taken."""
URL_CHARS = 2048

AGAIN_ROOM = 64
"""Kept free in every message for the mark of a repeat."""

UploadKind = Literal["photo", "document"]
FILE_NAME = "message.txt"
AS_FILE = "Telegram did not take this as a message, so it is a file."


class Look(Struct, frozen=True):
    rich: bool = False
    """Whether the server has rich messages (Bot API 10.1)."""
    parts: int = 6
    """An answer that would be more messages than this is a file."""
    table_width: int = 36
    """How many columns of one-width letters fit on a phone; a wider table is told row by row."""
    commands: bool = True
    """Whether progress shows the commands that run, or only that one runs."""


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
    """What stands behind the text where several people talk, and nowhere else."""


class Rich(_Payload, frozen=True, omit_defaults=True, tag="rich"):
    """A rich message (Bot API 10.1); `text` is the same without its look."""

    html: str
    is_rtl: bool = False


class File(_Payload, frozen=True, omit_defaults=True, tag="file"):
    """A text that is too long to be split sanely, as a document. `text` is what the document holds."""

    name: str
    caption: str = ""
    caption_entities: tuple[Entity, ...] = ()


class Upload(_Payload, frozen=True, omit_defaults=True, tag="upload"):
    """The part's attachment; `text` is its caption."""

    kind: UploadKind = "document"
    entities: tuple[Entity, ...] = ()


class Progress(_Payload, frozen=True, omit_defaults=True, tag="progress"):
    """A turn as it runs: a message that is edited, or, in a private chat, a draft.

    `html` is the rich draft, where the server has rich messages; else the draft is the text with its entities.
    """

    entities: tuple[Entity, ...] = ()
    html: str = ""


Payload = Message | Rich | File | Upload | Progress


_decoder: msgspec.json.Decoder[Payload] = msgspec.json.Decoder(Payload)


def unpack(part: Part) -> Payload:
    """What to send for a part. A repeat says that it is one: whoever sends it marks the form that is sent."""
    return read_part(part, _decoder)


def for_group(payload: Payload) -> Payload:
    if not isinstance(payload, Message) or not payload.in_group:
        return payload
    return msgspec.structs.replace(payload, text=f"{payload.text} {payload.in_group}", in_group="")


def marked(payload: Payload) -> Payload:
    match payload:
        case File(caption=caption):
            return msgspec.structs.replace(payload, caption=_joined(caption))
        case Rich(html=html):
            return msgspec.structs.replace(
                payload, text=_joined(payload.text), html=f"{html}<p>{AGAIN_MARK}</p>"
            )
        case _:
            return msgspec.structs.replace(payload, text=_joined(payload.text))


def humbler(payload: Payload) -> Payload | None:
    """The same in a plainer form, for when Telegram refuses this one: no answer is lost for its look.

    None if it is as plain as it gets. What is rich is rendered anew instead: it may be several messages without.
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
