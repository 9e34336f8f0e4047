"""Files that people send to a jailed agent: they lie in our data folder, and the jail shows them in the workspace, read-only.

So nothing that a chat brings lands in the repository, and the agent cannot change what a person sent.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from pilothouse.core.isolation import UPLOADS
from pilothouse.isolation.pins import make_folders
from pilothouse.isolation.profile import Mount

DAY_S = 86400.0


def uploads_folder(folder: str, workspace: str) -> str:
    """Return the folder for a resolved workspace, and make its mount point. Empty if none is wanted, if the point cannot be
    made, or if the workspace has a link in its place, which may lead anywhere."""
    target = os.path.join(workspace, UPLOADS)
    if not folder or os.path.realpath(target) != target:
        return ""
    try:
        make_folders(workspace, UPLOADS.split("/"))
    except OSError:  # a file or a link is in its place, or nobody may write there
        return ""
    return os.path.join(folder, hashlib.sha256(os.fsencode(workspace)).hexdigest()[:16])


def uploads_mounts(folder: str, workspace: str) -> Iterator[Mount]:
    if source := uploads_folder(folder, workspace):
        os.makedirs(source, mode=0o700, exist_ok=True)
        yield Mount("read", os.path.join(workspace, UPLOADS), source)


def sweep_uploads(folder: str, days: float) -> None:
    """Remove files that were sent longer ago."""
    before = time.time() - days * DAY_S
    for path in Path(folder).glob("*/*"):
        with suppress(OSError):
            if path.lstat().st_mtime < before:
                path.unlink()
