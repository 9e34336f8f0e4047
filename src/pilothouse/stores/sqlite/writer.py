"""The one writer: a thread that commits whatever is queued together.

It takes what waits and what comes meanwhile, runs each unit in a savepoint of its own and commits once, so that many
durable writes share one sync. A unit that raises is rolled back alone. Nobody is told anything before COMMIT has
returned.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic

from pilothouse.core.errors import Fenced, StoreError
from pilothouse.core.ids import Epoch
from pilothouse.stores.sqlite.blobs import BlobFiles
from pilothouse.stores.sqlite.errors import translate, unusable
from pilothouse.stores.sqlite.jobs import Job, Outcome
from pilothouse.stores.sqlite.link import Link
from pilothouse.stores.sqlite.tx import SqliteTx

BATCH_S = 0.04
"""A batch takes no more after this long: those in it wait for its end, and other processes for the write lock."""

Report = Callable[[list[Outcome], bool, Epoch | None], None]


class Writer:
    """Lives on its thread. `report` is called after every batch with the outcomes and whether anything changed."""

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
        """One that was taken and not tried yet."""

    def run(self) -> None:
        """Until a None comes; all that was queued before it is still written."""
        while self._left or not self._ending:
            job, self._left = self._left or self._jobs.get(), None
            if job is None:
                return
            if not job.future.cancelled():
                self._report(*self._write([job]), self._link.epoch)

    def _next(self) -> Job | None:
        """What waits; None if nothing does."""
        try:
            while (job := self._jobs.get_nowait()) is not None:
                if not job.future.cancelled():
                    return job
        except Empty:
            return None
        self._ending = True
        return None

    def _write(self, jobs: list[Job]) -> tuple[list[Outcome], bool]:
        """The jobs, and whatever joins them."""
        epoch = self._link.epoch
        try:
            outcomes = self._transact(jobs)
        except Exception as error:  # noqa: BLE001  whatever it is, every waiter must hear of it
            self._roll_back()
            self._link.epoch = epoch
            return [Outcome(job.future, None, self._words(error)) for job in jobs], False
        changed = any(outcome.changed for outcome in outcomes)
        try:
            if changed:
                self._committed()
        except BaseException as error:  # noqa: BLE001  as if we had died between the commit and telling of it
            outcomes = [Outcome(job.future, None, error) for job in jobs]
        return outcomes, changed

    def _transact(self, jobs: list[Job]) -> list[Outcome]:
        began_at = monotonic()
        try:
            self._check_file()
            self._link.begin(write=True)
        except Exception:
            self._add_those_who_waited(jobs, since=began_at)
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

    def _add_those_who_waited(self, jobs: list[Job], since: float) -> None:
        """For the lock, as long as the first one: they hear of it together. Who came later gets a try of its own."""
        while (job := self._next()) is not None:
            if job.asked_at > since:
                self._left = job
                return
            jobs.append(job)

    def _check_file(self) -> None:
        """What is written to a file that has lost its name is gone when we end: that is no durable write."""
        if _identity(self._path) != self._file:
            raise Fenced(
                f"{self._path} was deleted or replaced while it was in use, so nothing is written any more;"
                " put it back, or restore a backup, and start anew"
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
            return Outcome(job.future, None, self._words(error))
        self._db.execute("RELEASE unit")
        return Outcome(job.future, value, None, self._db.total_changes > before)

    def _undo(self, error: BaseException) -> None:
        """A full disk may end the whole transaction: then nothing of the batch is left, and all must hear it."""
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
        with suppress(sqlite3.Error):  # if it is beyond help, the next BEGIN says so to whoever writes
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def _recorded(self, digest: str) -> bool:
        return self._link.row("blobs.get", hash=digest) is not None

    def _words(self, error: BaseException) -> BaseException:
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
    """Under the write lock: another process may be keeping a file at this moment."""
    if not files.unsettled():
        return
    link = Link(db)
    db.execute("BEGIN IMMEDIATE")
    try:
        files.settle(lambda digest: link.row("blobs.get", hash=digest) is not None)
    finally:
        db.execute("COMMIT")
