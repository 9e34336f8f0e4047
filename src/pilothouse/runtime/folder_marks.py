"""What a folder is known by besides its path, so that trust and kept rules never pass to what takes its place.

An inode alone is no mark: ext4 gives the number of a removed folder to the next one at once. The moment in which a
folder was made stays the same whatever is done in it, is set by the system alone, and no clone or copy brings it along.
Where the file system keeps no such moment there is no mark: nothing can be bound to the folder then.
"""

from __future__ import annotations

import os
import struct
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ctypes import CDLL

# linux/stat.h
_AT_FDCWD = -100
_STATX_INO = 0x100
_STATX_BTIME = 0x800
_SIZE = 256
_MASK_AT, _INO_AT, _BTIME_AT = 0, 32, 80


def mark_of(folder: str) -> str | None:
    """None where there is no folder, or where the file system does not say when it was made."""
    try:
        found = os.stat(folder)
    except OSError:
        return None
    born = getattr(
        found, "st_birthtime", None
    )  # macOS, BSD; on Linux Python has it from 3.15 on, and elsewhere
    return _mark(found.st_ino, born) if born is not None else _ask_linux(folder)


def _ask_linux(folder: str) -> str | None:
    libc = _libc()
    if libc is None:
        return None
    from ctypes import create_string_buffer

    room = create_string_buffer(_SIZE)
    if libc.statx(_AT_FDCWD, os.fsencode(folder), 0, _STATX_INO | _STATX_BTIME, room):
        return None
    (mask,) = struct.unpack_from("=I", room, _MASK_AT)
    (inode,) = struct.unpack_from("=Q", room, _INO_AT)
    seconds, nanoseconds = struct.unpack_from("=qI", room, _BTIME_AT)
    known = mask & _STATX_BTIME and (seconds or nanoseconds)
    return _mark(inode, f"{seconds}.{nanoseconds:09}") if known else None


def _mark(inode: int, born: object) -> str:
    return f"{inode} made {born}"


@cache
def _libc() -> CDLL | None:
    """None where the C library knows no `statx`."""
    from ctypes import CDLL  # three milliseconds that most commands need not spend

    libc = CDLL(None)
    return libc if hasattr(libc, "statx") else None
