"""A prompt -> the parts of a message: text, and images and PDFs as data URLs."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from pilothouse.core.engine import Blobs
from pilothouse.core.event import Notice
from pilothouse.core.turn import Prompt
from pilothouse.engines.attachments import Attachments
from pilothouse.engines.media import File, data_url, show_name

READER = "OpenCode"


class Message(Struct, frozen=True):
    parts: list[dict[str, Any]]
    notices: tuple[Notice, ...] = ()


class PromptComposer:
    """The `note` is added to every prompt."""

    def __init__(self, blobs: Blobs, workspace: str, note: str = "", uploads: str = "") -> None:
        self._attachments = Attachments(blobs, workspace, READER, uploads=uploads)
        self._note = note

    async def compose(self, prompt: Prompt) -> Message:
        given = await self._attachments.give(prompt)
        text = "\n\n".join([*filter(None, [self._note]), prompt.text, *given.saved])
        return Message([{"type": "text", "text": text}, *map(_file, given.inline)], given.notices)


def _file(file: File) -> dict[str, str]:
    return {"type": "file", "mime": file.media_type, "filename": show_name(file.name), "url": data_url(file)}
