"""Whether somebody else has a session open, in a terminal say: two processes of one session silently lose turns.

A Claude that waits for input leaves a note of itself, `sessions/<pid>.json`, for as long as it runs (2.1.325); ours do
too, and are known by their marker. A note that cannot be read, or whose process is gone, says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from pilothouse.engines.claude.session_log import config_folder
from pilothouse.processes.procfs import Marker, carries, procfs_works, read_process

MAX_NOTES = 1000
MAX_BYTES = 65_536


class _Note(Struct, frozen=True, rename="camel"):
    pid: int
    session_id: str
    proc_start: str = ""
    cwd: str = ""


_decode = msgspec.json.Decoder(_Note).decode


def describe_other_use(environment: Mapping[str, str], session: str, ours: Marker) -> str:
    """Who has it open, in words; empty if nobody but us has."""
    if not procfs_works():
        return ""  # ours and others' look alike then
    folder = config_folder(environment) / "sessions"
    for path in sorted(folder.glob("*.json"))[:MAX_NOTES]:
        note = _read(path)
        if note and note.session_id == session and _runs(note) and not carries(note.pid, ours):
            return f"process {note.pid}" + (f", in {note.cwd}" if note.cwd else "")
    return ""


def _read(path: Path) -> _Note | None:
    try:
        with path.open("rb") as file:
            return _decode(file.read(MAX_BYTES))
    except (OSError, msgspec.MsgspecError, UnicodeError):
        return None


def _runs(note: _Note) -> bool:
    """A pid alone may be somebody else's by now."""
    found = read_process(note.pid)
    return found is not None and found.alive and note.proc_start in ("", str(found.id.started))
