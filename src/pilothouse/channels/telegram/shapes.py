"""Values within a call: keyboards, replies, media, commands. Names and nesting are the Bot API's (10.3).

Also the parameters that many calls share, and the reading of their results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from pilothouse.channels.telegram.trouble import NotTelegram, TooBig, Trouble
from pilothouse.channels.telegram.wire import salvage

ChatId = int | str
"""A number, or the `@name` of a public group or channel."""
Action = Literal["typing", "upload_photo", "upload_document", "record_voice", "upload_voice", "find_location"]

T = TypeVar("T")


class EntityShape(Protocol):
    """A struct that is encoded as a MessageEntity, with any further fields."""

    @property
    def type(self) -> str: ...

    @property
    def offset(self) -> int: ...

    @property
    def length(self) -> int: ...


class KeyboardShape(Protocol):
    """A struct that is encoded as an InlineKeyboardMarkup. A button's data has at most 64 bytes."""

    @property
    def inline_keyboard(self) -> Sequence[Sequence[Any]]: ...


class ReplyTo(Struct, frozen=True):
    """By default the message is sent even if the one that it replies to was deleted."""

    message_id: int
    allow_sending_without_reply: bool = True
    quote: str | UnsetType = UNSET


class Rich(Struct, frozen=True, omit_defaults=True):
    """A rich message: exactly one of the first three fields is set."""

    markdown: str | None = None
    html: str | None = None
    blocks: tuple[dict[str, Any], ...] | None = None
    is_rtl: bool | None = None
    skip_entity_detection: bool | None = None


class Upload(Struct, frozen=True):
    """A file to send with a call."""

    name: str
    media_type: str
    data: bytes


class Command(Struct, frozen=True):
    command: str
    description: str


class Scope(Struct, frozen=True, omit_defaults=True):
    """The chats and people that see a command menu."""

    type: Literal[
        "default",
        "all_private_chats",
        "all_group_chats",
        "all_chat_administrators",
        "chat",
        "chat_administrators",
        "chat_member",
    ]
    chat_id: ChatId | None = None
    user_id: int | None = None


def place(
    chat_id: ChatId,
    thread_id: int | None,
    keyboard: KeyboardShape | None,
    reply_to: ReplyTo | None,
    silent: bool,
) -> dict[str, Any]:
    return {
        "chat_id": chat_id,
        "message_thread_id": thread_id,
        "reply_markup": keyboard,
        "reply_parameters": reply_to,
        "disable_notification": silent or None,
    }


def words(name: str, text: str, entities_name: str, entities: Sequence[EntityShape]) -> dict[str, Any]:
    return {name: text or None, entities_name: list(entities) or None}


def too_big(upload: Upload, limit: int) -> TooBig | None:
    size = len(upload.data)
    if size <= limit:
        return None
    return TooBig(f"{upload.name} has {size / 1_000_000:.1f} MB; Telegram takes {limit // 1_000_000} MB")


def read_result(method: str, raw: Raw, returns: type[T]) -> T | Trouble:
    """Read a result. One that cannot be read is `maybe_done`: Telegram has carried out the call."""
    try:
        return msgspec.json.decode(raw, type=returns)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return salvage(msgspec.json.decode(raw), returns)[0]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return NotTelegram(f"{method} was answered with something else: {error}", maybe_done=True)
