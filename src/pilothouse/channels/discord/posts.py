"""Posts a new message, and finds another form where Discord refuses the first one.

An archived thread is opened, a reply to a deleted message becomes a plain one, a file that is too large is named, text in a
file that we may not send becomes messages, and refused text becomes a file. Each message has a nonce that Discord accepts
once, so a request without an answer can be repeated at once.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from pilothouse.channels.discord.markdown import cut, fenced, to_discord
from pilothouse.channels.discord.payload import (
    FILES,
    FILES_ROOM,
    PARTS,
    TARGET,
    Document,
    Look,
    Message,
    Payload,
    Progress,
    below,
    body_of,
    fit_files,
    listed,
    named_files,
)
from pilothouse.channels.discord.rest import Calls, Upload
from pilothouse.channels.discord.trouble import (
    ARCHIVED,
    NO_PERMISSION,
    TOO_LARGE,
    Trouble,
)
from pilothouse.core.clock import Clock
from pilothouse.core.engine import Blobs
from pilothouse.core.message import Attachment

ASK_PARTS = 40
"""Messages for an ask; Discord lets about one through per second."""
MARKDOWN = ".md"
WORDS_NAME = f"message{MARKDOWN}"
AS_FILE = f"This is in {WORDS_NAME}: {{why}}."
WORDLESS = "I could not send a message here, not even as a file: {why}. Pilothouse's log has it."
WORKING = "Working. What it does cannot be shown here: {why}."


def without_files(
    payload: Message, documents: Sequence[Document], unsent: Sequence[tuple[str, Attachment]], why: str
) -> list[Message]:
    """Turn documents into messages, with a line that names the unsent files and says why. Buttons come last."""
    pieces = [piece for document in documents for piece in _pieces(document)]
    shown = pieces[: ASK_PARTS if payload.rows else PARTS]
    bare = replace(payload, documents=(), names=())
    line = _line(documents, len(pieces) - len(shown), unsent, why, asked=bool(payload.rows))
    around = [bare.text, *shown] if not payload.rows else [*shown, bare.text]
    texts = [*around[:-1], below(around[-1], line)]
    messages = [Message(text=text, silent=True) for text in texts]
    messages[-1] = replace(bare, text=texts[-1], silent=True, reply_to="")
    messages[0] = replace(messages[0], silent=payload.silent, reply_to=payload.reply_to)
    return messages


def as_file(payload: Message, why: str) -> Message:
    return replace(
        payload,
        text=AS_FILE.format(why=why),
        documents=(Document(WORDS_NAME, payload.text), *payload.documents),
    )


def wordless(payload: Message, why: str) -> Message:
    return Message(text=WORDLESS.format(why=why), silent=payload.silent, reply_to=payload.reply_to)


def wordless_progress(payload: Progress, why: str) -> Progress:
    """Replace the text, and keep the Stop button."""
    return replace(payload, text=WORKING.format(why=why))


def _pieces(document: Document) -> list[str]:
    """Cut a document into messages; only `.md` is read as Markdown."""
    is_prose = document.name.endswith(MARKDOWN)
    text = to_discord(document.text, Look().table_width) if is_prose else fenced(document.text)
    return cut(text, TARGET - FILES_ROOM)


def _line(
    documents: Sequence[Document],
    left_out: int,
    unsent: Sequence[tuple[str, Attachment]],
    why: str,
    *,
    asked: bool,
) -> str:
    told = []
    if documents:
        names = ", ".join(document.name for document in documents)
        verb = "is" if len(documents) == 1 else "are"
        told.append(f"{names} {verb} shown {'above' if asked else 'here'} as messages")
    if left_out:
        told.append(f"**but for its last {left_out}, which would be too many**")
    if unsent:
        told.append(f"not sent: {listed(unsent)}")
    return f"({'; '.join(told)}. {why})"


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
        """Post a message in the form that Discord takes; return Discord's answer about the last one. A refused notice is
        replaced by one without its text, since nobody else reports it."""
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
        """Post the text files of an ask, or the documents of an answer, as messages. If the message arrived with its files
        after all, its nonce finds it."""
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
                # A retry repeats the messages that arrived, and must be marked.
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
    """Mark a failure as unconfirmed: an earlier try may have arrived."""
    return replace(trouble, maybe_done=True, after_s=0.0)


def new_nonce() -> str:
    """A random nonce; Discord accepts up to 25 characters."""
    return secrets.token_hex(12)


def _answerable(payload: Payload) -> Payload:
    """Drop a reply to something that is no message, such as a slash command."""
    return payload if payload.reply_to.isdecimal() else replace(payload, reply_to="")
