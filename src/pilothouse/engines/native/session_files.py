"""The sessions that the native engine keeps: listed by folder, their turns, and a copy up to the end of one turn."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from pilothouse.core.engine import FoundSession, SessionPoint
from pilothouse.core.errors import EngineError
from pilothouse.core.event import ResumeToken
from pilothouse.core.ids import EngineId
from pilothouse.core.outcome import Failure
from pilothouse.engines.native.history import FILE, MAX_BYTES, Begun, Ended, Record, decode_record
from pilothouse.engines.native.messages import Said
from pilothouse.engines.resume_lines import is_uuid
from pilothouse.engines.titles import one_line

MOST_SESSIONS = 100
HEAD_BYTES = 256 * 1024


def list_sessions(root: Path, engine: EngineId, workspace: str) -> list[FoundSession]:
    """Return the sessions of a folder, last used first. What cannot be read is left out."""
    real = os.path.realpath(workspace)
    folders = [path for path in root.iterdir() if is_uuid(path.name)] if root.is_dir() else []
    dated: list[tuple[float, Path]] = []
    for folder in folders:
        with suppress(OSError):
            dated.append(((folder / FILE).stat().st_mtime, folder))
    found: list[FoundSession] = []
    for used_at, folder in sorted(dated, reverse=True):
        begun, title = _head(folder)
        if begun is not None and os.path.realpath(begun.workspace) == real:
            found.append(FoundSession(ResumeToken(engine, folder.name, begun.workspace), title, used_at))
        if len(found) >= MOST_SESSIONS:
            break
    return found


def _head(folder: Path) -> tuple[Begun | None, str]:
    """Return how a session began, and its first words."""
    begun, title = None, ""
    for record in _records(folder, HEAD_BYTES):
        if isinstance(record, Begun):
            begun = record
        if isinstance(record, Said) and record.of_person:
            title = one_line(record.text)
            break
    return begun, title


def list_points(folder: Path) -> Sequence[SessionPoint]:
    """Return the ends of the turns of a session, oldest first."""
    points: list[SessionPoint] = []
    title = ""
    for record in _records(folder, MAX_BYTES):
        if isinstance(record, Said) and record.of_person:
            title = one_line(record.text)
        if isinstance(record, Ended):
            points.append(SessionPoint(str(len(points) + 1), title, record.at))
    return points


def fork_session(root: Path, name: str, point: str) -> str:
    """Copy a session up to the end of a turn, and return the copy's name. Raises `EngineError`."""
    source, copy = root / name, str(uuid.uuid4())
    try:
        lines = _lines_until(source / FILE, point)
        new = root / copy
        new.mkdir(mode=0o700, parents=True)
        for part in ("images", "outputs"):
            if (source / part).is_dir():
                shutil.copytree(source / part, new / part)
        with open(new / FILE, "wb", opener=_private) as file:
            file.write(b"".join(lines))
    except OSError as error:
        text = f"The session {name} cannot be copied: {error.strerror}. Start a new session."
        raise EngineError(Failure("stale_session", text)) from error
    return copy


def _lines_until(path: Path, point: str) -> list[bytes]:
    lines: list[bytes] = []
    ended = 0
    for line in path.read_bytes().splitlines(keepends=True):
        record = decode_record(line)
        lines.append(line)
        ended += isinstance(record, Ended)
        if isinstance(record, Ended) and str(ended) == point:
            return lines
    raise EngineError(Failure("bad_request", f"{point[:80]!r} is no turn of this session."))


def _records(folder: Path, most: int) -> Iterator[Record]:
    with suppress(OSError), (folder / FILE).open("rb") as file:
        for line in file.read(most).split(b"\n"):
            if (record := decode_record(line)) is not None:
                yield record


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
