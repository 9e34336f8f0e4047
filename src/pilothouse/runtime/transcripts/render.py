"""Transcripts as text: Markdown to read, and JSON lines to process. The two files of a session hold the same entries.

Each speaker has a heading with a time. What people wrote is quoted, and a line of an agent that looks like such a heading
is escaped, so no text can pose as another speaker.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from pilothouse.core.conversation import Session
from pilothouse.core.text import first_line
from pilothouse.core.transcript import Entry

SUFFIXES = (".md", ".jsonl")
NAME_CHARS = 48
SHORT_ID = 6
_encode = msgspec.json.Encoder().encode
_HEADING = re.compile(r"^(?=## \d{4}-\d\d-\d\d )", re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that would act on the terminal of somebody who reads the file."""
_APART = re.compile(r"[^\w]+")


def file_name(session: Session, entries: Sequence[Entry]) -> str:
    """Name the files by the day of the first entry, its first words and the session's id, without a suffix."""
    first = next((entry for entry in entries if entry.role == "person"), None)
    words = unicodedata.normalize("NFKC", first_line(first.text, NAME_CHARS) if first else "")
    slug = _APART.sub("-", words).strip("-_").lower()[:NAME_CHARS].rstrip("-_") or "session"
    day = _time(entries[0].at if entries else session.created_at)[:10]
    return f"{day}-{slug}-{session.id.rpartition('-')[2][:SHORT_ID]}"


def heading(session: Session) -> bytes:
    lines = [
        f"# Session {session.id}",
        "",
        f"Engine: {session.engine} · Workspace: {session.workspace}",
        "",
        "",
    ]
    return "\n".join(lines).encode()


def markdown(entries: Sequence[Entry], after: Entry | None = None) -> bytes:
    """Render entries that follow `after`. Entries of one speaker in a row share a heading."""
    parts: list[str] = []
    for entry in entries:
        if after is None or (entry.who, entry.role) != (after.who, after.role):
            parts.append(_head(entry) if _speaks(entry) else "")
        parts.append(_body(entry))
        after = entry
    return _CONTROL.sub("", "".join(parts)).encode()


def json_lines(entries: Sequence[Entry]) -> bytes:
    return b"".join(
        _encode({**msgspec.structs.asdict(entry), "time": _time(entry.at)}) + b"\n" for entry in entries
    )


def _speaks(entry: Entry) -> bool:
    return entry.role in ("person", "agent")


def _head(entry: Entry) -> str:
    return f"## {_time(entry.at)} · {first_line(entry.who)}\n\n"


def _body(entry: Entry) -> str:
    if entry.role == "person":
        return "".join(f"> {line}".rstrip() + "\n" for line in entry.text.splitlines()) + "\n"
    if entry.role == "agent":
        return _HEADING.sub(r"\\", entry.text) + "\n\n"
    marks = {"step": f"{entry.who}: ", "ask": "asked: ", "notice": ""}
    return f"- {marks[entry.role]}{first_line(entry.text, 400)}\n\n"


def _time(at: float) -> str:
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, ValueError, OSError):
        return "0000-00-00 00:00 UTC"
