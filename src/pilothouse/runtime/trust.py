"""What a folder is known by besides its path, so that trust and kept rules never pass to what takes its place.

An inode alone is no mark: ext4 gives the number of a removed folder to the next one at once. The moment in which a
folder was made stays the same whatever is done in it, is set by the system alone, and no clone or copy brings it along.
Where the file system keeps no such moment there is no mark: nothing can be bound to the folder then.

Which workspaces an owner trusts: a fact outside the repository, bound to the folder itself.

Rules: nobody is trusted by default, and no chat can grant it; a copy or a clone elsewhere is another folder, and so is
one that was put in the place of the old. A folder that cannot be told from the next one in its place cannot be trusted.
"""

from __future__ import annotations

import os
import struct
from functools import cache
from typing import TYPE_CHECKING

from pilothouse.core.errors import ConfigError
from pilothouse.core.store import Tx
from pilothouse.runtime.audit import record

if TYPE_CHECKING:
    from ctypes import CDLL

# linux/stat.h
_AT_FDCWD = -100
_STATX_INO = 0x100
_STATX_BTIME = 0x800
_SIZE = 256
_MASK_AT, _INO_AT, _BTIME_AT = 0, 32, 80

NO = ""
_TRUST = "trust:"
LAPSED = (
    "Somebody trusted what was here, and that does not count any more: another folder has taken its place, "
    "or an older version kept too little to tell the two apart."
)


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


def is_trusted(tx: Tx, workspace: str) -> bool:
    return is_trusted_folder(tx, os.path.realpath(workspace))


def is_trusted_folder(tx: Tx, real: str) -> bool:
    """For those who know already where a workspace really is: to find out takes many looks at the disk."""
    kept = tx.get_fact(f"{_TRUST}{real}")
    return bool(kept) and kept == mark_of(real)


def was_settled(tx: Tx, workspace: str) -> bool:
    """Whether somebody said yes or no about this very folder: nobody is asked twice."""
    kept = tx.get_fact(_key(workspace))
    return kept == NO or (kept is not None and kept == mark_of(workspace))


def has_lapsed(tx: Tx, workspace: str) -> bool:
    """Whether this path was trusted, and what is there now is not known to be the same folder."""
    kept = tx.get_fact(_key(workspace))
    return bool(kept) and kept != mark_of(workspace)


def trust(tx: Tx, workspace: str, by: str, at: float) -> None:
    """Raises `OSError` where there is no such folder."""
    os.stat(workspace)
    mark = mark_of(workspace)
    if mark is None:
        raise ConfigError(
            f"{workspace} cannot be trusted: its file system does not say when a folder was made, so that another one "
            "in its place would be trusted, too. Move it to a file system that does (ext4, xfs, btrfs, APFS)."
        )
    tx.set_fact(_key(workspace), mark)
    record(tx, at, by, "trust.granted", workspace=os.path.realpath(workspace))


def untrust(tx: Tx, workspace: str, by: str, at: float) -> bool:
    """Whether it was trusted."""
    was = bool(tx.get_fact(_key(workspace)))
    tx.set_fact(_key(workspace), NO)
    if was:
        record(tx, at, by, "trust.revoked", workspace=os.path.realpath(workspace))
    return was


def _key(workspace: str) -> str:
    return f"{_TRUST}{os.path.realpath(workspace)}"
