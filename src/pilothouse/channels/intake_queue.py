"""Takes what a platform delivered, each item for good, and keeps on disk what the platform will not deliver again. Shared by every channel.

`IntakeQueue` works in order within a place and side by side across places. An item that waits for the store or for the
platform is retried, and delays its own place only. One that fails otherwise is set aside (`Failures`), or it would fail
for ever: it is in a file, in the log, and reported to its sender.

`Journal` is a file of updates. An update is on disk before it is confirmed. A torn last line was never confirmed, so it
comes again; what is added after it starts on a new line.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import TaskGroup
from msgspec import Struct

from pilothouse.channels.skeleton import pause_s
from pilothouse.core.clock import Clock
from pilothouse.core.errors import Fenced, StoreUnavailable

RETRY_S = 30.0
Job = Callable[[], Awaitable[None]]
Broke = Callable[[Exception], Awaitable[None]]


SORRY = (
    "This {what} could not be taken, because of an internal error. It is stored, and the log has the details."
)
NOT_TAKEN = "That was not taken, because of an internal error; the log has the details. Please try again."
"""For a pressed button: the person waits for it now, stored or not."""
TROUBLE = (
    "{count} of the messages received could not be taken, because of an internal error. They are stored in {path}; the log "
    "has the reason ({noun}_failed). Remove the file when you have looked at it."
)


class Item(Struct, frozen=True):
    """One delivery. `done` is called at the end, after `take` or `broke`; `names` identify the item in the log.

    An item that `overtakes` does not wait behind one that is only slow."""

    take: Job
    broke: Broke
    done: Job
    names: Mapping[str, object]
    overtakes: bool = False


class IntakeQueue:
    """The queue of one run of a receiver; its work ends with the task group. Every place with an item works at once.

    `noun` names an item in the log, with its channel: `telegram.update`. `passing` errors are retried like those of the
    store."""

    def __init__(
        self, noun: str, clock: Clock, log: Callable[..., None], *, passing: tuple[type[Exception], ...] = ()
    ) -> None:
        self._noun = noun
        self._clock = clock
        self._log = log
        self._passing: tuple[type[Exception], ...] = (StoreUnavailable, *passing)
        self._waiting: dict[object, deque[Item]] = {}
        self._slow: Counter[object] = Counter()

    def put(self, tasks: TaskGroup, place: object, item: Item) -> None:
        if item.overtakes and self._slow[place]:
            place = ("overtaking", place)
        if place in self._waiting:
            self._waiting[place].append(item)
        else:
            self._waiting[place] = deque([item])
            tasks.start_soon(self._work, place)

    @contextmanager
    def slow(self, tasks: TaskGroup, place: object) -> Iterator[None]:
        """Let items overtake meanwhile: the first one of the place waits for a file."""
        self._slow[place] += 1
        for item in [item for item in self._waiting.get(place, ()) if item.overtakes]:
            self._waiting[place].remove(item)
            self.put(tasks, place, item)
        try:
            yield
        finally:
            self._slow[place] -= 1
            if not self._slow[place]:
                del self._slow[place]

    async def _work(self, place: object) -> None:
        waiting = self._waiting[place]
        while waiting:
            item = waiting.popleft()
            await self._take_surely(item)
            await item.done()
        del self._waiting[place]

    async def _take_surely(self, item: Item) -> None:
        in_a_row = 0
        while True:
            in_a_row += 1
            try:
                return await item.take()
            except self._passing as error:
                self._log(f"{self._noun}_waits", why=str(error), **item.names)
                await self._clock.sleep(pause_s(in_a_row, RETRY_S))
            except Fenced:
                raise
            except Exception as error:  # noqa: BLE001 - one item must not cost all others
                return await item.broke(error)


class Journal:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept = path.exists()

    @property
    def folder(self) -> Path:
        return self._path.parent

    async def add(self, *raw: bytes) -> None:
        """Returns when all of it is on the disk."""
        lines = b"".join(msgspec.json.format(one, indent=-1) + b"\n" for one in raw)
        await anyio.to_thread.run_sync(self._add, lines)
        self._kept = True

    async def read(self) -> list[bytes]:
        if not self._kept:
            return []
        data = await anyio.to_thread.run_sync(self._path.read_bytes)
        whole, _, _ = data.rpartition(b"\n")
        return [line for line in whole.split(b"\n") if line]

    async def clear(self) -> None:
        """Removes the file, once everything in it was taken."""
        if self._kept:
            self._kept = False
            await anyio.to_thread.run_sync(lambda: self._path.unlink(missing_ok=True))

    async def rewrite(self, *raw: bytes) -> None:
        """Replaces the content."""
        lines = b"".join(msgspec.json.format(one, indent=-1) + b"\n" for one in raw)
        await anyio.to_thread.run_sync(self._rewrite, lines)
        self._kept = True

    def _rewrite(self, lines: bytes) -> None:
        fresh = self._path.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        Journal(fresh)._add(lines)
        fresh.replace(self._path)

    def _add(self, lines: bytes) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            _append(descriptor, lines)
        finally:
            os.close(descriptor)


def _append(descriptor: int, lines: bytes) -> None:
    """Writes everything or nothing: half a line would spoil the next one."""
    size = os.fstat(descriptor).st_size
    torn = size and os.pread(descriptor, 1, size - 1) != b"\n"
    rest = memoryview(b"\n" + lines if torn else lines)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    except OSError:
        with suppress(OSError):
            os.ftruncate(descriptor, size)
        raise


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
        for in_a_row in count(1):
            try:
                await self._keep(raw)
                break
            except OSError as refused:
                why = f"{type(error).__name__}: {error}; {refused}"
                self._log(f"{self._noun}_waits", level="error", why=why, **names)
                await self._clock.sleep(pause_s(in_a_row, RETRY_S))
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
