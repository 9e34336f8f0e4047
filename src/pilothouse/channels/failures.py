"""What broke us: kept in a file, named in the log, and told to whoever sent it. Shared by every channel whose platform
does not bring it again. So it costs no other, is not lost, and breaks us once and not for ever.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio

from pilothouse.channels.journal import Journal
from pilothouse.core.clock import Clock
from pilothouse.core.errors import Fenced

RETRY_S = 30.0
SORRY = "This {what} could not be taken, because of an error of mine. It is kept, and whoever runs me finds it in the log."
NOT_TAKEN = "That was not taken, because of an error of mine, which is in my log. Please try it again."
"""To whoever pressed something: whether or not that is kept, they wait for it now."""
TROUBLE = (
    "{count} of the messages that came could not be taken, because of an error of ours. They are kept in {path}; the log tells "
    "why ({noun}_failed). Remove the file when you have looked at it."
)


class Failures:
    """`noun` is what the log calls one of them, behind its channel's name: `telegram.update`."""

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
        """Returns once it stands in the file: a disk that takes nothing is waited for. `names` tell which it is."""
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
        except Exception as again:  # noqa: BLE001 - what broke us once may break this, too
            channel, _, _ = self._noun.partition(".")
            self._log(f"{channel}.not_told", level="warning", why=f"{type(again).__name__}: {again}")

    async def _keep(self, raw: tuple[bytes, ...]) -> None:
        async with self._lock:
            await Journal(self._path).add(*raw)
            self._count = None

    @property
    def trouble(self) -> str:
        """What a person should know of it, for as long as the file is there."""
        if not self._path.exists():
            self._count = None
            return ""
        try:
            self._count = self._count or self._path.read_bytes().count(b"\n")
        except OSError:  # it is being taken away just now
            return ""
        return TROUBLE.format(count=self._count, path=self._path, noun=self._noun)
