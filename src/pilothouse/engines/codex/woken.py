"""Turns of our threads that others began: another client of the app-server, or the gateway before a crash.

A thread is known by the session that it was opened for. The file of these pairs lets the next gateway tell whose turn it
finds running.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import msgspec

OTHER_CLIENT = "other_client"
RESTART = "restart"
REASONS = {
    OTHER_CLIENT: "Somebody wrote in another Codex window.",
    RESTART: "Codex went on while Pilothouse was away.",
}
MAX_PAIRS = 200


class SessionPairs:
    """The session of each thread, last used last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pairs: dict[str, str] | None = None

    def read(self) -> dict[str, str]:
        if self._pairs is None:
            try:
                self._pairs = msgspec.json.decode(self._path.read_bytes(), type=dict[str, str])
            except (OSError, msgspec.MsgspecError):
                self._pairs = {}
        return self._pairs

    def keep(self, thread: str, session: str) -> None:
        """Keep a pair. A file that cannot be written costs nothing but the pair after a restart."""
        pairs = self.read()
        if pairs.get(thread) == session:
            return
        pairs[thread] = session
        for old in list(pairs)[:-MAX_PAIRS]:
            del pairs[old]
        with suppress(OSError):
            new = self._path.with_suffix(".new")
            new.write_bytes(msgspec.json.encode(pairs))
            new.replace(self._path)
