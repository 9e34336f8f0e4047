"""A prompt -> words for the model: its text, its images, and the names of files that were saved."""

from __future__ import annotations

from msgspec import Struct

from pilothouse.core.engine import Blobs
from pilothouse.core.event import Notice
from pilothouse.core.media import EXTENSIONS
from pilothouse.core.turn import Prompt
from pilothouse.engines.attachments import Attachments
from pilothouse.engines.media import File
from pilothouse.engines.native.history import History
from pilothouse.engines.native.messages import Image, Said

READER = "the native agent"


class Composed(Struct, frozen=True):
    said: Said
    notices: tuple[Notice, ...] = ()


class PromptComposer:
    """The `note` is added to every prompt."""

    def __init__(self, blobs: Blobs, workspace: str, history: History, note: str = "") -> None:
        self._attachments = Attachments(blobs, workspace, READER, tuple(EXTENSIONS))
        self._history = history
        self._note = note

    async def compose(self, prompt: Prompt) -> Composed:
        given = await self._attachments.give(prompt)
        text = "\n\n".join([*filter(None, [self._note]), prompt.text, *given.saved])
        return Composed(Said(text, tuple(map(self._keep, given.inline))), given.notices)

    def _keep(self, file: File) -> Image:
        return self._history.keep_image(file.data, file.media_type)
