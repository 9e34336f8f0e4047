"""What is sent, as values. A `Part` is one of them in its stored form; `text` is always what a person reads of it.

Nothing here pings anybody but the people in `pings`, and no link is unfolded into a preview: `body_of` says so to
Discord with every message. Whoever sends adds where it goes, and the bytes of the files.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Struct

from pilothouse.channels.discord.limits import TEXT
from pilothouse.channels.parts import read_part
from pilothouse.channels.text import clip, utf16_units
from pilothouse.core.message import AGAIN_MARK, Attachment, Part

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
    """A press brings back its key and the values that were chosen."""

    key: str
    options: tuple[SelectOption, ...]
    min: int = 1
    max: int = 1
    placeholder: str = ""


class Row(Struct, frozen=True):
    """Up to five buttons, or one select."""

    items: tuple[Button | Select, ...]


class Document(Struct, frozen=True):
    """A text of ours that is too long for a message, as a file of it."""

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
    """A turn as it runs: a message that is edited."""


Payload = Message | Progress

_decoder: msgspec.json.Decoder[Payload] = msgspec.json.Decoder(Payload)


def unpack(part: Part) -> Payload:
    """What to send for a part. A repeat says that it is one."""
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
    """Without the files that are too large for where it goes, all of them if there is no room at all: the text names them
    instead. Documents stay, for they are what is said."""
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
    """What Discord's REST API takes to make this message, or, but for `message_reference`, to edit one into it."""
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
    """Each with what it is called here."""
    names = (*payload.names, *(file.name for file in attachments[len(payload.names) :]))
    return list(zip(names, attachments, strict=False))


def listed(files: Sequence[tuple[str, Attachment]]) -> str:
    """A message with files keeps room for this free, so it stays short: the names that fit, and how many more."""
    told = [f"{clip(name, TOLD_CHARS)} ({file.size / (1 << 20):.0f} MB)" for name, file in files[:TOLD_FILES]]
    if more := len(files) - len(told):
        told.append(f"{more} more")
    return ", ".join(told)


def _too_large(files: Sequence[tuple[str, Attachment]], limit_bytes: int) -> str:
    verb = "are" if len(files) > 1 else "is"
    most = f": {limit_bytes >> 20} MB is the most" if limit_bytes > 0 else ""
    return f"{listed(files)} {verb} too large to send here{most}."
