"""Reads a file for a preview: only a plain one, only inside the workspace as links really lead, only so much of it."""

from __future__ import annotations

import os
import stat
from functools import partial
from pathlib import PurePath

from anyio import to_thread

from pilothouse.core.preview import Found

MOST_BYTES = 1_000_000

OUTSIDE = Found(problem="it lies outside the workspace")
NOT_PLAIN = Found(problem="it is not a plain file")
NOT_TEXT = Found(problem="it is not text")


async def look_at_file(path: str, folder: str) -> Found:
    """In a thread that nobody waits for longer than they want to: a file may lie on a disk that does not answer."""
    return await to_thread.run_sync(partial(read_inside, path, folder), abandon_on_cancel=True)


def read_inside(path: str, folder: str) -> Found:
    try:
        real = os.path.realpath(path)
        if not PurePath(real).is_relative_to(os.path.realpath(folder)):
            return OUTSIDE
        # A pipe would keep us waiting without O_NONBLOCK; a link can only be one that was put there meanwhile.
        file = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return Found()
    except (OSError, ValueError) as error:
        return Found(problem=f"it cannot be read: {getattr(error, 'strerror', None) or error}")
    try:
        return _read(file)
    finally:
        os.close(file)


def _read(file: int) -> Found:
    about = os.fstat(file)
    if not stat.S_ISREG(about.st_mode):
        return NOT_PLAIN
    if about.st_size > MOST_BYTES:
        return Found(problem=f"it is {about.st_size / 1_000_000:.1f} MB long")
    with os.fdopen(file, "rb", closefd=False) as opened:
        return _text(opened.read(MOST_BYTES))


def _text(data: bytes) -> Found:
    if b"\0" in data:
        return NOT_TEXT
    try:
        return Found(data.decode())
    except UnicodeDecodeError:
        return NOT_TEXT
