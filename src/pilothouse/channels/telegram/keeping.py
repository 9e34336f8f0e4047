"""Updates that wait: on the disk, so that Telegram may be told that we have them (law 1).

Most are taken within milliseconds and never come here. What waits for a file, for its other pieces or for the store would
hold up every other chat, for an offset confirms all that came before it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import anyio

from pilothouse.channels.journal import Journal
from pilothouse.channels.telegram.wire import Arrived, NoUpdate, read_update

MOST = 10_000
"""What comes beyond waits at Telegram's, for a day at most."""
REWRITE_AFTER = 1000
NOT_KEPT = "What Telegram brings cannot be kept on this disk ({why}). It is brought again. Make room, or mend {folder}."


class Keeping:
    """`refused` is why the disk took nothing when it was last asked; empty if it did."""

    def __init__(self, folder: Path, log: Callable[..., None]) -> None:
        self._journal = Journal(folder / "updates.jsonl")
        self._log = log
        self._kept: dict[int, bytes] = {}
        self._written = 0
        self._lock = anyio.Lock()
        self.refused = ""

    def __contains__(self, number: int) -> bool:
        return number in self._kept

    async def read(self) -> list[Arrived | NoUpdate]:
        """What was kept and not taken when we last ended. It stays kept until it is."""
        async with self._lock:
            found = [read_update(raw) for raw in await self._journal.read()]
            self._kept = {one.update.update_id: one.raw for one in found if isinstance(one, Arrived)}
            self._written = len(found)
            if not self._kept:
                await self._clear()
        return found

    async def keep(self, raws: Mapping[int, bytes]) -> None:
        """Returns when they are on the disk, or cannot be: then Telegram keeps them."""
        async with self._lock:
            room = MOST - len(self._kept)
            lines = {number: raws[number] for number in sorted(raws)[: max(0, room)]}
            if not lines:
                return
            try:
                if self._written > REWRITE_AFTER + 2 * len(self._kept):
                    await self._journal.rewrite(*self._kept.values(), *lines.values())
                    self._written = len(self._kept)
                else:
                    await self._journal.add(*lines.values())
            except OSError as error:
                self._log("telegram.journal_not_written", level="error", why=str(error))
                self.refused = error.strerror or str(error)
                return
            self.refused = ""
            self._written += len(lines)
            self._kept |= lines

    async def drop(self, numbers: Sequence[int]) -> None:
        """They were taken."""
        if not any(number in self._kept for number in numbers):
            return
        async with self._lock:
            for number in numbers:
                self._kept.pop(number, None)
            if not self._kept:
                await self._clear()

    @property
    def trouble(self) -> str:
        """What a person should know of it, for as long as it is so."""
        return NOT_KEPT.format(why=self.refused, folder=self._journal.folder) if self.refused else ""

    async def _clear(self) -> None:
        self._written = 0
        try:
            await self._journal.clear()
        except OSError as error:
            # What stands there comes again after a restart, and is known then: a duplicate.
            self._log("telegram.journal_not_cleared", level="warning", why=str(error))
