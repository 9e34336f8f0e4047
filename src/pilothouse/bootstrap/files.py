"""Reads a file of a workspace: only a regular file, inside the folder after links are resolved, up to a limit."""

from __future__ import annotations

import os
import stat
from functools import partial
from pathlib import PurePath

from anyio import to_thread

from pilothouse.core.text import file_size
from pilothouse.runtime.preview import Found

PREVIEW_BYTES = 1_000_000

OUTSIDE = "it lies outside the workspace"
NOT_PLAIN = "it is not a plain file"
NOT_TEXT = Found(problem="it is not text")


async def look_at_file(path: str, folder: str) -> Found:
    """Reads a file for a preview, in a thread that can be abandoned: a disk may hang."""
    return await to_thread.run_sync(partial(look_inside, path, folder), abandon_on_cancel=True)


async def read_file(path: str, folder: str, most: int) -> tuple[str, bytes] | str:
    """Returns the path below the folder and the content; or a text that says why not."""
    return await to_thread.run_sync(partial(_find, path, folder, most), abandon_on_cancel=True)


def look_inside(path: str, folder: str) -> Found:
    try:
        found = _read_inside(path, folder, PREVIEW_BYTES)
    except FileNotFoundError:
        return Found()
    return Found(problem=found) if isinstance(found, str) else _text(found[1])


def _find(path: str, folder: str, most: int) -> tuple[str, bytes] | str:
    try:
        return _read_inside(path, folder, most)
    except FileNotFoundError:
        return "there is no such file"


def _read_inside(path: str, folder: str, most: int) -> tuple[str, bytes] | str:
    try:
        real, root = os.path.realpath(path), os.path.realpath(folder)
        if not PurePath(real).is_relative_to(root):
            return OUTSIDE
        # Without O_NONBLOCK a pipe would block. O_NOFOLLOW catches a link that was put there after realpath.
        file = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        return f"it cannot be read: {getattr(error, 'strerror', None) or error}"
    try:
        data = _read(file, most)
        return data if isinstance(data, str) else (str(PurePath(real).relative_to(root)), data)
    finally:
        os.close(file)


def _read(file: int, most: int) -> bytes | str:
    about = os.fstat(file)
    if stat.S_ISDIR(about.st_mode):
        return "it is a folder"
    if not stat.S_ISREG(about.st_mode):
        return NOT_PLAIN
    if about.st_size > most:
        return f"it has {file_size(about.st_size)}, and {file_size(most)} is the most"
    with os.fdopen(file, "rb", closefd=False) as opened:
        return opened.read(most)


def _text(data: bytes) -> Found:
    if b"\0" in data:
        return NOT_TEXT
    try:
        return Found(data.decode())
    except UnicodeDecodeError:
        return NOT_TEXT
