"""The threads of the store: one writer, which commits queued units in batches, and readers beside it.

The writer takes what is queued, and what arrives meanwhile, runs each unit in its own savepoint and commits once, so that
many durable writes share one sync. A unit that raises is rolled back alone. No caller is told before COMMIT has returned.
Readers have connections of their own, so that no read waits behind a slow write.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, NamedTuple

from pilothouse.core.errors import Fenced, StoreError
from pilothouse.core.ids import Epoch
from pilothouse.core.store import Tx
from pilothouse.stores.sqlite.blobs import BlobFiles
from pilothouse.stores.sqlite.errors import translate, unusable
from pilothouse.stores.sqlite.link import Link
from pilothouse.stores.sqlite.tx import SqliteTx


class Job(NamedTuple):
    unit: Callable[[Tx], Any]
    future: asyncio.Future[Outcome]
    asked_at: float
    """By the monotonic clock."""


class Outcome(NamedTuple):
    """Result of a job. Errors are values: a future rejects some exceptions and logs those never retrieved."""

    future: asyncio.Future[Outcome]
    value: Any
    error: BaseException | None
    changed: bool = False


def resolve(outcomes: list[Outcome]) -> None:
    """Resolve the futures of callers that were not cancelled. Event loop only."""
    for outcome in outcomes:
        if not outcome.future.done():
            outcome.future.set_result(outcome)


BATCH_S = 0.04
"""Time after which a batch takes no more units: its callers and other processes wait for it."""

Report = Callable[[list[Outcome], bool, Epoch | None], None]


class Writer:
    """Runs on its thread. `report` gets the outcomes of each batch and whether anything changed."""

    def __init__(
        self,
        path: Path,
        db: sqlite3.Connection,
        files: BlobFiles,
        jobs: SimpleQueue[Job | None],
        report: Report,
        committed: Callable[[], None],
    ) -> None:
        self._path = path
        self._db = db
        self._link = Link(db)
        self._file = _identity(path)
        self._files = files
        self._tx = SqliteTx(self._link, files)
        self._jobs = jobs
        self._report = report
        self._committed = committed
        self._ending = False
        self._left: Job | None = None
        """A job taken from the queue and not tried yet."""

    def run(self) -> None:
        """Run until a None arrives; everything queued before it is written."""
        while self._left or not self._ending:
            job, self._left = self._left or self._jobs.get(), None
            if job is None:
                return
            if not job.future.cancelled():
                self._report(*self._write([job]), self._link.epoch)

    def _next(self) -> Job | None:
        """Return the next queued job, if any."""
        try:
            while (job := self._jobs.get_nowait()) is not None:
                if not job.future.cancelled():
                    return job
        except Empty:
            return None
        self._ending = True
        return None

    def _write(self, jobs: list[Job]) -> tuple[list[Outcome], bool]:
        """Write the jobs and those that join the batch."""
        epoch = self._link.epoch
        try:
            outcomes = self._transact(jobs)
        except Exception as error:  # noqa: BLE001  every caller must get the error
            self._roll_back()
            self._link.epoch = epoch
            return [Outcome(job.future, None, self._translated(error)) for job in jobs], False
        changed = any(outcome.changed for outcome in outcomes)
        try:
            if changed:
                self._committed()
        except BaseException as error:  # noqa: BLE001  as if we had died between commit and report
            outcomes = [Outcome(job.future, None, error) for job in jobs]
        return outcomes, changed

    def _transact(self, jobs: list[Job]) -> list[Outcome]:
        began_at = monotonic()
        try:
            self._check_file()
            self._link.begin(write=True)
        except Exception:
            self._add_waiting(jobs, since=began_at)
            raise
        outcomes = [self._attempt(job) for job in jobs]
        until = monotonic() + BATCH_S
        while monotonic() < until and (job := self._next()) is not None:
            jobs.append(job)
            outcomes.append(self._attempt(job))
        self._files.drop_unrecorded(self._recorded)
        self._db.execute("COMMIT")
        self._files.forget_fresh()
        return outcomes

    def _add_waiting(self, jobs: list[Job], since: float) -> None:
        """Add jobs that waited for the lock as long as the first: they fail with it. Later ones get their own try."""
        while (job := self._next()) is not None:
            if job.asked_at > since:
                self._left = job
                return
            jobs.append(job)

    def _check_file(self) -> None:
        """Refuse to write to a deleted or replaced file: such a write would not be durable."""
        if _identity(self._path) != self._file:
            raise Fenced(
                f"{self._path} was deleted or replaced while it was in use, so nothing more is written;"
                " put it back, or restore a backup, and restart"
            )

    def _attempt(self, job: Job) -> Outcome:
        epoch, before = self._link.epoch, self._db.total_changes
        self._db.execute("SAVEPOINT unit")
        try:
            self._link.check_fence()
            value = job.unit(self._tx)
        except BaseException as error:  # noqa: BLE001  a unit's error is its caller's, not the thread's
            self._undo(error)
            self._link.epoch = epoch
            return Outcome(job.future, None, self._translated(error))
        self._db.execute("RELEASE unit")
        return Outcome(job.future, value, None, self._db.total_changes > before)

    def _undo(self, error: BaseException) -> None:
        """Roll back one unit. A full disk may end the whole transaction: then every unit of the batch fails."""
        if not self._db.in_transaction:
            raise (
                error
                if isinstance(error, sqlite3.Error)
                else StoreError(f"the transaction was lost: {error}")
            )
        self._link.forget()
        self._db.execute("ROLLBACK TO unit")
        self._db.execute("RELEASE unit")

    def _roll_back(self) -> None:
        with suppress(sqlite3.Error):  # if this fails, the next BEGIN reports it
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def _recorded(self, digest: str) -> bool:
        return self._link.row("blobs.get", hash=digest) is not None

    def _translated(self, error: BaseException) -> BaseException:
        match error:
            case sqlite3.Error():
                return translate(error, self._path)
            case OSError():
                return unusable(error, self._path)
            case _:
                return error


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def settle_files(db: sqlite3.Connection, files: BlobFiles) -> None:
    """Settle blob files under the write lock: another process may be storing one right now."""
    if not files.unsettled():
        return
    link = Link(db)
    db.execute("BEGIN IMMEDIATE")
    try:
        files.settle(lambda digest: link.row("blobs.get", hash=digest) is not None)
    finally:
        db.execute("COMMIT")


class Reader:
    """Runs on its thread. Snapshots are taken after a job was queued, so they contain every write that returned."""

    def __init__(
        self,
        path: Path,
        db: sqlite3.Connection,
        files: BlobFiles,
        jobs: SimpleQueue[Job | None],
        report: Callable[[list[Outcome]], None],
    ) -> None:
        self._path = path
        self._db = db
        self._link = Link(db)
        self._tx = SqliteTx(self._link, files)
        self._jobs = jobs
        self._report = report

    def run(self) -> None:
        """Run until a None arrives, and pass it on to the next reader."""
        while (job := self._jobs.get()) is not None:
            if not job.future.cancelled():
                self._report([self._read(job)])
        self._jobs.put(None)

    def _read(self, job: Job) -> Outcome:
        try:
            self._link.begin()
            outcome = Outcome(job.future, job.unit(self._tx), None)
        except BaseException as error:  # noqa: BLE001  a unit's error is its caller's, not the thread's
            outcome = Outcome(job.future, None, self._translated(error))
        with suppress(sqlite3.Error):
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        return outcome

    def _translated(self, error: BaseException) -> BaseException:
        if not isinstance(error, sqlite3.Error):
            return error
        if error.sqlite_errorcode == sqlite3.SQLITE_READONLY:
            return StoreError("a unit passed to read() tried to write; pass it to write()")
        return translate(error, self._path)
