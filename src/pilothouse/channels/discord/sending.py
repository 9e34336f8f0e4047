"""Sends payloads, and finds a way where Discord refuses the first one: an archived thread is opened, a reply to what is
gone is none, a file that is too large is named.

A message carries a number of its own, under which Discord takes it once: a request without an answer can be repeated at
once. What may stand there after all is `Unconfirmed`: whoever repeats it later says so.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from pilothouse.channels.discord.buckets import Buckets
from pilothouse.channels.discord.calls import Calls, Upload
from pilothouse.channels.discord.payload import Message, Payload, Progress, body_of, fit_files
from pilothouse.channels.discord.trouble import (
    ARCHIVED,
    INVALID_BODY,
    NO_PERMISSION,
    TOO_LARGE,
    Trouble,
    error_of,
)
from pilothouse.channels.discord.views import Views
from pilothouse.core.clock import Clock
from pilothouse.core.engine import Blobs
from pilothouse.core.errors import Rejected, Unconfirmed
from pilothouse.core.message import Attachment

MESSAGES = "/channels/{channel_id}/messages"
MESSAGE = "/channels/{channel_id}/messages/{message_id}"
TRIES = 3
PAUSE_S = 0.5
TYPE_S = 5.0
PUBLIC_THREAD = 11
THREAD_NAME = 100
NO_ROOM = -1
ARCHIVE_MIN = 1440


class Sender:
    """`upload_bytes` knows how large a file may be in a channel."""

    def __init__(
        self, calls: Calls, blobs: Blobs, buckets: Buckets, clock: Clock, upload_bytes: Callable[[str], int]
    ) -> None:
        self._calls = calls
        self._blobs = blobs
        self._clock = clock
        self._buckets = buckets
        self._views = Views(buckets, clock)
        self._upload_bytes = upload_bytes

    async def send(
        self, channel: int, payload: Payload, files: Sequence[Attachment] = (), *, nonce: str = ""
    ) -> int:
        """The id of the message that stands there now. Progress under a `nonce` that was sent before is found again."""
        limit = self._upload_bytes(str(channel))
        if isinstance(payload, Progress):
            found = await self._views.first(channel, lambda: self._post(channel, payload, (), nonce))
        else:
            found = await self._post_with_files(channel, payload, files, limit)
        if isinstance(found, Trouble):
            raise error_of(found)
        if not isinstance(found, dict) or not str(found.get("id", "")).isdecimal():
            raise Unconfirmed("Discord did not say which message it made of this.")
        return int(found["id"])

    async def edit(self, channel: int, message: int, payload: Payload) -> None:
        body = _edit_of(payload)

        async def change() -> Any | Trouble:
            found = await self._change(channel, message, body)
            if isinstance(found, Trouble) and found.code == ARCHIVED and await self._unarchive(channel):
                found = await self._change(channel, message, body)
            return found

        if isinstance(payload, Progress):
            found = await self._views.edit(channel, message, change)
        else:
            found = await self._views.last(message, change)
        if isinstance(found, Trouble):
            raise error_of(found, repeatable=True)

    async def delete(self, channel: int, message: int) -> None:
        async def remove() -> Any | Trouble:
            return await self._calls.call("DELETE", MESSAGE, channel_id=channel, message_id=message)

        found = await self._views.last(message, remove)
        if isinstance(found, Trouble) and not found.is_gone:
            raise error_of(found, repeatable=True)

    async def react(self, channel: int, message: int, emoji: str) -> None:
        path = f"{MESSAGE}/reactions/{{emoji}}/@me"
        found = await self._calls.call("PUT", path, channel_id=channel, message_id=message, emoji=emoji)
        if isinstance(found, Trouble):
            raise error_of(found, repeatable=True)

    async def open_thread(self, channel: int, name: str) -> dict[str, Any]:
        """What Discord says about the new one."""
        body = {
            "name": name[:THREAD_NAME] or "thread",
            "type": PUBLIC_THREAD,
            "auto_archive_duration": ARCHIVE_MIN,
        }
        found = await self._calls.call("POST", "/channels/{channel_id}/threads", body, channel_id=channel)
        if isinstance(found, Trouble) and found.code == NO_PERMISSION:
            raise Rejected("I may not make threads here: give the bot's role “Create Public Threads”")
        if isinstance(found, Trouble):
            raise error_of(found)
        if not isinstance(found, dict) or not str(found.get("id", "")).isdecimal():
            raise Unconfirmed("Discord did not say which thread it made.")
        return found

    async def type(self, channel: int) -> None:
        """Nothing depends on it, whatever becomes of it: it takes no room from what people wait for."""
        if self._buckets.is_crowded:
            return
        await self._calls.call("POST", "/channels/{channel_id}/typing", within_s=TYPE_S, channel_id=channel)

    async def tell(self, channel: int, text: str, reply_to: str) -> None:
        """A word that nothing depends on: it may be lost."""
        await self.send(channel, Message(text=text, silent=True, reply_to=reply_to))

    async def _post_with_files(
        self, channel: int, payload: Payload, files: Sequence[Attachment], limit: int
    ) -> Any | Trouble:
        fitted, kept = fit_files(payload, files, limit)
        found = await self._post(channel, fitted, await self._uploads(fitted, kept))
        if isinstance(found, Trouble) and (found.status == 413 or found.code == TOO_LARGE) and kept:
            # All of them together may be too much, or the server lost its boosts: what we say ourselves gets there.
            fitted, _ = fit_files(payload, files, NO_ROOM)
            found = await self._post(channel, fitted, await self._uploads(fitted, ()))
        return found

    async def _post(
        self, channel: int, payload: Payload, uploads: Sequence[Upload], nonce: str = ""
    ) -> Any | Trouble:
        body = {**body_of(_answerable(payload)), "nonce": nonce or new_nonce(), "enforce_nonce": True}
        found = await self._post_once(channel, body, uploads)
        if not isinstance(found, Trouble):
            return found
        if found.code == ARCHIVED and await self._unarchive(channel):
            return await self._post_once(channel, body, uploads)
        if found.code == INVALID_BODY and "message_reference" in body and "message_reference" in found.about:
            body.pop("message_reference")
            return await self._post_once(channel, body, uploads)
        return found

    async def _post_once(
        self, channel: int, body: dict[str, Any], uploads: Sequence[Upload]
    ) -> Any | Trouble:
        """Again, with the same number, where no answer came: Discord makes one message of both."""
        found: Any | Trouble = None
        for attempt in range(TRIES):
            found = await self._calls.call("POST", MESSAGES, body, files=uploads, channel_id=channel)
            if not (isinstance(found, Trouble) and found.maybe_done and found.status == 0):
                return found
            if attempt + 1 < TRIES:
                await self._clock.sleep(PAUSE_S * 2**attempt)
        return found

    async def _change(self, channel: int, message: int, body: dict[str, Any]) -> Any | Trouble:
        return await self._calls.call("PATCH", MESSAGE, body, channel_id=channel, message_id=message)

    async def _unarchive(self, channel: int) -> bool:
        found = await self._calls.call(
            "PATCH", "/channels/{channel_id}", {"archived": False}, channel_id=channel
        )
        return not isinstance(found, Trouble)

    async def _uploads(self, payload: Payload, files: Sequence[Attachment]) -> list[Upload]:
        if not isinstance(payload, Message):
            return []
        uploads = [Upload(document.name, document.text.encode()) for document in payload.documents]
        for number, file in enumerate(files):
            name = payload.names[number] if number < len(payload.names) else file.name
            uploads.append(Upload(name, await self._blobs.get(file.blob)))
        return uploads


def new_nonce() -> str:
    """Discord takes up to 25 characters."""
    return secrets.token_hex(12)


def _answerable(payload: Payload) -> Payload:
    """What is no message of Discord's, such as a slash command, cannot be answered."""
    return payload if payload.reply_to.isdecimal() else replace(payload, reply_to="")


def _edit_of(payload: Payload) -> dict[str, Any]:
    body = body_of(payload)
    body.pop("message_reference", None)
    return body
