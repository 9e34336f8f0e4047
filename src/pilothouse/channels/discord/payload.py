"""The messages that we send, as values, and Discord's limits on them.

A `Part` is one of them in its stored form; `text` is always what a person reads. Nothing pings anybody but the people in
`pings`, and no link unfolds into a preview. Text is counted in UTF-16 units, which is never less than Discord counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from pilothouse.channels.parts import read_part
from pilothouse.channels.text import clip, utf16_units
from pilothouse.core.message import AGAIN_MARK, Attachment, Part

TEXT = 2000
TARGET = 1900
"""We fill this much; the rest is for the mark of a repeat."""
PARTS = 10
"""An answer that would be more messages than this is a file."""
FILES = 10
ROWS = 5
BUTTONS = 5
"""In one row."""
OPTIONS = 25
"""In one select."""
LABEL = 80
"""Characters on a button: two lines on a phone."""
OPTION_LABEL = 100
UPLOAD_BYTES = 10 << 20
"""For each file, unless the server has a higher limit. An answer as a file is smaller: a turn's text has a lower bound."""
REQUEST_BYTES = 24 << 20
"""The bytes of files in one request, of the 25 MiB that Discord takes: the rest is for the words. One file may be larger where a
guild's limit is."""
FILE_NAME = 100
FILES_ROOM = 250
"""Kept free in a message with files, for a word about one that is too large."""
FORM_TITLE = 45


class Look(Struct, frozen=True):
    parts: int = PARTS
    """An answer that would be more messages than this is a file."""
    table_width: int = 64
    """Return how many columns of one-width letters fit; a wider table is told row by row."""
    steps: bool = True
    """Answers list the commands that ran and the files that changed."""


Style = Literal["primary", "secondary", "success", "danger"]
_STYLES: dict[Style, int] = {"primary": 1, "secondary": 2, "success": 3, "danger": 4}
SUPPRESS_EMBEDS = 1 << 2
SUPPRESS_NOTIFICATIONS = 1 << 12
TOLD_FILES = 3
TOLD_CHARS = 40


class Button(Struct, frozen=True, omit_defaults=True, tag="button"):
    """`key` is the custom id that a press brings back."""

    key: str
    label: str
    style: Style = "secondary"
    emoji: str = ""


class SelectOption(Struct, frozen=True, omit_defaults=True):
    value: str
    label: str
    description: str = ""


class Select(Struct, frozen=True, omit_defaults=True, tag="select"):
    """A list to choose from; a press brings back its key and the chosen values."""

    key: str
    options: tuple[SelectOption, ...]
    min: int = 1
    max: int = 1
    placeholder: str = ""


class Row(Struct, frozen=True):
    """Up to five buttons, or one select."""

    items: tuple[Button | Select, ...]


class Document(Struct, frozen=True):
    """A text that is too long for a message, sent as a file."""

    name: str
    text: str


class _Payload(Struct, frozen=True, omit_defaults=True, tag_field="method", kw_only=True):
    text: str
    rows: tuple[Row, ...] = ()
    silent: bool = False
    reply_to: str = ""
    pings: tuple[str, ...] = ()
    """Ids of the people who were asked for, and whom their mention in the text may call."""


class Message(_Payload, frozen=True, omit_defaults=True, tag="message"):
    """`names` are what the part's attachments are called here, in order. Documents come before them."""

    documents: tuple[Document, ...] = ()
    names: tuple[str, ...] = ()


class Progress(_Payload, frozen=True, omit_defaults=True, tag="progress"):
    """The progress of a turn: a message that is edited."""


Payload = Message | Progress

_decoder: msgspec.json.Decoder[Payload] = msgspec.json.Decoder(Payload)


def unpack(part: Part) -> Payload:
    """Unpack a part into its payload; a repeat is marked as one."""
    payload = read_part(part, _decoder)
    return marked(payload) if part.again else payload


def marked(payload: Payload) -> Payload:
    return msgspec.structs.replace(payload, text=below(payload.text, AGAIN_MARK))


def below(text: str, line: str) -> str:
    """The text with a line of its own below it. Of a text that leaves no room for that the end gives way."""
    text = clip(text, TEXT - utf16_units(line) - 2)
    return f"{text}\n\n{line}" if text else line


def fit_files(
    payload: Message, attachments: Sequence[Attachment], limit_bytes: int
) -> tuple[Message, tuple[Attachment, ...]]:
    """Leave out the files that are larger than a limit, and name them in the text. Documents stay: they are the message."""
    named = named_files(payload, attachments)
    kept = [(name, file) for name, file in named if file.size <= limit_bytes]
    if large := [(name, file) for name, file in named if file.size > limit_bytes]:
        payload = msgspec.structs.replace(
            payload,
            text=below(payload.text, _too_large(large, limit_bytes)),
            names=tuple(name for name, _ in kept),
        )
    return payload, tuple(file for _, file in kept)


def body_of(payload: Payload) -> dict[str, Any]:
    """The body of a request that makes this message, or, without `message_reference`, edits one into it."""
    flags = SUPPRESS_EMBEDS | (SUPPRESS_NOTIFICATIONS if payload.silent else 0)
    body: dict[str, Any] = {
        "content": payload.text,
        "components": [_row(row) for row in payload.rows],
        "allowed_mentions": {"parse": [], "users": list(payload.pings), "replied_user": False},
        "flags": flags,
    }
    if payload.reply_to:
        # A message that was deleted meanwhile is no reason to say nothing.
        body["message_reference"] = {"message_id": payload.reply_to, "fail_if_not_exists": False}
    return body


def _row(row: Row) -> dict[str, Any]:
    return {"type": 1, "components": [_item(item) for item in row.items]}


def _item(item: Button | Select) -> dict[str, Any]:
    match item:
        case Button(key, label, style, emoji):
            face = {"emoji": {"name": emoji}} if emoji else {}
            return {"type": 2, "custom_id": key, "label": label, "style": _STYLES[style], **face}
        case Select(key, options, least, most, placeholder):
            found = {"type": 3, "custom_id": key, "min_values": least, "max_values": most}
            said = {"placeholder": placeholder} if placeholder else {}
            return {**found, **said, "options": [msgspec.to_builtins(option) for option in options]}


def named_files(payload: Message, attachments: Sequence[Attachment]) -> list[tuple[str, Attachment]]:
    """Pair each attachment with its name in this message."""
    names = (*payload.names, *(file.name for file in attachments[len(payload.names) :]))
    return list(zip(names, attachments, strict=False))


def listed(files: Sequence[tuple[str, Attachment]]) -> str:
    """List a few files by name, and count the others; a message keeps little room for this."""
    told = [f"{clip(name, TOLD_CHARS)} ({file.size / (1 << 20):.0f} MB)" for name, file in files[:TOLD_FILES]]
    if more := len(files) - len(told):
        told.append(f"{more} more")
    return ", ".join(told)


def _too_large(files: Sequence[tuple[str, Attachment]], limit_bytes: int) -> str:
    verb = "are" if len(files) > 1 else "is"
    most = f": {limit_bytes >> 20} MB is the most" if limit_bytes > 0 else ""
    return f"{listed(files)} {verb} too large to send here{most}."
