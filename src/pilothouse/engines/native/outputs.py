"""The output cache: results of tools that are too long for the conversation, kept as files of the session.

Rules: a result longer than `SHOWN_BYTES` is cut at a whole line, and the model is told the reference by which it can read
or search the rest. A reference is the call's id, which is unique in the session. The oldest files go when the cache is full.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from pilothouse.engines.native.messages import Message, Replied, Result

SHOWN_BYTES = 50 * 1024
MAX_BYTES = 10 * 1024 * 1024
MAX_TOTAL_BYTES = 100 * 1024 * 1024
KEPT_CHARS = 200_000
SKILL = "skill_load"
TRIMMED = "[This output was left out to make room. Make the call again if you need it.]"

_REF = re.compile(r"[A-Za-z0-9_-]{1,100}")


class Outputs:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def shorten(self, ref: str, text: str) -> str:
        """Return the text, cut if it is too long; then all of it is kept under `ref`."""
        data = text.encode("utf-8", "replace")
        if len(data) <= SHOWN_BYTES:
            return text
        shown = data[:SHOWN_BYTES].rpartition(b"\n")[0] or data[:SHOWN_BYTES]
        kept = self._keep(ref, data[:MAX_BYTES])
        more = f"; ref={ref}" if kept else ""
        return f"{shown.decode('utf-8', 'ignore')}\n[tool output truncated, {len(data):,} bytes{more}]"

    def find(self, ref: str) -> Path | None:
        """Return the file of a kept output; None if there is none of this name."""
        path = self._path(ref)
        return path if path is not None and path.is_file() else None

    def lines(self, ref: str) -> Iterator[str] | None:
        path = self.find(ref)
        return None if path is None else iter(path.read_text("utf-8", "replace").splitlines())

    def _keep(self, ref: str, data: bytes) -> bool:
        path = self._path(ref)
        if path is None:
            return False
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._make_room(len(data))
            with open(path, "wb", opener=_private) as file:
                file.write(data)
        except OSError:
            return False
        return True

    def _make_room(self, wanted: int) -> None:
        found = sorted(
            (path.stat().st_mtime_ns, path.stat().st_size, path) for path in self._folder.iterdir()
        )
        room = MAX_TOTAL_BYTES - wanted - sum(size for _, size, _ in found)
        for _, size, path in found:
            if room >= 0:
                return
            path.unlink(missing_ok=True)
            room += size

    def _path(self, ref: str) -> Path | None:
        return self._folder / f"{ref}.txt" if _REF.fullmatch(ref) else None


def trim(messages: Sequence[Message]) -> list[Message]:
    """Return the messages without the oldest outputs, where all outputs together have more than `KEPT_CHARS`.

    A skill stays: it is loaded once only."""
    skills = {use.id for one in messages if isinstance(one, Replied) for use in one.uses if use.name == SKILL}
    kept: list[Message] = []
    room = KEPT_CHARS
    for message in reversed(messages):
        if isinstance(message, Result) and message.use_id not in skills:
            room -= len(message.text)
            is_short = room >= 0 or len(message.text) <= len(TRIMMED)
            kept.append(message if is_short else replace(message, text=TRIMMED))
        else:
            kept.append(message)
    return kept[::-1]


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
