"""Reader threads with their own connections, so that no read waits behind a slow write."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue

from pilothouse.core.errors import StoreError
from pilothouse.stores.sqlite.blobs import BlobFiles
from pilothouse.stores.sqlite.errors import translate
from pilothouse.stores.sqlite.jobs import Job, Outcome
from pilothouse.stores.sqlite.link import Link
from pilothouse.stores.sqlite.tx import SqliteTx


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
