"""A prompt -> the line that Claude reads: text, images and documents. Other files are saved where Claude can read them."""

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
"""File systems take 255; the rest is for a dash and a number."""
SUFFIX_BYTES = 40


class Message(Struct, frozen=True):
    """`line` is for stdin, `text` for a command line."""

    line: bytes
    notices: tuple[Notice, ...] = ()
    text: str = ""


class PromptComposer:
    """The `note` is added to every prompt. `@files` and `/commands` do nothing, unless `commands` is on and an owner typed
    the prompt."""

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
        # A file's name may be hostile: with one in it, the text may not run commands.
        if self._commands and prompt.commands and not saved:
            line = user_line(self._commanding(prompt.text, attached), uuid, composed=False)
            return Message(line, notices, prompt.text)
        text = "\n\n".join([*filter(None, [self._note]), prompt.text, *saved])
        return Message(user_line(user_content(text, attached), uuid), notices, text)

    async def has_blocks(self, prompt: Prompt) -> bool:
        """Return whether the prompt has images or documents, which a command line cannot hold."""
        files, _ = await self._load(prompt)
        return bool(attach(files, READER).inline)

    def _commanding(self, text: str, attached: Attached) -> str | list[dict[str, Any]]:
        """Put the text into the last block: Claude looks for a command only at its beginning (2.1.325)."""
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
        """Save the file under a free name in the downloads folder. Its own name may be hostile, and cannot lead elsewhere."""
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
    """Return stem and suffix, the stem cut so that a number fits behind it: file systems count bytes."""
    stem, suffix = os.path.splitext(name)
    if len(suffix.encode()) > SUFFIX_BYTES:
        stem, suffix = name, ""
    room = NAME_BYTES - len(suffix.encode())
    return stem.encode()[:room].decode("utf-8", "ignore"), suffix
