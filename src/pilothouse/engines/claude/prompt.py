"""A prompt -> the line that Claude reads: text, images and documents; other files are put where it can read them."""

from __future__ import annotations

import binascii
import os
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import Struct

from pilothouse.core.engine import Blobs
from pilothouse.core.errors import PilothouseError
from pilothouse.core.event import Notice
from pilothouse.core.media import PDF
from pilothouse.core.turn import Prompt
from pilothouse.engines.claude.control import user_line
from pilothouse.engines.media import Attached, File, attach, plain_name, show_name

READER = "Claude"
DOWNLOADS = "downloads"
NAME_BYTES = 240
"""Of 255; a number and its dash have the rest."""
SUFFIX_BYTES = 40


class Message(Struct, frozen=True):
    """`line` is for stdin; `text` is what a command line may have of it."""

    line: bytes
    notices: tuple[Notice, ...] = ()
    text: str = ""


class Prompting:
    """The `note` goes along with every prompt. `@files` and `/commands` in a text do nothing, unless `commands` are
    switched on and the prompt is an owner's own words."""

    def __init__(self, blobs: Blobs, workspace: str, note: str = "", *, commands: bool = False) -> None:
        self._blobs = blobs
        self._workspace = os.path.realpath(workspace)
        self._note = note
        self._commands = commands

    async def compose(self, prompt: Prompt, uuid: str) -> Message:
        files, lost = await self._load(prompt)
        attached = attach(files, READER)
        saved, unsaved = self._save(attached)
        refused = (*lost, *attached.refused, *unsaved)
        notices = tuple(Notice("warning", "attachment_skipped", words) for words in refused)
        # The name of a file is a stranger's: with one, the text is words alone.
        if self._commands and prompt.commands and not saved:
            line = user_line(self._commanding(prompt.text, attached), uuid, composed=False)
            return Message(line, notices, prompt.text)
        text = "\n\n".join([*filter(None, [self._note]), prompt.text, *saved])
        return Message(user_line(user_content(text, attached), uuid), notices, text)

    async def has_blocks(self, prompt: Prompt) -> bool:
        """Whether something goes along that no command line can hold: an image, a document."""
        files, _ = await self._load(prompt)
        return bool(attach(files, READER).inline)

    def _commanding(self, text: str, attached: Attached) -> str | list[dict[str, Any]]:
        """A command must begin its block, and the CLI looks for it in the last one (2.1.325)."""
        if not self._note:
            return user_content(text, attached)
        blocks = [{"type": "text", "text": words} for words in (self._note, text)]
        return [blocks[0], *content_blocks(attached), blocks[1]]

    async def _load(self, prompt: Prompt) -> tuple[list[File], list[str]]:
        files: list[File] = []
        lost: list[str] = []
        for attachment in prompt.attachments:
            try:
                files.append(File(attachment.name, await self._blobs.get(attachment.blob)))
            except PilothouseError as error:
                lost.append(f"{show_name(attachment.name)} was not given to {READER}: {error}")
        return files, lost

    def _save(self, attached: Attached) -> tuple[list[str], list[str]]:
        saved: list[str] = []
        problems: list[str] = []
        for file in attached.others:
            try:
                saved.append(f"[A file was attached: {self._keep(file)}]")
            except OSError as error:
                problems.append(f"{show_name(file.name)} could not be saved: {error.strerror}")
        return saved, problems

    def _keep(self, file: File) -> str:
        """Under a free name, whatever the file is called: the name comes from a stranger, and leads nowhere else."""
        name = plain_name(PurePosixPath(file.name.replace("\\", "/")).name).lstrip(".") or "a file"
        folder = Path(self._workspace, DOWNLOADS)
        folder.mkdir(exist_ok=True)
        if os.path.realpath(folder) != str(folder):
            raise OSError(0, f"{DOWNLOADS} leads out of the workspace")
        stem, suffix = _short(name)
        for number in range(1, 1000):
            path = folder / (f"{stem}{suffix}" if number == 1 else f"{stem}-{number}{suffix}")
            try:
                with path.open("xb") as target:
                    target.write(file.data)
                return str(path)
            except FileExistsError:
                continue
        raise OSError(0, "there are too many files of this name")


def user_content(text: str, attached: Attached) -> str | list[dict[str, Any]]:
    """Return the content of a stream-json user message."""
    return [{"type": "text", "text": text}, *content_blocks(attached)] if attached.inline else text


def content_blocks(attached: Attached) -> list[dict[str, Any]]:
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
        for file in attached.inline
    ]


def _short(name: str) -> tuple[str, str]:
    """A name in its two parts, the first cut to what a file system takes with a number behind it: it counts bytes."""
    stem, suffix = os.path.splitext(name)
    if len(suffix.encode()) > SUFFIX_BYTES:
        stem, suffix = name, ""
    room = NAME_BYTES - len(suffix.encode())
    return stem.encode()[:room].decode("utf-8", "ignore"), suffix
