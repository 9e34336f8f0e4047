"""Trusted workspaces: whether an engine obeys the settings, hooks and servers that a folder brings along.

Trust is a fact in the store, bound to the folder and to its content. No folder is trusted by default, and no chat can
grant it. A folder's mark is its inode and its creation time, so trust and saved rules never pass to a copy, a clone, or a
folder that replaced the old one. The inode alone is not enough: ext4 reuses the number of a removed folder at once. Where
the file system keeps no creation time there is no mark, and the folder cannot be trusted. Where the content has changed,
the folder is not trusted until a person says so again.
"""

from __future__ import annotations

import os
import shlex
import struct
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import anyio.to_thread
from msgspec import Struct

from pilothouse.core.engine import TrustedFile
from pilothouse.core.errors import ConfigError
from pilothouse.core.store import Tx
from pilothouse.runtime.audit import APP, record
from pilothouse.runtime.facts import TRUST, TRUST_JAIL, TRUSTED_CONTENT, load_fact, save_fact
from pilothouse.runtime.settings import Settings
from pilothouse.runtime.trust_files import MAX_FILES, Change, TrustedContent, compare, read_content

if TYPE_CHECKING:
    from ctypes import CDLL

# linux/stat.h
_AT_FDCWD = -100
_STATX_INO = 0x100
_STATX_BTIME = 0x800
_SIZE = 256
_MASK_AT, _INO_AT, _BTIME_AT = 0, 32, 80

LISTED = 5
UNTRUSTED = ""
LAPSED = (
    "The trust in this folder no longer counts: another folder has taken its place, "
    "or an older version of Pilothouse stored too little to tell."
)


class TrustState(Struct, frozen=True):
    """The trust in a folder, as it is now."""

    was_given: bool
    content: TrustedContent
    before: TrustedContent | None = None
    """The trusted content; None where an older version stored only that the folder was trusted."""

    @property
    def changes(self) -> tuple[Change, ...]:
        return compare(self.before, self.content) if self.was_given and self.before is not None else ()

    @property
    def holds(self) -> bool:
        return self.was_given and self.content.whole and not self.changes


class StoredTrust(Struct, frozen=True):
    """The trust in a folder, as it was given: the folder's mark, and the content that was trusted."""

    mark: str
    content: TrustedContent | None
    jail: bool = False
    """The owner chose a jail for it, where `isolation = "auto"`."""


def stored_trust(tx: Tx, real: str) -> StoredTrust:
    content = load_fact(tx, TRUSTED_CONTENT.of(real), TrustedContent)
    return StoredTrust(tx.get_fact(TRUST.of(real)) or UNTRUSTED, content, wants_jail(tx, real))


def wants_jail(tx: Tx, real: str) -> bool:
    return tx.get_fact(TRUST_JAIL.of(real)) == "yes"


def choose_jail(tx: Tx, real: str, by: str, at: float, *, jail: bool) -> None:
    """Store whether engines are jailed in a trusted folder, where `isolation = "auto"`."""
    tx.set_fact(TRUST_JAIL.of(real), "yes" if jail else "")
    record(tx, at, by, "trust.jail", workspace=real, jail=jail)


def stored_trusts(tx: Tx) -> list[tuple[str, StoredTrust]]:
    """Return the paths that were trusted, whether or not that still counts: `check_trust` tells."""
    return [(folder, stored_trust(tx, folder)) for folder in trusted_folders(tx)]


def check_trust(stored: StoredTrust, real: str, files: Sequence[TrustedFile]) -> TrustState:
    """`real` is a resolved path; `files` are what engines obey in a trusted folder. Reads them only if it was trusted."""
    if not stored.mark or stored.mark != folder_mark(real):
        return TrustState(False, TrustedContent({}))
    return TrustState(True, read_content(real, files), stored.content)


async def note_trust(settings: Settings, stored: StoredTrust, real: str) -> TrustState:
    """Check the trust in a folder where something is about to run, and pass it on to what makes jails."""
    state = await anyio.to_thread.run_sync(
        check_trust, stored, real, settings.trusted_files, abandon_on_cancel=True
    )
    settings.note_trust(real, state.holds, stored.jail)
    return state


def look_at_trust(tx: Tx, real: str, files: Sequence[TrustedFile]) -> TrustState:
    return check_trust(stored_trust(tx, real), real, files)


def changed_notice(folder: str, state: TrustState) -> str:
    """Say what changed in a folder that was trusted, and what to do."""
    shown = [str(change) for change in state.changes[:LISTED]]
    more = len(state.changes) - len(shown)
    named = ", ".join([*shown, *([f"{more} more"] if more else [])]) or "too many files to check"
    return (
        f"The folder was trusted, but the settings and programs it brings along have changed: {named}. Engines ignore its "
        f"CLAUDE.md, hooks and MCP servers now. To look at the changes and trust it again, on the machine: "
        f"`pilothouse trust {shlex.quote(folder)}`"
    )


def was_decided(tx: Tx, workspace: str) -> bool:
    """True if this very folder was trusted or refused, so that people are not asked again."""
    kept = tx.get_fact(_key(workspace))
    return kept == UNTRUSTED or (kept is not None and kept == folder_mark(workspace))


def has_lapsed(tx: Tx, workspace: str) -> bool:
    """True if this path was trusted, but the folder there now is not known to be the same."""
    kept = tx.get_fact(_key(workspace))
    return bool(kept) and kept != folder_mark(workspace)


def trusted_folders(tx: Tx) -> list[str]:
    """Return the paths that were trusted, also where that no longer counts."""
    return [folder for folder, mark in tx.facts_of(TRUST.of("")) if mark != UNTRUSTED]


def trust(tx: Tx, workspace: str, by: str, at: float, content: TrustedContent | None = None) -> None:
    """Trust the folder with the content that a person was shown. Raises `OSError` where there is no such folder."""
    os.stat(workspace)
    mark = folder_mark(workspace)
    if mark is None:
        raise ConfigError(
            f"{workspace} cannot be trusted: its file system stores no creation time, so a folder that replaced it "
            "would be trusted too. Move it to a file system that does (ext4, xfs, btrfs, APFS)."
        )
    content = content or TrustedContent({})
    if not content.whole:
        raise ConfigError(
            f"{workspace} cannot be trusted: it has more than {MAX_FILES:,} files of settings, hooks and skills, too "
            "many to notice a change in them. Remove those that no engine needs."
        )
    tx.set_fact(_key(workspace), mark)
    save_fact(tx, TRUSTED_CONTENT.of(os.path.realpath(workspace)), content)
    record(tx, at, by, "trust.granted", workspace=os.path.realpath(workspace), content=content.digest)


def keep_first_content(tx: Tx, real: str, content: TrustedContent, at: float) -> None:
    """Take the present content as what was trusted, where an older version stored none."""
    key = TRUSTED_CONTENT.of(real)
    if tx.get_fact(TRUST.of(real)) and not tx.get_fact(key):
        save_fact(tx, key, content)
        record(tx, at, APP, "trust.noted", workspace=real, content=content.digest)


def untrust(tx: Tx, workspace: str, by: str, at: float) -> bool:
    """Remove the trust; True if the folder was trusted."""
    was = bool(tx.get_fact(_key(workspace)))
    tx.set_fact(_key(workspace), UNTRUSTED)
    save_fact(tx, TRUSTED_CONTENT.of(os.path.realpath(workspace)), None)
    if was:
        record(tx, at, by, "trust.revoked", workspace=os.path.realpath(workspace))
    return was


def _key(workspace: str) -> str:
    return TRUST.of(os.path.realpath(workspace))


def folder_mark(folder: str) -> str | None:
    """Return the folder's mark; None if there is no folder, or its file system keeps no creation time."""
    try:
        found = os.stat(folder)
    except OSError:
        return None
    # On macOS and BSD; on Linux Python has it from 3.15 on.
    born = getattr(found, "st_birthtime", None)
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
