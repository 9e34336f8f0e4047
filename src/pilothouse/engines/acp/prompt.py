"""A prompt -> content blocks: text, and images where the agent takes them. Words for the model go before the first prompt.

An agent runs its own commands without asking, so a text is one only if an owner typed it alone and the agent offered it.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Collection
from typing import Any

from msgspec import Struct

from pilothouse.core.engine import Blobs
from pilothouse.core.event import Notice
from pilothouse.core.media import EXTENSIONS
from pilothouse.core.turn import Prompt
from pilothouse.engines.attachments import Attachments
from pilothouse.engines.media import File

Blocks = list[dict[str, Any]]

NO_COMMAND = "This message is text, not a command:"
_COMMAND = re.compile(r"/(\S+)")
_LIKE_COMMAND = re.compile(r"[\s\ufeff]*[/$]")
"""Gemini CLI 0.61 removes blanks first, and takes `$` as it takes `/`."""


class Message(Struct, frozen=True):
    blocks: Blocks
    notices: tuple[Notice, ...] = ()


class PromptComposer:
    """The `note` is added to every prompt that is no command, the `instructions` to the first such one of a session."""

    def __init__(
        self, blobs: Blobs, workspace: str, program: str, note: str, instructions: str, uploads: str = ""
    ) -> None:
        self._blobs = blobs
        self._workspace = workspace
        self._program = program
        self._note = note
        self._instructions = instructions
        self._uploads = uploads

    async def compose(self, prompt: Prompt, *, images: bool, commands: Collection[str] = ()) -> Message:
        """`commands` are the names that the agent offered."""
        types = tuple(EXTENSIONS) if images else ()
        given = await Attachments(self._blobs, self._workspace, self._program, types, self._uploads).give(
            prompt
        )
        found = _COMMAND.match(prompt.text)
        # A file's name may be hostile: with one in it, the text may not run commands.
        if found and found[1] in commands and prompt.commands and not given.saved:
            text = prompt.text
        else:
            parts, self._instructions = (self._instructions, self._note, prompt.text, *given.saved), ""
            text = _as_text("\n\n".join(filter(None, parts)))
        return Message([text_block(text), *map(_image, given.inline)], given.notices)


def _as_text(text: str) -> str:
    """Keep the agent from taking a text as a command."""
    return f"{NO_COMMAND}\n\n{text}" if _LIKE_COMMAND.match(text) else text


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _image(file: File) -> dict[str, Any]:
    data = binascii.b2a_base64(file.data, newline=False).decode("ascii")
    return {"type": "image", "data": data, "mimeType": file.media_type}
