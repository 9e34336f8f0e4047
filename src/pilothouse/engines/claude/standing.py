"""How a session stands, whichever process serves it: what was allowed for it, its model, its permission mode.

A process that is replaced takes these with it: Claude keeps the model of a session, but not its mode (2.1.325).
"""

from __future__ import annotations

from collections.abc import Callable

from pilothouse.engines.claude.gate import Gate

MAX_SESSIONS = 1000


class Standing:
    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.model: str | None = None
        """The one that was asked for last; None is Claude's own choice."""
        self.mode = ""
        """The permission mode that it was heard in last; empty while nobody knows."""


class Standings:
    """Those of the latest sessions."""

    def __init__(self, make: Callable[[str], Gate]) -> None:
        self._make = make
        self._known: dict[str, Standing] = {}

    def of(self, session: str, cwd: str) -> Standing:
        found = self._known.pop(session, None) or Standing(self._make(cwd))
        self.keep(session, found)
        return found

    def keep(self, session: str, standing: Standing) -> None:
        """Under this id from now on: `/clear` gives a session another."""
        self._known.pop(session, None)
        while len(self._known) >= MAX_SESSIONS:
            self._known.pop(next(iter(self._known)))
        self._known[session] = standing
