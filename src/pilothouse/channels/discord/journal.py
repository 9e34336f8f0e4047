"""Keeps events and read marks on disk.

An event that could become work is written before anything else happens to it, in batches and in order, and dropped once it
was taken; after a crash the rest is fed in again. `Marks` says how far each channel was read, which messages were taken
lately and which servers were greeted; it is written a moment after a change, and what that moment loses is read again.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec
from msgspec import Struct, field

from pilothouse.channels.discord.wire import Event
from pilothouse.channels.intake_queue import Journal
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
    """Keeps events until they are taken.

    `is_work` says whether an event could become work. `pass_on` gets each event once it is kept; `done` is called with its
    key once it was taken. `settle` must return before anything is dropped. `urgent` events are passed on even if the disk
    is full, since Discord shows a press as failed unless it is acknowledged at once."""

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
        """Return the events that were not taken when we last ended; they stay in the file until they are."""
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
        """Keep an event that cannot be judged now: it is judged again when it is taken."""
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
        """Wait for a full disk: giving up would begin a new session, and Discord counts those."""
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


MOST_CHANNELS = 10_000
MOST_TAKEN = 2000
WRITE_EVERY_S = 1.0


class _Kept(Struct):
    channels: dict[str, str] = field(default_factory=dict)
    direct: list[str] = field(default_factory=list)
    """The channels that are private chats: Discord never lists those."""
    taken: list[str] = field(default_factory=list)
    threads: dict[str, Hung] = field(default_factory=dict)
    """The channels that are threads: Discord does not list archived ones."""
    here: dict[str, str] = field(default_factory=dict)
    """The last arrival in each server, as a message id, a little early in case our clock is ahead."""
    stays: dict[str, str] = field(default_factory=dict)
    """Servers that were greeted, and since when we are there: another time is another stay."""
    since: float = 0.0
    """The time of our first run."""


class Hung(Struct, frozen=True, array_like=True):
    """The server and the channel of a thread."""

    guild: str
    parent: str


class Marks:
    def __init__(self, path: Path, log: Callable[..., None]) -> None:
        self._path = path
        self._log = log
        kept = self._read()
        self._channels = kept.channels
        self._direct = dict.fromkeys(kept.direct)
        self._taken = dict.fromkeys(kept.taken)
        self._threads = kept.threads
        self._here = kept.here
        self._stays = kept.stays
        self._since = kept.since
        self._dirty = anyio.Event()
        self._urgent = anyio.Event()
        """Set when a channel is new: without its mark on disk nothing would be read there later."""
        self._lock = anyio.Lock()

    def get(self, channel: str) -> str | None:
        return self._channels.get(channel)

    @property
    def direct(self) -> tuple[str, ...]:
        return tuple(id for id in self._direct if id in self._channels)

    def threads(self, guild: str) -> dict[str, str]:
        """Thread → the channel that it hangs on, of one server; the one that was read last comes first."""
        found = {id: hung.parent for id, hung in self._threads.items() if hung.guild == guild}
        return {id: found[id] for id in reversed(self._channels) if id in found}

    def arrive(self, guild: str, now: str) -> str | None:
        """Note that we are in a server now; return when we last arrived there. Both are message ids."""
        before = self._here.pop(guild, None)
        self._here[guild] = now
        _shorten(self._here, MOST_CHANNELS)
        self._dirty.set()
        return before if before is None else min(before, now, key=int)

    def first_used(self, now: float) -> float:
        """The time of our first run, which is now if there was none."""
        if not self._since:
            self._since = now
            self._dirty.set()
        return self._since

    def stay(self, guild: str) -> str | None:
        return self._stays.get(guild)

    def note_stay(self, guild: str, joined_at: str) -> None:
        self._stays.pop(guild, None)
        self._stays[guild] = joined_at
        _shorten(self._stays, MOST_CHANNELS)
        self._dirty.set()

    def read_to(self, channel: str, message: str, *, direct: bool = False, hung: Hung | None = None) -> None:
        """Move the mark of a channel forward to a message."""
        before = self._channels.pop(channel, "")
        self._channels[channel] = max(before or "0", message, key=int)
        if not before:
            self._urgent.set()
        if direct:
            self._direct[channel] = None
        if hung is not None:
            self._threads.pop(channel, None)
            self._threads[channel] = hung
        for kept in (self._channels, self._direct, self._threads):
            _shorten(kept, MOST_CHANNELS)
        self._dirty.set()

    def take(self, message: str) -> bool:
        """Note a message as taken; return whether it is new."""
        if message in self._taken:
            return False
        self._taken[message] = None
        _shorten(self._taken, MOST_TAKEN)
        self._dirty.set()
        return True

    def is_taken(self, message: str) -> bool:
        return message in self._taken

    def forget(self, channel: str) -> None:
        self._channels.pop(channel, None)
        self._direct.pop(channel, None)
        self._threads.pop(channel, None)
        self._dirty.set()

    async def keep(self) -> None:
        """Write changes until cancelled, then once more."""
        try:
            while True:
                await self._dirty.wait()
                await self._save()
                with anyio.move_on_after(WRITE_EVERY_S):
                    await self._urgent.wait()
        finally:
            if self._dirty.is_set():
                self._write(self._encoded())

    async def settle(self) -> None:
        """Wait until every known channel is on disk."""
        while self._urgent.is_set():
            await self._save()

    async def _save(self) -> None:
        async with self._lock:
            dirty, urgent = self._dirty, self._urgent
            self._dirty, self._urgent = anyio.Event(), anyio.Event()
            try:
                await anyio.to_thread.run_sync(self._write, self._encoded())
            except BaseException:
                self._dirty, self._urgent = dirty, urgent
                raise

    def _encoded(self) -> bytes:
        direct, taken = list(self._direct), list(self._taken)
        kept = _Kept(self._channels, direct, taken, self._threads, self._here, self._stays, self._since)
        return msgspec.json.encode(kept)

    def _write(self, data: bytes) -> None:
        fresh = self._path.with_suffix(".new")
        try:
            fresh.parent.mkdir(parents=True, exist_ok=True)
            with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            fresh.replace(self._path)
        except OSError as error:
            self._log("discord.marks_not_kept", level="warning", why=str(error))

    def _read(self) -> _Kept:
        try:
            kept = msgspec.json.decode(self._path.read_bytes(), type=_Kept)
        except FileNotFoundError:
            return _Kept()
        except (OSError, msgspec.DecodeError) as error:
            self._log("discord.marks_unreadable", level="warning", why=str(error))
            return _Kept()
        kept.channels = {id: mark for id, mark in kept.channels.items() if mark.isdecimal()}
        return kept


def _shorten(kept: dict[str, Any], most: int) -> None:
    while len(kept) > most:
        del kept[next(iter(kept))]
