"""Trusted workspaces: a fact in the store, bound to the folder itself. None is trusted by default; no chat can grant it.

A folder's mark is its inode and its creation time, so trust and saved rules never pass to a copy, a clone, or a folder
that replaced the old one. The inode alone is not enough: ext4 reuses the number of a removed folder at once. Where the
file system keeps no creation time there is no mark, and the folder cannot be trusted.
"""

from __future__ import annotations

import os
import struct
from functools import cache
from typing import TYPE_CHECKING

from pilothouse.core.errors import ConfigError
from pilothouse.core.facts import TRUST
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

UNTRUSTED = ""
LAPSED = (
    "The trust in this folder no longer counts: another folder has taken its place, "
    "or an older version of Pilothouse stored too little to tell."
)


def folder_mark(folder: str) -> str | None:
    """Return the folder's mark; None if there is no folder, or its file system keeps no creation time."""
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
    """None if the C library has no `statx`."""
    from ctypes import CDLL  # takes 3 ms to import, which most commands can skip

    libc = CDLL(None)
    return libc if hasattr(libc, "statx") else None


def is_trusted(tx: Tx, workspace: str) -> bool:
    return is_trusted_folder(tx, os.path.realpath(workspace))


def is_trusted_folder(tx: Tx, real: str) -> bool:
    """Like `is_trusted`, for a path that is already resolved, which saves disk access."""
    kept = tx.get_fact(TRUST.of(real))
    return bool(kept) and kept == folder_mark(real)


def was_decided(tx: Tx, workspace: str) -> bool:
    """True if this very folder was trusted or refused, so that people are not asked again."""
    kept = tx.get_fact(_key(workspace))
    return kept == UNTRUSTED or (kept is not None and kept == folder_mark(workspace))


def has_lapsed(tx: Tx, workspace: str) -> bool:
    """True if this path was trusted, but the folder there now is not known to be the same."""
    kept = tx.get_fact(_key(workspace))
    return bool(kept) and kept != folder_mark(workspace)


def trust(tx: Tx, workspace: str, by: str, at: float) -> None:
    """Raises `OSError` where there is no such folder."""
    os.stat(workspace)
    mark = folder_mark(workspace)
    if mark is None:
        raise ConfigError(
            f"{workspace} cannot be trusted: its file system stores no creation time, so a folder that replaced it "
            "would be trusted too. Move it to a file system that does (ext4, xfs, btrfs, APFS)."
        )
    tx.set_fact(_key(workspace), mark)
    record(tx, at, by, "trust.granted", workspace=os.path.realpath(workspace))


def untrust(tx: Tx, workspace: str, by: str, at: float) -> bool:
    """Remove the trust; True if the folder was trusted."""
    was = bool(tx.get_fact(_key(workspace)))
    tx.set_fact(_key(workspace), UNTRUSTED)
    if was:
        record(tx, at, by, "trust.revoked", workspace=os.path.realpath(workspace))
    return was


def _key(workspace: str) -> str:
    return TRUST.of(os.path.realpath(workspace))
