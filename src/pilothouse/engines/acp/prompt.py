"""A prompt -> content blocks: text, and images where the agent takes them. Words for the model go before the first prompt."""

from __future__ import annotations

import binascii
from typing import Any

from msgspec import Struct

from pilothouse.core.engine import Blobs
from pilothouse.core.event import Notice
from pilothouse.core.media import EXTENSIONS
from pilothouse.core.turn import Prompt
from pilothouse.engines.attachments import Attachments
from pilothouse.engines.media import File

Blocks = list[dict[str, Any]]


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

    async def compose(self, prompt: Prompt, *, images: bool) -> Message:
        types = tuple(EXTENSIONS) if images else ()
        given = await Attachments(self._blobs, self._workspace, self._program, types, self._uploads).give(
            prompt
        )
        before = ""
        if not prompt.text.startswith("/"):  # a command of the agent counts only at the beginning
            before, self._instructions = "\n\n".join(filter(None, (self._instructions, self._note))), ""
        parts = (before, prompt.text, *given.saved)
        text = "\n\n".join(part for part in parts if part)
        return Message([text_block(text), *map(_image, given.inline)], given.notices)


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _image(file: File) -> dict[str, Any]:
    data = binascii.b2a_base64(file.data, newline=False).decode("ascii")
    return {"type": "image", "data": data, "mimeType": file.media_type}
