"""Opens files by paths that were judged before, so that what is opened is what was judged.

A path is resolved once (`real_path`), judged, and then opened part by part without following any link: a link that was put
in its place meanwhile is an error. A new content replaces the file in one step. Only plain files are opened, and never
waited for. Hard links are no boundary: one inside the workspace may be a file outside of it.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

MAX_EDITED_BYTES = 16 * 1024 * 1024

_PLACE = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_CLOEXEC


class BadFile(Exception):
    """The file cannot be used; the text says why."""


def real_path(path: str, workspace: str) -> str:
    """Return the absolute path without links; relative ones begin in the workspace. Raises `BadFile`."""
    if "\0" in path or not path:
        raise BadFile("The path is empty or holds a null character.")
    try:
        return os.path.realpath(os.path.join(workspace, os.path.expanduser(path)))
    except (OSError, ValueError) as error:
        raise BadFile(f"The path cannot be resolved: {error}") from error


@contextmanager
def open_plain(real: str) -> Iterator[IO[bytes]]:
    """Open a plain file for reading. Raises `BadFile`."""
    try:
        with open_folder(os.path.dirname(real)) as place:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            descriptor = os.open(os.path.basename(real) or "/", flags, dir_fd=place)
    except OSError as error:
        raise BadFile(_why(real, error)) from error
    try:
        _check_plain(real, os.fstat(descriptor).st_mode)
    except BadFile:
        os.close(descriptor)
        raise
    with open(descriptor, "rb") as file:
        yield file


def read_whole(real: str, limit: int = MAX_EDITED_BYTES) -> bytes:
    """Return a plain file's content. Raises `BadFile` if it is longer than the limit."""
    with open_plain(real) as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise BadFile(f"{real} is larger than {limit:,} bytes.")
    return data


def replace_file(real: str, data: bytes) -> None:
    """Write a new content in one step, and make missing folders. The mode of the file is kept. Raises `BadFile`."""
    name = os.path.basename(real)
    try:
        with open_folder(os.path.dirname(real), make=True) as place:
            mode = _mode_of(real, name, place)
            new = f".{name[:100]}.{secrets.token_hex(6)}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(new, flags, 0o666 if mode is None else 0o600, dir_fd=place)
            try:
                with open(descriptor, "wb") as file:
                    file.write(data)
                    if mode is not None:
                        os.fchmod(descriptor, mode)
                os.rename(new, name, src_dir_fd=place, dst_dir_fd=place)
            except OSError:
                os.unlink(new, dir_fd=place)
                raise
    except OSError as error:
        raise BadFile(_why(real, error)) from error


def content_hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _mode_of(real: str, name: str, place: int) -> int | None:
    try:
        found = os.stat(name, dir_fd=place, follow_symlinks=False)
    except FileNotFoundError:
        return None
    _check_plain(real, found.st_mode)
    return stat.S_IMODE(found.st_mode)


@contextmanager
def open_folder(path: str, *, make: bool = False) -> Iterator[int]:
    """Open a folder part by part, without following a link. Raises `OSError`."""
    place = os.open("/", _PLACE)
    try:
        for part in path.split("/"):
            if part:
                inner = _enter(place, part, make=make)
                os.close(place)
                place = inner
        yield place
    finally:
        os.close(place)


def _enter(place: int, part: str, *, make: bool) -> int:
    try:
        return os.open(part, _PLACE | os.O_NOFOLLOW, dir_fd=place)
    except FileNotFoundError:
        if not make:
            raise
        os.mkdir(part, dir_fd=place)
        return os.open(part, _PLACE | os.O_NOFOLLOW, dir_fd=place)


def _check_plain(real: str, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise BadFile(f"{real} is a folder.")
    if stat.S_ISLNK(mode):
        raise BadFile(f"{real} became a link after it was checked.")
    if not stat.S_ISREG(mode):
        raise BadFile(f"{real} is a pipe, a socket or a device, not a plain file.")


def _why(real: str, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return f"There is no file {real}."
    return f"{real} cannot be opened: {error.strerror}."
