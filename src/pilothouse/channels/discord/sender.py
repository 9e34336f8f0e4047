"""Sends, edits and deletes messages; a failure is a delivery error.

A message that may have arrived is `Unconfirmed`: a later repeat is marked as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pilothouse.channels.discord.pace import Pace, Views
from pilothouse.channels.discord.payload import Message, Payload, Progress, body_of
from pilothouse.channels.discord.posts import Poster, wordless_progress
from pilothouse.channels.discord.rest import Calls
from pilothouse.channels.discord.trouble import ARCHIVED, NO_PERMISSION, Trouble, error_of
from pilothouse.core.clock import Clock
from pilothouse.core.errors import Rejected, Unconfirmed
from pilothouse.core.message import Attachment

MESSAGE = "/channels/{channel_id}/messages/{message_id}"
TYPE_S = 5.0
PUBLIC_THREAD = 11
THREAD_NAME = 100
ARCHIVE_MIN = 1440


class Sender:
    def __init__(self, calls: Calls, poster: Poster, pace: Pace, clock: Clock) -> None:
        self._calls = calls
        self._poster = poster
        self._pace = pace
        self._views = Views(pace, clock)

    async def send(
        self,
        channel: int,
        payload: Payload,
        files: Sequence[Attachment] = (),
        *,
        nonce: str = "",
        is_notice: bool = False,
    ) -> int:
        """Send a payload and return the id of its message. A repeated `nonce` returns the earlier message."""
        if isinstance(payload, Progress):
            found = await self._views.first(
                channel, lambda: self._poster.post_progress(channel, payload, nonce)
            )
        else:
            found = await self._poster.post_message(channel, payload, files, is_notice=is_notice)
        if isinstance(found, Trouble):
            raise error_of(found)
        if not isinstance(found, dict) or not str(found.get("id", "")).isdecimal():
            raise Unconfirmed("Discord did not say which message it made of this.")
        return int(found["id"])

    async def edit(self, channel: int, message: int, payload: Payload) -> None:
        async def change() -> Any | Trouble:
            found = await self._change(channel, message, payload)
            if (
                isinstance(found, Trouble)
                and found.code == ARCHIVED
                and await self._poster.unarchive(channel)
            ):
                found = await self._change(channel, message, payload)
            if isinstance(found, Trouble) and found.is_about_content and isinstance(payload, Progress):
                found = await self._change(channel, message, wordless_progress(payload, found.why))
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
        found = await self._calls.call(
            "PUT", f"{MESSAGE}/reactions/{{emoji}}/@me", channel_id=channel, message_id=message, emoji=emoji
        )
        if isinstance(found, Trouble):
            raise error_of(found, repeatable=True)

    async def open_thread(self, channel: int, name: str) -> dict[str, Any]:
        """Open a public thread and return Discord's description of it."""
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
        """Show the typing indicator, unless other requests wait."""
        if self._pace.is_crowded:
            return
        await self._calls.call("POST", "/channels/{channel_id}/typing", within_s=TYPE_S, channel_id=channel)

    async def tell(self, channel: int, text: str, reply_to: str) -> None:
        """Send a short notice that may be lost."""
        await self.send(channel, Message(text=text, silent=True, reply_to=reply_to))

    async def _change(self, channel: int, message: int, payload: Payload) -> Any | Trouble:
        body = _edit_of(payload)
        return await self._calls.call("PATCH", MESSAGE, body, channel_id=channel, message_id=message)


def _edit_of(payload: Payload) -> dict[str, Any]:
    body = body_of(payload)
    body.pop("message_reference", None)
    return body
