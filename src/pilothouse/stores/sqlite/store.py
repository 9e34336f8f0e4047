"""The store on the event loop: queues units for the threads and returns their outcomes.

The threads belong to the store and the store to an `async with`: leaving it ends them, after everything queued has been
committed or has failed.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, TypeVar

import anyio
import anyio.to_thread

from pilothouse.core.errors import ConfigError, StoreError
from pilothouse.core.ids import Epoch
from pilothouse.core.store import Store, Tx
from pilothouse.stores.sqlite.blobs import BlobFiles
from pilothouse.stores.sqlite.errors import translate, unusable
from pilothouse.stores.sqlite.hints import Changes, CommitSignal, Hints
from pilothouse.stores.sqlite.link import connect, make_durable, make_file, make_readonly, quick_check
from pilothouse.stores.sqlite.migrate import check_ours, load_migrations, migrate
from pilothouse.stores.sqlite.threads import Job, Outcome, Reader, Writer, resolve, settle_files

T = TypeVar("T")
READERS = 2


class SqliteStore:
    def __init__(self, path: Path, busy_timeout_s: float, on_commit: Callable[[], None] | None) -> None:
        self.epoch: Epoch | None = None
        self._path = path
        self._busy_timeout_s = busy_timeout_s
        self._on_commit = on_commit
        self._loop = asyncio.get_running_loop()
        self._files = BlobFiles(path.with_name(path.name + ".blobs"))
        self._signal = CommitSignal()
        self._signal_of_others = CommitSignal()
        self._hints = Hints(path.with_name(path.name + ".wake"), self._signal, self._signal_of_others)
        self._writes: SimpleQueue[Job | None] = SimpleQueue()
        self._reads: SimpleQueue[Job | None] = SimpleQueue()
        self._threads: list[tuple[Thread, asyncio.Future[None]]] = []
        self._open = False

    async def start(self) -> None:
        """Start the writer first: it makes the file and its schema."""
        await self._thread("writer", self._run_writer)
        self._hints.listen()
        for number in range(READERS):
            await self._thread(f"reader-{number}", self._run_reader)
        self._open = True

    async def write(self, unit: Callable[[Tx], T]) -> T:
        return await self._ask(self._writes, unit)

    async def read(self, unit: Callable[[Tx], T]) -> T:
        return await self._ask(self._reads, unit)

    def changes(self, *, of_others: bool = False) -> AsyncIterator[None]:
        return Changes(self._signal_of_others if of_others else self._signal)

    async def check(self) -> str:
        """Return what SQLite finds wrong with the file, in one line; empty if it is sound."""
        return await anyio.to_thread.run_sync(quick_check, self._path)

    async def close(self) -> None:
        self._open = False
        self._writes.put(None)
        self._reads.put(None)
        with anyio.CancelScope(shield=True):
            for thread, ended in self._threads:
                await ended
                thread.join()
        self._hints.close()
        self._signal.close()
        self._signal_of_others.close()

    async def _ask(self, queue: SimpleQueue[Job | None], unit: Callable[[Tx], T]) -> T:
        if not self._open:
            raise StoreError(f"the store {self._path} is closed")
        job = Job(unit, self._loop.create_future(), monotonic())
        queue.put(job)
        outcome = await job.future
        if outcome.error is not None:
            raise outcome.error
        return outcome.value

    async def _thread(self, name: str, run: Callable[[Callable[[], None]], None]) -> None:
        """Start a thread and wait until it is ready or has failed."""
        ready: asyncio.Future[BaseException | None] = self._loop.create_future()
        end: asyncio.Future[None] = self._loop.create_future()

        def body() -> None:
            error: BaseException | None = None
            try:
                run(lambda: self._post(_settle, ready, None))
            except sqlite3.Error as caught:
                error = translate(caught, self._path)
            except OSError as caught:
                error = unusable(caught, self._path)
            except BaseException as caught:  # noqa: BLE001  raised to the caller that opens the store
                error = caught
            self._post(_settle, ready, error)
            self._post(_settle, end, None)

        thread = Thread(target=body, name=f"pilothouse-store-{name}", daemon=True)
        thread.start()
        self._threads.append((thread, end))
        if (error := await ready) is not None:
            raise error

    def _run_writer(self, ready: Callable[[], None]) -> None:
        scripts = load_migrations()
        make_file(self._path)
        db = connect(self._path, self._busy_timeout_s)
        try:
            check_ours(db, self._path, len(scripts))
            make_durable(db, self._path)
            migrate(db, self._path, scripts)
            settle_files(db, self._files)
            writer = Writer(self._path, db, self._files, self._writes, self._report_written, self._committed)
            ready()
            writer.run()
        finally:
            db.close()

    def _run_reader(self, ready: Callable[[], None]) -> None:
        db = connect(self._path, self._busy_timeout_s)
        try:
            make_readonly(db)
            ready()
            Reader(self._path, db, self._files, self._reads, self._report_read).run()
        finally:
            db.close()

    def _committed(self) -> None:
        """Run on the writer's thread, before the callers are told."""
        if self._on_commit is not None:
            self._on_commit()
        self._hints.send()

    def _report_written(self, outcomes: list[Outcome], changed: bool, epoch: Epoch | None) -> None:
        self._post(self._written, outcomes, changed, epoch)

    def _report_read(self, outcomes: list[Outcome]) -> None:
        self._post(resolve, outcomes)

    def _written(self, outcomes: list[Outcome], changed: bool, epoch: Epoch | None) -> None:
        self.epoch = epoch
        resolve(outcomes)
        if changed:
            self._signal.fire()

    def _post(self, call: Callable[..., None], *values: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(call, *values)
        except RuntimeError:
            pass  # the event loop is closed


def _settle(future: asyncio.Future[Any], value: object) -> None:
    if not future.done():
        future.set_result(value)


@asynccontextmanager
async def open_sqlite(
    path: str, busy_timeout_s: float, on_commit: Callable[[], None] | None
) -> AsyncIterator[Store]:
    if not Path(path).name:
        raise ConfigError(f"the SQLite store needs the path of a file, not {path!r}; set stores.sqlite.path")
    store = SqliteStore(Path(path), busy_timeout_s, on_commit)
    try:
        await store.start()
        yield store
    finally:
        await store.close()
