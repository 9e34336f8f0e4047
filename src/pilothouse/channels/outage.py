"""Counts the failures of a connection until it works again: how long to pause, and what to report. Shared by every channel.

The first failures are quiet, because networks blink. A lasting outage raises one alarm of each kind until it ends.
"""

from __future__ import annotations

from collections.abc import Callable

from pilothouse.core.clock import Clock

FIRST_S = 1.0
LONGEST_S = 60.0
LOUD_S = 60.0
"""An outage that lasts this long is reported."""


def pause_s(in_a_row: int, longest_s: float = LONGEST_S, first_s: float = FIRST_S) -> float:
    """Return the pause after a number of failures in a row. It doubles with each."""
    return min(first_s * 2 ** min(in_a_row - 1, 10), longest_s)


class Outage:
    """One outage after the other. `in_a_row` counts failures; `trouble` is the last alarm, empty while all is well."""

    def __init__(self, clock: Clock, alarm: Callable[[str], None]) -> None:
        self._clock = clock
        self._alarm = alarm
        self._since: float | None = None
        self._told: set[str] = set()
        self.in_a_row = 0
        self.trouble = ""

    @property
    def lasted_s(self) -> float:
        return 0.0 if self._since is None else self._clock.monotonic() - self._since

    def fail(self) -> int:
        """Count a failure; return how many there were in a row."""
        self.begin()
        self.in_a_row += 1
        return self.in_a_row

    def begin(self, since: float | None = None) -> None:
        """Begin an outage, unless one has begun. `since` is when, if not now."""
        if self._since is None:
            self._since = self._clock.monotonic() if since is None else since

    def begin_anew(self) -> None:
        """Measure the outage from now on: the connection worked for a moment. The count and the alarms stay."""
        self._since = self._clock.monotonic()

    def tell(self, kind: str, text: str) -> None:
        """Raise an alarm, once for each kind."""
        if kind not in self._told:
            self._told.add(kind)
            self.trouble = text
            self._alarm(text)

    def end(self) -> float | None:
        """End the outage; return how long it lasted, or None if there was none."""
        lasted_s = None if self._since is None else self.lasted_s
        self._since, self.in_a_row, self.trouble = None, 0, ""
        self._told.clear()
        return lasted_s
