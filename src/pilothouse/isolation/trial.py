"""Remembers whether jails or containers can be made here: a success for good, a failure for a minute, since a person may mend it.

A trial starts a program that may hang, so `known` never waits for one: the threads of the store and of the gateway use that.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

AGAIN_S = 60.0
"""A failure counts so long."""


class Result(Protocol):
    @property
    def problem(self) -> str: ...


R = TypeVar("R", bound=Result)


class Trial(Generic[R]):
    def __init__(self, attempt: Callable[[], R], now: Callable[[], float] = time.monotonic) -> None:
        self._attempt = attempt
        self._now = now
        self._lock = threading.Lock()
        self._found: R | None = None
        self._until = 0.0

    def find(self) -> R:
        """Return the result, after a trial where none is known or the last one failed long ago. Blocks."""
        with self._lock:
            if self._found is None or self._now() >= self._until:
                found = self._attempt()
                self._until = self._now() + AGAIN_S if found.problem else math.inf
                self._found = found
            return self._found

    def known(self) -> R | None:
        """Return the last result at once; None before the first. Where `find` would try, a thread does."""
        if (self._found is None or self._now() >= self._until) and not self._lock.locked():
            threading.Thread(target=self.find, daemon=True).start()
        return self._found
