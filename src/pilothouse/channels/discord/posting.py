"""Makes a new message, and finds a way where Discord refuses the first one: an archived thread is opened, a reply to what is
gone is none, a file that is too large is named, what was in a file that we may not send stands in messages, and words
that are refused are in a file.

A message carries a number of its own, under which Discord takes it once: a request without an answer can be repeated at
once.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from pilothouse.channels.discord.calls import Calls, Upload
from pilothouse.channels.discord.limits import FILES
from pilothouse.channels.discord.payload import (
    Document,
    Message,
    Payload,
    Progress,
    body_of,
    fit_files,
    named_files,
)
from pilothouse.channels.discord.plainer import as_file, without_files, wordless, wordless_progress
from pilothouse.channels.discord.trouble import (
    ARCHIVED,
    NO_PERMISSION,
    TOO_LARGE,
    Trouble,
)
from pilothouse.core.clock import Clock
from pilothouse.core.engine import Blobs
from pilothouse.core.message import Attachment

MESSAGES = "/channels/{channel_id}/messages"
TRIES = 3
PAUSE_S = 0.5
NO_ROOM = -1
TEXTS = ("text/", "application/json")
"""Media types that can be read in a message."""
NO_FILES = "I may send no files here: give the bot's role “Attach Files” in this channel."

TOO_SLOW = "A file took too long on its way to Discord."


class Poster:
    """`upload_bytes` knows how large a file may be in a channel."""

    def __init__(
        self,
        calls: Calls,
        blobs: Blobs,
        clock: Clock,
        upload_bytes: Callable[[str], int],
        log: Callable[..., None],
    ) -> None:
        self._calls = calls
        self._blobs = blobs
        self._clock = clock
        self._upload_bytes = upload_bytes
        self._log = log

    async def post_message(
        self, channel: int, payload: Message, files: Sequence[Attachment], *, is_notice: bool = False
    ) -> Any | Trouble:
        """What Discord says of the message that stands there now, of several of the last. Of a notice there always is one,
        whatever it says: nobody tells that it was refused."""
        limit = self._upload_bytes(str(channel))
        fitted, kept = fit_files(payload, files, limit)
        nonce = new_nonce()
        found = await self.post(channel, fitted, await self._uploads(fitted, kept), nonce)
        if isinstance(found, Trouble) and (found.status == 413 or found.code == TOO_LARGE) and kept:
            # All of them together may be too much, or the server lost its boosts: what we say ourselves gets there.
            fitted, kept = fit_files(payload, files, NO_ROOM)
            found = await self.post(channel, fitted, await self._uploads(fitted, kept), nonce)
        if isinstance(found, Trouble) and found.code == NO_PERMISSION and (kept or fitted.documents):
            # Without its files it tells which permission is missing: this one, or the one to write at all.
            self._log("discord.files_not_permitted", channel=str(channel))
            return await self._post_without_files(channel, fitted, kept, NO_FILES)
        if isinstance(found, Trouble) and found.late and (kept or fitted.documents):
            return await self._post_without_files(channel, fitted, kept, TOO_SLOW, nonce)
        if isinstance(found, Trouble) and found.is_about_content and fitted.text:
            return await self._post_as_file(channel, fitted, kept, found, is_notice=is_notice)
        return found

    async def post_progress(self, channel: int, payload: Progress, nonce: str) -> Any | Trouble:
        found = await self.post(channel, payload, (), nonce)
        if isinstance(found, Trouble) and found.is_about_content:
            found = await self.post(channel, wordless_progress(payload, found.why), (), nonce)
        return found

    async def post(
        self, channel: int, payload: Payload, uploads: Sequence[Upload] = (), nonce: str = ""
    ) -> Any | Trouble:
        body = {**body_of(_answerable(payload)), "nonce": nonce or new_nonce(), "enforce_nonce": True}
        found = await self._post_once(channel, body, uploads)
        if isinstance(found, Trouble) and found.code == ARCHIVED and await self.unarchive(channel):
            found = await self._post_once(channel, body, uploads)
        if isinstance(found, Trouble) and found.is_about_reply and body.pop("message_reference", None):
            found = await self._post_once(channel, body, uploads)
        return found

    async def unarchive(self, channel: int) -> bool:
        found = await self._calls.call(
            "PATCH", "/channels/{channel_id}", {"archived": False}, channel_id=channel
        )
        return not isinstance(found, Trouble)

    async def _post_without_files(
        self, channel: int, payload: Message, files: Sequence[Attachment], why: str, nonce: str = ""
    ) -> Any | Trouble:
        """Of what is to be approved, also what the house put beside it is read as messages. If it stands there with its
        files after all, its `nonce` finds it."""
        documents = list(payload.documents)
        unsent: list[tuple[str, Attachment]] = []
        for name, file in named_files(payload, files):
            if payload.rows and file.media_type.startswith(TEXTS):
                text = (await self._blobs.get(file.blob)).decode(errors="replace")
                documents.append(Document(name, text))
            else:
                unsent.append((name, file))
        found: Any | Trouble = None
        for number, message in enumerate(without_files(payload, documents, unsent, why)):
            found = await self.post(channel, message, (), "" if number else nonce)
            if isinstance(found, dict) and found.get("attachments"):
                return found
            if isinstance(found, Trouble) and found.is_about_content and not payload.rows:
                found = await self.post(channel, wordless(message, found.why))
            if isinstance(found, Trouble):
                # Whoever begins anew repeats what stands there, and has to say so.
                return _doubted(found) if number > 0 and found.is_passing else found
        return found

    async def _post_as_file(
        self,
        channel: int,
        payload: Message,
        files: Sequence[Attachment],
        refused: Trouble,
        *,
        is_notice: bool,
    ) -> Any | Trouble:
        boxed = as_file(payload, refused.why)
        kept = files[: FILES - len(boxed.documents)]
        found = await self.post(channel, boxed, await self._uploads(boxed, kept))
        if not isinstance(found, Trouble) or found.is_passing:
            return found
        return await self.post(channel, wordless(payload, refused.why)) if is_notice else refused

    async def _post_once(
        self, channel: int, body: dict[str, Any], uploads: Sequence[Upload]
    ) -> Any | Trouble:
        """Again, with the same number, where no answer came: Discord makes one message of both. What was too slow once is
        not uploaded once more. A repeat that got nowhere says nothing about the one before it."""
        found: Any | Trouble = None
        for attempt in range(TRIES):
            found = await self._calls.call("POST", MESSAGES, body, files=uploads, channel_id=channel)
            if attempt and isinstance(found, Trouble) and found.is_passing:
                found = _doubted(found)
            if not (isinstance(found, Trouble) and found.maybe_done and found.status == 0):
                return found
            if uploads and found.late:
                return found
            if attempt + 1 < TRIES:
                await self._clock.sleep(PAUSE_S * 2**attempt)
        return found

    async def _uploads(self, payload: Message, files: Sequence[Attachment]) -> list[Upload]:
        uploads = [Upload(document.name, document.text.encode()) for document in payload.documents]
        for name, file in named_files(payload, files):
            uploads.append(Upload(name, await self._blobs.get(file.blob)))
        return uploads


def _doubted(trouble: Trouble) -> Trouble:
    """It may have been done before this, so that whoever comes again has to say so."""
    return replace(trouble, maybe_done=True, after_s=0.0)


def new_nonce() -> str:
    """Discord takes up to 25 characters."""
    return secrets.token_hex(12)


def _answerable(payload: Payload) -> Payload:
    """What is no message of Discord's, such as a slash command, cannot be answered."""
    return payload if payload.reply_to.isdecimal() else replace(payload, reply_to="")
