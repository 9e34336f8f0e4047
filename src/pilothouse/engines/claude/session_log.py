"""Claude's own log of a session, and the notes of running Claudes. Read-only.

    ~/.claude/projects/<folder, escaped>/<session>.jsonl     (CLAUDE_CONFIG_DIR moves ~/.claude; 2.1.325)

Rules: a missing log is no error. A line counts once it is whole. A file that was cut or replaced is read from its
beginning. One look reads a bounded amount, and skips a line beyond the bound.

Two processes of one session silently lose turns, so an open session is not used twice. A Claude that waits for input
keeps a note of itself in `sessions/<pid>.json` while it runs (2.1.325); ours do too, and are known by their marker. A note
that cannot be read, or whose process has ended, is ignored.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from pilothouse.core.engine import Brief
from pilothouse.core.errors import EngineError
from pilothouse.core.outcome import Failure
from pilothouse.processes import LineSplitter
from pilothouse.processes.procfs import Marker, carries, procfs_works, read_process

NAME_CHARS = 200
PORTION = 4 * 1024 * 1024
MAX_LINE = 16 * 1024 * 1024
SUFFIX = ".jsonl"

IN_TERMINAL = (
    "This session is open elsewhere on this machine ({where}), and two programs at once would lose turns. "
    "Leave it there and send this again, or start another session here with /new."
)
MAX_NOTES = 1000
MAX_BYTES = 65_536


def config_folder(environment: Mapping[str, str]) -> Path:
    own = environment.get("CLAUDE_CONFIG_DIR")
    return Path(own) if own else Path(environment.get("HOME") or os.path.expanduser("~"), ".claude")


def projects_folder(environment: Mapping[str, str]) -> Path:
    return config_folder(environment) / "projects"


def folder_name(cwd: str) -> str:
    """Return the name of a folder's logs: each UTF-16 unit of its real path is a dash, unless an ASCII letter or digit."""
    return "".join(
        char if char.isascii() and char.isalnum() else "-" * (1 + (ord(char) > 0xFFFF))
        for char in os.path.realpath(cwd)
    )


def find_log(projects: Path, session: str, cwd: str = "") -> Path | None:
    """Return the log of a session that ran in `cwd`, or else the newest of its name: it may be resumed anywhere."""
    name = session + SUFFIX
    if (
        cwd
        and len(escaped := folder_name(cwd)) <= NAME_CHARS
        and (path := projects / escaped / name).is_file()
    ):
        return path
    # A longer name ends in a hash that only Claude Code can compute.
    return newest(projects, name)


def newest(projects: Path, pattern: str, folder: str = "*") -> Path | None:
    if len(folder) > NAME_CHARS:
        folder = f"{folder[:NAME_CHARS]}-*"
    found = sorted(projects.glob(f"{folder}/{pattern}"), key=_changed_at)
    return found[-1] if found else None


class LogTail:
    """Calls `find` until there is a log. `skip` gets its size at the beginning, and returns how much of it is old."""

    def __init__(self, find: Callable[[], Path | None], skip: Callable[[int], int] = lambda size: 0) -> None:
        self._find = find
        self._path: Path | None = None
        self._file = (0, 0)
        self._offset = 0
        self._splitter = LineSplitter(MAX_LINE)
        self._begin(skip)

    @property
    def found(self) -> bool:
        return self._path is not None

    def read(self) -> list[bytes]:
        """Return the lines that were completed since the last look; call it again while there are any."""
        try:
            return self._read()
        except OSError:  # missing or unreadable: nothing new
            return []

    def _read(self) -> list[bytes]:
        self._path = self._path or self._find()
        if self._path is None:
            return []
        with self._path.open("rb") as file:
            told = os.fstat(file.fileno())
            if (told.st_dev, told.st_ino) != self._file or told.st_size < self._offset:
                self._file, self._offset = (told.st_dev, told.st_ino), 0
                self._splitter = LineSplitter(MAX_LINE)
            file.seek(self._offset)
            portion = file.read(PORTION)
        self._offset += len(portion)
        return [line.data for line in self._splitter.feed(portion) if not line.cut]

    def _begin(self, skip: Callable[[int], int]) -> None:
        try:
            self._path = self._find()
            if self._path is not None:
                told = self._path.stat()
                self._file, self._offset = (told.st_dev, told.st_ino), skip(told.st_size)
        except OSError:
            self._path = None


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


class _Note(Struct, frozen=True, rename="camel"):
    pid: int
    session_id: str
    proc_start: str = ""
    cwd: str = ""


_decode = msgspec.json.Decoder(_Note).decode


def refuse_other_use(environment: Mapping[str, str], brief: Brief, ours: Marker) -> None:
    """Refuse a session that another process has open. A wake is of our own process, whatever became of it; a session that
    is resumed at a point is only read."""
    if brief.wake or brief.resume is None or brief.resume_at:
        return
    if where := describe_other_use(environment, brief.resume.value, ours):
        raise EngineError(Failure("bad_request", IN_TERMINAL.format(where=where)))


def describe_other_use(environment: Mapping[str, str], session: str, ours: Marker) -> str:
    """Return who else has the session open, in words; empty if nobody has."""
    if not procfs_works():
        return ""  # our processes cannot be told from others
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
    """Return whether the note's process runs. Its pid alone may belong to another process by now."""
    found = read_process(note.pid)
    return found is not None and found.alive and note.proc_start in ("", str(found.id.started))
