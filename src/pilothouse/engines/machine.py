"""Free memory of this machine, and a private folder for a program's temporary files.

The folder's name is made of the node's marker, so the next gateway of the same store finds and removes what a killed
one left. It is short, because the path of a socket must be.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from pathlib import Path


def free_memory_mb(path: Path = Path("/proc/meminfo")) -> float | None:
    """Return the smaller of the machine's and the container's free memory; None where the system tells neither."""
    known = (_available(path), _cgroup_left(Path("/sys/fs/cgroup")))
    return min((value for value in known if value is not None), default=None)


def _available(path: Path) -> float | None:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return None
    found = next((line.split()[1] for line in lines if line.startswith("MemAvailable:")), None)
    return int(found) / 1024 if found else None


def _cgroup_left(folder: Path) -> float | None:
    try:
        limit = (folder / "memory.max").read_text().strip()
        used = (folder / "memory.current").read_text().strip()
        return None if limit == "max" else (int(limit) - int(used)) / (1 << 20)
    except (OSError, ValueError):
        return None


def make_scratch(marker: str) -> str:
    """Make an empty folder that only this user can read."""
    folder = scratch_path(marker)
    if _is_own_folder(folder):
        shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(mode=0o700)
    except OSError:  # another user's, or one that cannot be removed
        return tempfile.mkdtemp(prefix=f"{folder.name}-")
    return str(folder)


def scratch_path(marker: str) -> Path:
    known = hashlib.sha256(marker.encode()).hexdigest()[:10]
    return Path(tempfile.gettempdir(), f"pilothouse-{os.getuid()}-{known}")


def remove_scratch(folder: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def _is_own_folder(folder: Path) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid()
