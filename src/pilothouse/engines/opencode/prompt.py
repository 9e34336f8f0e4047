"""A prompt -> the parts of a message: text, and images and PDFs as data URLs."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct

from pilothouse.core.engine import Blobs
from pilothouse.core.event import Notice
from pilothouse.core.turn import Prompt
from pilothouse.engines.attachments import Attachments
from pilothouse.engines.media import File, data_url, show_name

READER = "OpenCode"


_COMMAND = re.compile(r"/(\S+)\s*(.*)", re.DOTALL)


class Message(Struct, frozen=True):
    """`command` is the name of one of OpenCode's own; then the text is its arguments, and no part."""

    parts: list[dict[str, Any]]
    notices: tuple[Notice, ...] = ()
    command: str = ""
    arguments: str = ""


class PromptComposer:
    """The `note` is added to every prompt. `/commands` are words, unless `commands` is on and an owner typed the prompt."""

    def __init__(
        self, blobs: Blobs, workspace: str, note: str = "", uploads: str = "", *, commands: bool = False
    ) -> None:
        self._attachments = Attachments(blobs, workspace, READER, uploads=uploads)
        self._note = note
        self._commands = commands

    async def compose(self, prompt: Prompt, commands: Collection[str] = ()) -> Message:
        """`commands` are the names that the server knows."""
        given = await self._attachments.give(prompt)
        found = _COMMAND.fullmatch(prompt.text)
        # A file's name may be hostile: with one in it, the text may not run commands.
        if found and found[1] in commands and self._commands and prompt.commands and not given.saved:
            return Message([*map(_file, given.inline)], given.notices, found[1], found[2])
        text = "\n\n".join([*filter(None, [self._note]), prompt.text, *given.saved])
        return Message([{"type": "text", "text": text}, *map(_file, given.inline)], given.notices)


def _file(file: File) -> dict[str, str]:
    return {"type": "file", "mime": file.media_type, "filename": show_name(file.name), "url": data_url(file)}


def command_body(
    id: str, message: Message, model: Mapping[str, str], extra: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the request that runs a command. It takes no system prompt."""
    named = {"command": message.command, "arguments": message.arguments, "model": "/".join(model.values())}
    chosen = {key: extra[key] for key in ("agent", "variant") if key in extra}
    return {"messageID": id, "parts": message.parts, **named, **chosen}
