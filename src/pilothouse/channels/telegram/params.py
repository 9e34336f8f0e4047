"""What many calls share: where they go, their words, their files; and how an answer is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from pilothouse.channels.telegram.shapes import ChatId, EntityShape, KeyboardShape, ReplyTo, Upload
from pilothouse.channels.telegram.trouble import NotTelegram, TooBig, Trouble
from pilothouse.channels.telegram.wire import salvage

T = TypeVar("T")


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
    """What Telegram did is done, also where we cannot read what it says about it."""
    try:
        return msgspec.json.decode(raw, type=returns)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return salvage(msgspec.json.decode(raw), returns)[0]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return NotTelegram(f"{method} was answered with something else: {error}", maybe_done=True)
