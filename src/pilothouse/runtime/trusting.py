"""Which workspaces an owner trusts: a fact outside the repository, bound to the folder itself.

Rules: nobody is trusted by default, and no chat can grant it; a copy or a clone elsewhere is another folder, and so is
one that was put in the place of the old.
"""

from __future__ import annotations

import os

from pilothouse.core.store import Tx
from pilothouse.runtime.auditing import record

NO = ""
_TRUST = "trust:"


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


def trust(tx: Tx, workspace: str, by: str, at: float) -> None:
    """Raises `OSError` where there is no such folder."""
    tx.set_fact(_key(workspace), str(os.stat(workspace).st_ino))
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


def mark_of(workspace: str) -> str | None:
    """What a folder is known by, besides its path; None where there is none."""
    try:
        return str(os.stat(workspace).st_ino)
    except OSError:
        return None
