"""Attachments of a prompt: images and documents go with it, other files are saved where the agent can read them."""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path, PurePosixPath

from msgspec import Struct

from pilothouse.core.engine import Blobs
from pilothouse.core.errors import PilothouseError
from pilothouse.core.event import Notice
from pilothouse.core.isolation import UPLOADS
from pilothouse.core.media import EXTENSIONS, PDF
from pilothouse.core.turn import Prompt
from pilothouse.engines.media import Attached, File, attach, plain_name, show_name

DOWNLOADS = "downloads"
NAME_BYTES = 240
"""File systems take 255; the rest is for a dash and a number."""
SUFFIX_BYTES = 40
_OBEYED = re.compile(r"(?:claude|agents?|gemini|qwen|codex|copilot-instructions|skill)(?:\.[\w-]+)*\.mdc?")
"""Names that agents obey wherever they read: they look for them beside each file."""


class Given(Struct, frozen=True):
    """`inline` goes with the prompt, `saved` are lines of text that name saved files, `notices` say what went nowhere."""

    inline: tuple[File, ...] = ()
    saved: tuple[str, ...] = ()
    notices: tuple[Notice, ...] = ()


class Attachments:
    """`reader` is the engine's name for people; `inline` are the media types that go with its prompts. `uploads` is the folder
    for other files, which a jail shows in the workspace; without one, they are saved in the workspace."""

    def __init__(
        self,
        blobs: Blobs,
        workspace: str,
        reader: str,
        inline: Collection[str] = (*EXTENSIONS, PDF),
        uploads: str = "",
    ) -> None:
        self._blobs = blobs
        self._workspace = os.path.realpath(workspace)
        self._reader = reader
        self._inline = inline
        self._uploads = uploads

    async def give(self, prompt: Prompt) -> Given:
        files, lost = await self._load(prompt)
        attached = attach(files, self._reader, () if prompt.is_text_only else self._inline)
        saved, unsaved = self._save(attached)
        refused = (*lost, *attached.refused, *unsaved)
        notices = tuple(Notice("warning", "attachment_skipped", words) for words in refused)
        return Given(attached.inline, tuple(saved), notices)

    async def has_inline(self, prompt: Prompt) -> bool:
        """Return whether the prompt has images or documents, which a command line cannot hold."""
        if prompt.is_text_only:
            return False
        files, _ = await self._load(prompt)
        return bool(attach(files, self._reader, self._inline).inline)

    async def _load(self, prompt: Prompt) -> tuple[list[File], list[str]]:
        files: list[File] = []
        lost: list[str] = []
        for attachment in prompt.attachments:
            try:
                files.append(File(attachment.name, await self._blobs.get(attachment.blob)))
            except PilothouseError as error:
                lost.append(f"{show_name(attachment.name)} was not given to {self._reader}: {error}")
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
        """Save the file under a free name; return the path by which the agent knows it. Its own name may be hostile: it cannot
        lead elsewhere, and agents do not take the file for instructions."""
        name = plain_name(PurePosixPath(file.name.replace("\\", "/")).name).lstrip(".") or "a file"
        if _OBEYED.fullmatch(unicodedata.normalize("NFKC", name).casefold()):
            name = f"attached-{name}"
        folder = self._folder()
        stem, suffix = _short(name)
        for number in range(1, 1000):
            path = folder / (f"{stem}{suffix}" if number == 1 else f"{stem}-{number}{suffix}")
            try:
                with path.open("xb") as target:
                    target.write(file.data)
                return str(Path(self._workspace, UPLOADS, path.name) if self._uploads else path)
            except FileExistsError:
                continue
        raise OSError(0, "there are too many files of this name")

    def _folder(self) -> Path:
        """Return the folder for files, which is made if need be. Raises `OSError` if it leads out of the workspace."""
        if self._uploads:
            os.makedirs(self._uploads, mode=0o700, exist_ok=True)
            return Path(self._uploads)
        folder = Path(self._workspace, DOWNLOADS)
        folder.mkdir(exist_ok=True)
        if os.path.realpath(folder) != str(folder):
            raise OSError(0, f"{DOWNLOADS} leads out of the workspace")
        with suppress(FileExistsError), (folder / ".gitignore").open("x") as ignored:
            ignored.write("*\n")  # what people send stays out of the repository
        return folder


def _short(name: str) -> tuple[str, str]:
    """Return stem and suffix, the stem cut so that a number fits behind it: file systems count bytes."""
    stem, suffix = os.path.splitext(name)
    if len(suffix.encode()) > SUFFIX_BYTES:
        stem, suffix = name, ""
    room = NAME_BYTES - len(suffix.encode())
    return stem.encode()[:room].decode("utf-8", "ignore"), suffix
