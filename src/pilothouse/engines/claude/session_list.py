"""Sessions in Claude's own logs: those of a folder, and the turns of one. Read-only, for lists.

A log names the entry before each entry, and several branches may stand in one file: only the branch that ends with the last
message counts, which is the one that Claude resumes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from pilothouse.core.engine import FoundSession, SessionPoint
from pilothouse.core.event import ResumeToken
from pilothouse.engines.claude.config import ENGINE_ID
from pilothouse.engines.claude.session_log import NAME_CHARS, SUFFIX, find_log, folder_name, projects_folder
from pilothouse.engines.claude.session_watch import INTERRUPTED, MACHINE_WORDS
from pilothouse.engines.resume_lines import is_uuid

MOST_SESSIONS = 20
HEAD_BYTES = 1024 * 1024
"""The first prompt stands near the beginning of a log."""
MAX_BYTES = 256 * 1024 * 1024
TITLE_CHARS = 500


class _Entry(Struct, frozen=True, rename="camel"):
    type: str = ""
    uuid: Any = None
    parent_uuid: Any = None
    is_sidechain: Any = False
    is_meta: Any = False
    is_compact_summary: Any = False
    cwd: Any = ""
    timestamp: Any = ""
    message: Any = None


_decode = msgspec.json.Decoder(_Entry).decode


def list_sessions(environment: Mapping[str, str], workspace: str) -> list[FoundSession]:
    """Return the sessions that Claude had in a folder, last used first."""
    found = [_session(path, workspace) for path in _logs(environment, workspace)[:MOST_SESSIONS]]
    return [session for session in found if session is not None]


def list_points(environment: Mapping[str, str], token: ResumeToken) -> list[SessionPoint]:
    """Return the turns of a session, oldest first. The id is that of the turn's last message."""
    log = find_log(projects_folder(environment), token.value, token.cwd)
    entries = [] if log is None else [entry for entry in _read(log, MAX_BYTES) if _is_message(entry)]
    points: list[SessionPoint] = []
    for entry in _branch(entries):
        if title := _prompt(entry):
            points.append(SessionPoint(str(entry.uuid), title, _seconds(entry.timestamp)))
        elif points:
            points[-1] = msgspec.structs.replace(points[-1], id=str(entry.uuid))
    return points


def _logs(environment: Mapping[str, str], workspace: str) -> list[Path]:
    name = folder_name(workspace)
    folder = name if len(name) <= NAME_CHARS else f"{name[:NAME_CHARS]}-*"
    paths = projects_folder(environment).glob(f"{folder}/*{SUFFIX}")
    changed = [(_changed_at(path), path) for path in paths if is_uuid(path.stem)]
    return [path for at, path in sorted(changed, reverse=True) if at]


def _session(path: Path, workspace: str) -> FoundSession | None:
    """Read a log's beginning; None if it has no prompt, or is another folder's: two may share a name."""
    for entry in _read(path, HEAD_BYTES):
        if (title := _prompt(entry)) and isinstance(entry.cwd, str):
            if os.path.realpath(entry.cwd) != os.path.realpath(workspace):
                return None
            return FoundSession(ResumeToken(ENGINE_ID, path.stem, entry.cwd), title, _changed_at(path))
    return None


def _read(path: Path, limit: int) -> Iterator[_Entry]:
    try:
        with path.open("rb") as file:
            while file.tell() < limit and (line := file.readline(limit)):
                try:
                    yield _decode(line)
                except (msgspec.MsgspecError, UnicodeError, RecursionError):
                    continue
    except OSError:
        return


def _is_message(entry: _Entry) -> bool:
    return isinstance(entry.uuid, str) and entry.is_sidechain is not True


def _branch(entries: list[_Entry]) -> list[_Entry]:
    """Return the people's and the model's messages of the branch that ends with the last of them, oldest first."""
    known = {entry.uuid: entry for entry in entries}
    at = next((entry for entry in reversed(entries) if entry.type in ("user", "assistant")), None)
    branch: dict[str, _Entry] = {}
    while at is not None and at.uuid not in branch:
        branch[at.uuid] = at
        at = known.get(at.parent_uuid)
    return [entry for entry in reversed(branch.values()) if entry.type in ("user", "assistant")]


def _prompt(entry: _Entry) -> str:
    """Return what a person said; empty for results of tools and for what Claude Code writes itself."""
    if entry.type != "user" or True in (entry.is_sidechain, entry.is_meta, entry.is_compact_summary):
        return ""
    content = entry.message.get("content") if isinstance(entry.message, dict) else None
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    said = [one.get("text") for one in blocks if isinstance(one, dict) and one.get("type") == "text"]
    text = "\n".join(one for one in said if isinstance(one, str)).strip()
    return "" if text.startswith((INTERRUPTED, *MACHINE_WORDS)) else text[:TITLE_CHARS]


def _seconds(moment: object) -> float:
    try:
        return datetime.fromisoformat(str(moment)).timestamp()
    except ValueError:
        return 0.0


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
