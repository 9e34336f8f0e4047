"""Updates whose handling raised an error: stored in a file, logged, and reported to the sender.

Shared by every channel whose platform delivers an update once: it is not lost, and does not block the ones after it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio

from pilothouse.channels.journal import Journal
from pilothouse.core.clock import Clock
from pilothouse.core.errors import Fenced

RETRY_S = 30.0
SORRY = (
    "This {what} could not be taken, because of an internal error. It is stored, and the log has the details."
)
NOT_TAKEN = "That was not taken, because of an internal error; the log has the details. Please try again."
"""For a pressed button: the person waits for it now, stored or not."""
TROUBLE = (
    "{count} of the messages received could not be taken, because of an internal error. They are stored in {path}; the log "
    "has the reason ({noun}_failed). Remove the file when you have looked at it."
)


class Failures:
    """`noun` names one of them in the log, with its channel: `telegram.update`."""

    def __init__(self, path: Path, noun: str, clock: Clock, log: Callable[..., None]) -> None:
        self._path = path
        self._noun = noun
        self._clock = clock
        self._log = log
        self._count: int | None = None
        self._lock = anyio.Lock()

    async def set_aside(
        self, *raw: bytes, error: Exception, apologise: Callable[[], Awaitable[None]], **names: object
    ) -> None:
        """Returns once it is in the file; retries while the disk refuses. `names` are logged, to identify it."""
        pause_s = 1.0
        while True:
            try:
                await self._keep(raw)
                break
            except OSError as refused:
                why = f"{type(error).__name__}: {error}; {refused}"
                self._log(f"{self._noun}_waits", level="error", why=why, **names)
                await self._clock.sleep(pause_s)
                pause_s = min(pause_s * 2, RETRY_S)
        self._log(f"{self._noun}_failed", level="error", error=error, kept_in=str(self._path), **names)
        try:
            await apologise()
        except Fenced:
            raise
        except Exception as again:  # noqa: BLE001 - the same fault may break this too
            channel, _, _ = self._noun.partition(".")
            self._log(f"{channel}.not_told", level="warning", why=f"{type(again).__name__}: {again}")

    async def _keep(self, raw: tuple[bytes, ...]) -> None:
        async with self._lock:
            await Journal(self._path).add(*raw)
            self._count = None

    @property
    def trouble(self) -> str:
        """Describes the failures while the file exists."""
        if not self._path.exists():
            self._count = None
            return ""
        try:
            self._count = self._count or self._path.read_bytes().count(b"\n")
        except OSError:  # it was just removed
            return ""
        return TROUBLE.format(count=self._count, path=self._path, noun=self._noun)
