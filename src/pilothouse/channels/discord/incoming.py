"""From the gateway to whoever takes: what could become work is on the disk before anything else happens to it.

Events are written down in batches, in the order in which they came, and dropped from there once they were taken. What a
crash left is fed in again before anything newer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import anyio
import msgspec
from msgspec import Struct

from pilothouse.channels.discord.wire import Event
from pilothouse.channels.journal import Journal
from pilothouse.core.errors import Fenced

REWRITE_AFTER = 1000
CLEAR_S = 2.0
AGAIN_S = 5.0
"""After a disk took nothing: what came since waits in memory, and Discord still has it."""

_decode = msgspec.json.Decoder(Event).decode


class Numbered(Struct, frozen=True):
    key: str
    event: Event
    is_work: bool = True


class Incoming:
    """`is_work` says whether an event could become work. `pass_on` gets each one once that is kept; whoever took it
    says `done` with its key. Before anything is dropped, `settle` must have returned. What is `urgent` is passed on also
    when the disk takes nothing: who pressed a button sees that it failed unless it is acknowledged at once."""

    def __init__(
        self,
        path: Path,
        log: Callable[..., None],
        *,
        is_work: Callable[[Event], Awaitable[bool]],
        pass_on: Callable[[Numbered], None],
        settle: Callable[[], Awaitable[None]],
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        urgent: bool = False,
    ) -> None:
        self._journal = Journal(path)
        self._sleep = sleep
        self._urgent = urgent
        self._log = log
        self._is_work = is_work
        self._settle = settle
        self._pass_on = pass_on
        self._waiting: deque[Event] = deque()
        self._pending: dict[str, bytes] = {}
        self._written = 0
        self._count = 0
        self._news = anyio.Event()

    def hear(self, event: Event) -> None:
        self._waiting.append(event)
        self._news.set()

    def feed(self, events: Iterable[Event]) -> None:
        self._waiting.extend(events)
        self._news.set()

    def done(self, key: str) -> None:
        if self._pending.pop(key, None) is not None and not self._pending:
            self._news.set()

    async def left_over(self) -> list[Numbered]:
        """What was kept and not taken when we last ended. It stays kept until it is."""
        found: list[Numbered] = []
        for line in await self._journal.read():
            try:
                found.append(self._number(_decode(line)))
                self._pending[found[-1].key] = line
            except msgspec.DecodeError as error:
                self._log("discord.journal_line_unreadable", level="warning", why=str(error))
        return found

    async def run(self) -> None:
        try:
            await self._run()
        finally:
            if not self._pending and not self._waiting:
                with anyio.move_on_after(CLEAR_S, shield=True):
                    await self._settle()
                    await self._journal.clear()

    async def _run(self) -> None:
        while True:
            self._news = anyio.Event()
            batch = [self._number(event, await self._could_be(event)) for event in self._drain()]
            if batch:
                await self._keep_surely(batch)
                for one in batch:
                    self._pass_on(one)
            elif not self._pending:
                await self._settle()
                await self._journal.clear()
                self._written = 0
                await self._news.wait()
            else:
                await self._news.wait()

    def _drain(self) -> Iterable[Event]:
        while self._waiting:
            yield self._waiting.popleft()

    async def _could_be(self, event: Event) -> bool:
        """While the store is locked everything could be, and so could what breaks us: it is looked at again when it is
        taken, and whoever takes it sets it aside."""
        try:
            return await self._is_work(event)
        except Fenced:
            raise
        except Exception:  # noqa: BLE001 - one event must not cost all others
            return True

    def _number(self, event: Event, is_work: bool = True) -> Numbered:
        self._count += 1
        return Numbered(f"{event.name}:{event.data.get('id', '')}:{self._count}", event, is_work)

    async def _keep_surely(self, batch: list[Numbered]) -> None:
        """A disk that is full is waited for: who gave up would connect anew, and Discord counts how often."""
        while True:
            try:
                return await self._keep(batch)
            except OSError as error:
                self._log("discord.journal_not_written", level="error", why=str(error))
                if self._urgent:
                    return None
                await self._sleep(AGAIN_S)

    async def _keep(self, batch: list[Numbered]) -> None:
        lines = {one.key: msgspec.json.encode(one.event) for one in batch if one.is_work}
        if not lines:
            return
        self._pending |= lines
        if self._written > REWRITE_AFTER:
            await self._settle()
            await self._journal.rewrite(*self._pending.values())
            self._written = len(self._pending)
        else:
            await self._journal.add(*lines.values())
            self._written += len(lines)
