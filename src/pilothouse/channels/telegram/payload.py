"""Values that we send, in the Bot API's own terms: payloads, keyboards, files, menus; their limits (Bot API 10.3), and how they look.

A `Part` is a payload in its stored form. `text` is what a person reads or, for a file, its content; it is the part's
own text, so it is stored once. The client adds chat, topic, message and draft id. Telegram counts text in UTF-16
units, after parsing its markup.

Each button of an ask carries a key that holds the options chosen so far, so a restart loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from pilothouse.channels.parts import read_part
from pilothouse.channels.presses import (
    DETAILS,
    AskPress,
    ask_key,
    choices,
    has_details,
    is_many,
    offered,
    pressable,
    rows_of,
)
from pilothouse.core.ask import Ask
from pilothouse.core.message import AGAIN_MARK, CommandButton, Part

TEXT = 4096
CAPTION = 1024
ENTITIES = 100
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


LABEL_CHARS = 32
MAX_COMMANDS = 30


class Look(Struct, frozen=True):
    rich: bool = False
    """The server supports rich messages (Bot API 10.1)."""
    parts: int = 6
    """An answer that needs more messages than this becomes a file."""
    steps: bool = True
    """Answers list the commands that ran and the files that changed."""


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


class Target(Struct, frozen=True):
    """A chat and its topic."""

    chat: int
    thread: int | None = None

    @property
    def is_group(self) -> bool:
        """People have positive numbers, groups negative ones."""
        return self.chat < 0


class RichMessage(Struct, frozen=True, omit_defaults=True):
    html: str
    is_rtl: bool = False


class FileBytes(Struct, frozen=True):
    """A file to send with a call."""

    name: str
    media_type: str
    data: bytes


class Command(Struct, frozen=True):
    command: str
    description: str


class Scope(Struct, frozen=True):
    """The chats and people that see a command menu."""

    type: Literal["all_private_chats", "all_group_chats", "all_chat_administrators"]


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


def is_numbered(ask: Ask) -> bool:
    """Tell whether options are too long for buttons. Then the text lists them, and buttons have their numbers."""
    return any(len(option.label) > LABEL_CHARS for option in ask.options)


def keyboard(ask: Ask, chosen: int = 0) -> Keyboard | None:
    """Return the buttons, with chosen options marked. None for a question that only takes text."""
    rows = [
        tuple(row) for row in (_multi_choice(ask, chosen) if is_many(ask) else _single_choice(ask)) if row
    ]
    return Keyboard(tuple(rows)) if rows else None


def command_keyboard(buttons: Sequence[CommandButton]) -> Keyboard | None:
    """Return buttons that run commands; None if there are none."""
    found = [Button(_short(button.label), key) for key, button in pressable(buttons)]
    rows = tuple(tuple(row) for row in _rows(found[:MAX_COMMANDS]))
    return Keyboard(rows) if rows else None


def toggled(ask: Ask, press: AskPress, before: int | None = None) -> int:
    """Return the choice after the press, which flips the state that its button showed when it was pressed."""
    bit = 1 << (press.index or 0)
    others = (press.chosen if before is None else before) & ~bit
    known = (1 << len(offered(ask))) - 1
    return (others | (~press.chosen & bit)) & known


def _single_choice(ask: Ask) -> Iterator[list[Button]]:
    found = choices(ask)
    buttons = [
        Button(_label(ask, number, choice.label), ask_key(ask, "choose", number))
        for number, choice in enumerate(found)
    ]
    if has_details(ask):
        narrow, *lasting = ([buttons[n] for n in row] for row in rows_of(ask))
        once, deny, why = narrow
        yield from ([once, deny], [why, Button(DETAILS, ask_key(ask, "details"))], *lasting)
    else:
        yield from _rows(buttons)


def _multi_choice(ask: Ask, chosen: int) -> Iterator[list[Button]]:
    buttons = [
        Button(f"{'☑' if chosen >> number & 1 else '☐'} {_label(ask, number, option.label)}",
               ask_key(ask, "toggle", number, chosen))
        for number, option in enumerate(offered(ask))
    ]  # fmt: skip
    yield from _rows(buttons)
    count = (chosen & ((1 << len(buttons)) - 1)).bit_count()
    yield [Button(f"Done ({count} chosen)" if count else "Done", ask_key(ask, "done", chosen=chosen))]


def _label(ask: Ask, number: int, label: str) -> str:
    label = " ".join(label.split()) or "…"
    return f"{number + 1}. {_short(label)}" if is_numbered(ask) else label


def _short(label: str) -> str:
    return label if len(label) <= LABEL_CHARS else f"{label[: LABEL_CHARS - 1].rstrip()}…"


def _rows(buttons: list[Button]) -> Iterator[list[Button]]:
    """Lay out buttons: three to a row if they are very short, two if short, else one."""
    longest = max((len(button.text) for button in buttons), default=0)
    size = 3 if longest <= 8 else 2 if longest <= 16 else 1
    for at in range(0, len(buttons), size):
        yield buttons[at : at + size]
