"""Which workspaces an owner trusts: a fact outside the repository, bound to the folder itself.

Rules: nobody is trusted by default, and no chat can grant it; a copy or a clone elsewhere is another folder, and so is
one that was put in the place of the old. A folder that cannot be told from the next one in its place cannot be trusted.
"""

from __future__ import annotations

import os

from pilothouse.core.errors import ConfigError
from pilothouse.core.store import Tx
from pilothouse.runtime.auditing import record
from pilothouse.runtime.folder_marks import mark_of

NO = ""
_TRUST = "trust:"
LAPSED = (
    "Somebody trusted what was here, and that does not count any more: another folder has taken its place, "
    "or an older version kept too little to tell the two apart."
)


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
