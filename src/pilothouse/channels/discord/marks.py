"""How far we have read each channel, which messages we took lately, and which servers we greeted: a file, so that a restart goes on from there.

It is written a moment after something changed. What that moment loses is read again, and known by its id.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec
from msgspec import Struct, field

MOST_CHANNELS = 10_000
MOST_TAKEN = 2000
WRITE_EVERY_S = 1.0


class _Kept(Struct):
    channels: dict[str, str] = field(default_factory=dict)
    direct: list[str] = field(default_factory=list)
    """Which of them are private chats: Discord lists channels, but never these."""
    taken: list[str] = field(default_factory=list)
    threads: dict[str, Hung] = field(default_factory=dict)
    """Those of the channels that are threads: Discord lists none that is archived."""
    here: dict[str, str] = field(default_factory=dict)
    """When we last came to each server, as a message's number; a little before, for whoever's clock is ahead."""
    away: dict[str, str] = field(default_factory=dict)
    """Servers in which we look yet for what was missed, and since when we were away, as a message's number."""
    stays: dict[str, str] = field(default_factory=dict)
    """Servers that were greeted, and since when we are there: another time is another stay."""
    since: float = 0.0
    """When we first ran here."""


class Hung(Struct, frozen=True, array_like=True):
    """Where a thread hangs."""

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
        self._away = kept.away
        self._stays = kept.stays
        self._since = kept.since
        self._dirty = anyio.Event()
        self._urgent = anyio.Event()
        """A channel is new: whoever does not know it cannot look there for what was missed."""
        self._lock = anyio.Lock()

    def get(self, channel: str) -> str | None:
        return self._channels.get(channel)

    def copy(self) -> dict[str, str]:
        return dict(self._channels)

    @property
    def direct(self) -> tuple[str, ...]:
        return tuple(id for id in self._direct if id in self._channels)

    def threads(self, guild: str) -> dict[str, str]:
        """Thread → the channel that it hangs on, of one server; the one that was read last comes first."""
        found = {id: hung.parent for id, hung in self._threads.items() if hung.guild == guild}
        return {id: found[id] for id in reversed(self._channels) if id in found}

    def come(self, guild: str, newest: str, now: str) -> str | None:
        """We are in a server, and `newest` is the last that we heard there before: since when we were away, if we ever were
        there. In a quiet server that says little: when we last came says more.

        It stays so until we are `back`: who is killed while looking for what was missed looks for it again, although some of
        it was read by then."""
        last = self._here.pop(guild, None)
        self._here[guild] = now
        _shorten(self._here, MOST_CHANNELS)
        self._dirty.set()
        if last is None:
            return None
        since = max(newest, min(last, now, key=int), key=int)
        self._away[guild] = since = min(self._away.get(guild, since), since, key=int)
        return since

    def back(self, guild: str) -> None:
        if self._away.pop(guild, None) is not None:
            self._dirty.set()

    def first_used(self, now: float) -> float:
        """When somebody first ran us here; now, if nobody did before."""
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
        """Everything in this channel up to here was looked at."""
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
        """Whether it is new to us."""
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
        """Writes what changed, until it is cancelled; then once more."""
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
        """Returns when every channel that we heard of is on the disk."""
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
        places = (self._channels, direct, taken, self._threads)
        return msgspec.json.encode(_Kept(*places, self._here, self._away, self._stays, self._since))

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
