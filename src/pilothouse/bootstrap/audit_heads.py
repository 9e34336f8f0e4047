"""The heads of the audit log, kept in a file outside the store: one line each, appended, never rewritten.

Rewriting the log with new hashes requires rewriting this file too. Copies of its lines on another machine prevent that.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from pilothouse.core.audit import AuditHead
from pilothouse.core.errors import ConfigError

LONGEST_LINE = 200


def heads_file(state_dir: Path, store: str) -> Path:
    """Returns the file of one store, by the store's name."""
    return state_dir / f"audit-heads-{store}.txt"


def note_head(file: Path, head: AuditHead, at: float) -> None:
    """Appends a head, unless it is the last line already: every chat that opens notes one."""
    if _last(file) == head:
        return
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    when = datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "a", encoding="utf-8") as out:
        out.write(f"{when} {render_head(head)}\n")


def _last(file: Path) -> AuditHead | None:
    try:
        with file.open("rb") as lines:
            lines.seek(max(0, file.stat().st_size - LONGEST_LINE))
            return parse_head(lines.read().decode("utf-8", "replace").split()[-1])
    except (OSError, IndexError, ConfigError):
        return None


def render_head(head: AuditHead) -> str:
    return f"{head.seq}:{head.hash}"


def parse_head(text: str) -> AuditHead:
    """Raises `ConfigError` for anything but `NUMBER:HASH`."""
    seq, _, digest = text.strip().partition(":")
    if not (seq.isdecimal() and seq.isascii() and len(digest) in (0, 64) and bool(digest) == (seq != "0")):
        raise ConfigError(
            f"{text!r} is not a head of an audit log. Write NUMBER:HASH, as `audit verify` prints it."
        )
    return AuditHead(int(seq), digest)


def read_heads(file: Path) -> list[AuditHead]:
    """Skips a last line without a newline: a crash cut it short."""
    try:
        text = file.read_text("utf-8")
    except FileNotFoundError:
        return []
    except (OSError, UnicodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}. Name a good copy with --heads.") from error
    lines = text.splitlines(keepends=True)
    return [parse_head(line.split()[-1]) for line in lines if line.endswith("\n") and line.strip()]
