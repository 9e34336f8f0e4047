"""A prompt -> words for the model: its text, its images, and the names of files that were saved."""

from __future__ import annotations

from msgspec import Struct

from pilothouse.core.engine import Blobs
from pilothouse.core.event import Notice
from pilothouse.core.media import EXTENSIONS
from pilothouse.core.turn import Prompt
from pilothouse.engines.attachments import Attachments
from pilothouse.engines.media import show_name
from pilothouse.engines.native.history import History
from pilothouse.engines.native.images import BadImage
from pilothouse.engines.native.messages import Image, Said

READER = "the native agent"
NOT_SHOWN = "{name} was not shown to the native agent: {why}. Send a smaller image."


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
        images: list[Image] = []
        refused: list[str] = []
        for file in given.inline:
            try:
                images.append(self._history.keep_image(file.data))
            except BadImage as error:
                refused.append(NOT_SHOWN.format(name=show_name(file.name), why=error))
        told = [f"[{words}]" for words in refused]
        text = "\n\n".join([*filter(None, [self._note]), prompt.text, *given.saved, *told])
        notices = (Notice("warning", "attachment_skipped", words) for words in refused)
        return Composed(Said(text, tuple(images)), (*given.notices, *notices))
