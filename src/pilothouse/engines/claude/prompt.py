"""A prompt -> the line that Claude reads: text, images and documents."""

from __future__ import annotations

import binascii
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from pilothouse.core.engine import Blobs
from pilothouse.core.event import Notice
from pilothouse.core.media import PDF
from pilothouse.core.turn import Prompt
from pilothouse.engines.attachments import Attachments
from pilothouse.engines.claude.control import user_line
from pilothouse.engines.media import File

READER = "Claude"


class Message(Struct, frozen=True):
    """`line` is for stdin, `text` for a command line."""

    line: bytes
    notices: tuple[Notice, ...] = ()
    text: str = ""


class PromptComposer:
    """The `note` is added to every prompt. `@files` and `/commands` do nothing, unless `commands` is on and an owner typed
    the prompt."""

    def __init__(
        self, blobs: Blobs, workspace: str, note: str = "", uploads: str = "", *, commands: bool = False
    ) -> None:
        self._attachments = Attachments(blobs, workspace, READER, uploads=uploads)
        self._note = note
        self._commands = commands

    async def compose(self, prompt: Prompt, uuid: str) -> Message:
        given = await self._attachments.give(prompt)
        # A file's name may be hostile: with one in it, the text may not run commands.
        if self._commands and prompt.commands and not given.saved:
            line = user_line(self._commanding(prompt.text, given.inline), uuid, composed=False)
            return Message(line, given.notices, prompt.text)
        text = "\n\n".join([*filter(None, [self._note]), prompt.text, *given.saved])
        return Message(user_line(user_content(text, given.inline), uuid), given.notices, text)

    async def has_blocks(self, prompt: Prompt) -> bool:
        """Return whether the prompt has images or documents, which a command line cannot hold."""
        return await self._attachments.has_inline(prompt)

    def _commanding(self, text: str, files: Sequence[File]) -> str | list[dict[str, Any]]:
        """Put the text into the last block: Claude looks for a command only at its beginning (2.1.325)."""
        if not self._note:
            return user_content(text, files)
        blocks = [{"type": "text", "text": words} for words in (self._note, text)]
        return [blocks[0], *content_blocks(files), blocks[1]]


def user_content(text: str, files: Sequence[File]) -> str | list[dict[str, Any]]:
    """Return the content of a stream-json user message."""
    return [{"type": "text", "text": text}, *content_blocks(files)] if files else text


def content_blocks(files: Sequence[File]) -> list[dict[str, Any]]:
    """Return the images as `image` blocks and the PDFs as `document` blocks."""
    return [
        {
            "type": "document" if file.media_type == PDF else "image",
            "source": {
                "type": "base64",
                "media_type": file.media_type,
                "data": binascii.b2a_base64(file.data, newline=False).decode("ascii"),
            },
        }
        for file in files
    ]
