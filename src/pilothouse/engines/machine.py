"""How much memory the machine can still give.

Where the CLI puts its temporary files: a folder of ours, so that nothing of them outlives us.

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


def free_memory_mb(path: Path = Path("/proc/meminfo")) -> float | None:
    """None where the system does not tell. A container's own limit counts where it is the smaller."""
    machine = _available(path)
    cgroup = _cgroup_left(Path("/sys/fs/cgroup"))
    told = [value for value in (machine, cgroup) if value is not None]
    return min(told, default=None)


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
