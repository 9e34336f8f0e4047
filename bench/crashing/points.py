"""Counts the points at which the scenario may die, and dies at the one that was asked for."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Literal

Kind = Literal["commit", "before send", "after send", "ack", "clock"]
KINDS: tuple[Kind, ...] = ("commit", "before send", "after send", "ack", "clock")
"""`clock` is no point of the scenario: there it is killed from outside, wherever it stands."""


class Points:
    """`here` is called from the event loop and from the store's writer thread."""

    def __init__(self, kill_at: int | None, last_words: Path) -> None:
        self.passed: list[Kind] = []
        self._kill_at = kill_at
        self._last_words = last_words
        self._lock = threading.Lock()

    def here(self, kind: Kind) -> None:
        with self._lock:
            self.passed.append(kind)
            if len(self.passed) == self._kill_at:
                self._last_words.write_text(kind)
                os.kill(os.getpid(), signal.SIGKILL)
