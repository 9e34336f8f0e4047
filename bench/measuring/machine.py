"""Which machine this is: figures mean nothing without it."""

from __future__ import annotations

import os
import platform
import sqlite3
from pathlib import Path


def describe() -> str:
    python = f"{platform.python_implementation()} {platform.python_version()}"
    system = f"{platform.system()} {platform.release()}"
    return f"{_cpu()} × {os.cpu_count()}, {_memory()}, {system}, {python}, SQLite {sqlite3.sqlite_version}"


def _cpu() -> str:
    for line in _lines("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory() -> str:
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemTotal"):
            return f"{int(line.split()[1]) / 1_048_576:.0f} GB"
    return "memory unknown"


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def rss_kb(pid: int | str = "self") -> int:
    """What the kernel holds in memory for a process, in kB. Linux only."""
    for line in _lines(f"/proc/{pid}/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    raise SystemExit("this system does not tell how much memory a process has: /proc is missing")


def children_cpu_s() -> float:
    """What the running children of this process have computed so far, in seconds. Linux only."""
    pids = [
        pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()
    ]
    return sum(cpu_s(int(pid)) for pid in pids)


def cpu_s(pid: int) -> float:
    """What a process has computed so far, in seconds. Linux only."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
