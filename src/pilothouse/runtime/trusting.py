"""Which workspaces an owner trusts: a fact outside the repository, bound to the folder itself.

Rules: nobody is trusted by default, and no chat can grant it; a copy or a clone elsewhere is another folder, and so is
one that was put in the place of the old.
"""

from __future__ import annotations

import os

from pilothouse.core.store import Tx
from pilothouse.runtime.auditing import record

NO = ""


def is_trusted(tx: Tx, workspace: str) -> bool:
    kept = tx.get_fact(_key(workspace))
    return bool(kept) and kept == mark_of(workspace)


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
    return f"trust:{os.path.realpath(workspace)}"


def mark_of(workspace: str) -> str | None:
    """What a folder is known by, besides its path; None where there is none."""
    try:
        return str(os.stat(workspace).st_ino)
    except OSError:
        return None
