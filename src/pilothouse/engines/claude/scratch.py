"""Where the CLI puts its temporary files: a folder of ours, so that nothing of them outlives us.

Left to itself the CLI leaves images and sockets in the common folder (2.1.325). The name is made of the node's marker:
what a killed gateway left, the next one of the same store finds and removes. It is short, for a socket's path must be.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from pathlib import Path


def make_scratch(marker: str) -> str:
    """A new, empty folder that nobody else can look into."""
    folder = scratch_path(marker)
    if _is_ours(folder):
        shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(mode=0o700)
    except OSError:  # somebody else's, or one that cannot be removed
        return tempfile.mkdtemp(prefix=f"{folder.name}-")
    return str(folder)


def scratch_path(marker: str) -> Path:
    known = hashlib.sha256(marker.encode()).hexdigest()[:10]
    return Path(tempfile.gettempdir(), f"pilothouse-{os.getuid()}-{known}")


def remove_scratch(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
