"""How much memory the machine can still give."""

from __future__ import annotations

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
