"""Sends payloads, changes what stands there, and takes it away; what goes wrong is an error of delivery's.

What may stand there after all is `Unconfirmed`: whoever repeats it later says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pilothouse.channels.discord.buckets import Buckets
from pilothouse.channels.discord.calls import Calls
from pilothouse.channels.discord.payload import Message, Payload, Progress, body_of
from pilothouse.channels.discord.plainer import wordless_progress
from pilothouse.channels.discord.posting import Poster
from pilothouse.channels.discord.trouble import ARCHIVED, NO_PERMISSION, Trouble, error_of
from pilothouse.channels.discord.views import Views
from pilothouse.core.clock import Clock
from pilothouse.core.errors import Rejected, Unconfirmed
from pilothouse.core.message import Attachment

MESSAGE = "/channels/{channel_id}/messages/{message_id}"
TYPE_S = 5.0
PUBLIC_THREAD = 11
THREAD_NAME = 100
ARCHIVE_MIN = 1440


class Sender:
    def __init__(self, calls: Calls, poster: Poster, buckets: Buckets, clock: Clock) -> None:
        self._calls = calls
        self._poster = poster
        self._buckets = buckets
        self._views = Views(buckets, clock)

    async def send(
        self,
        channel: int,
        payload: Payload,
        files: Sequence[Attachment] = (),
        *,
        nonce: str = "",
        is_notice: bool = False,
    ) -> int:
        """The id of the message that stands there now. Progress under a `nonce` that was sent before is found again."""
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

    async def _change(self, channel: int, message: int, payload: Payload) -> Any | Trouble:
        body = _edit_of(payload)
        return await self._calls.call("PATCH", MESSAGE, body, channel_id=channel, message_id=message)


def _edit_of(payload: Payload) -> dict[str, Any]:
    body = body_of(payload)
    body.pop("message_reference", None)
    return body
