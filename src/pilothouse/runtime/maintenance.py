"""Background upkeep: prune old rows, and keep the audit log complete.

The audit writer stores waiting notes and the configured roles. It also writes the log's head outside of the store at
start, every hour and at the end, so that a rewritten log is found out unless those notes are rewritten too.
"""

from __future__ import annotations

import anyio

from pilothouse.core.audit import AuditHead
from pilothouse.core.clock import until_next
from pilothouse.core.errors import Fenced, StoreError
from pilothouse.core.people import People
from pilothouse.core.store import Tx
from pilothouse.runtime.audit import record_roles, write_notes
from pilothouse.runtime.ports import Ports

WRITE_EVERY_S = 1.0
LOOK_EVERY_S = 5.0
"""Interval of looking whether the configured roles changed, or the head is due."""
NOTE_HEAD_EVERY_S = 3600.0
PRUNE_EVERY_S = 3600.0
PRUNE_STEP = 500


async def prune_forever(ports: Ports) -> None:
    """Delete rows past the retention time, in small steps so that other writers get their turn."""
    while True:
        before = ports.clock.now() - ports.settings().retention_s
        try:
            while await ports.store.write(lambda tx: tx.prune(before, limit=PRUNE_STEP)):  # noqa: B023
                await ports.clock.sleep(0.05)
        except Fenced:
            raise
        except StoreError as error:
            ports.log("prune.postponed", level="warning", error=str(error))
        await ports.clock.sleep(PRUNE_EVERY_S)


class AuditWriter:
    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._people: People | None = None
        self._noted = AuditHead()
        self._note_at = float("-inf")

    async def run(self) -> None:
        while True:
            await self.catch_up()
            if self._ports.clock.monotonic() >= self._note_at:
                await self.note_head()
            with anyio.move_on_after(until_next(LOOK_EVERY_S, self._ports.clock.monotonic())):
                await self._ports.trail.wait()
                await self._ports.clock.sleep(WRITE_EVERY_S)

    async def catch_up(self) -> None:
        """Write the waiting notes. If the store is unavailable they stay in the trail."""
        ports, people = self._ports, self._ports.settings().people
        notes, now = ports.trail.take(), ports.clock.now()
        if not notes and people is self._people:
            return

        def unit(tx: Tx) -> None:
            write_notes(tx, notes)
            if people is not self._people:
                record_roles(tx, people, now)

        try:
            await ports.store.write(unit)
        except Fenced:
            raise
        except StoreError as error:
            ports.trail.put_back(notes)
            ports.log("audit.postponed", level="warning", error=str(error))
        else:
            self._people = people

    async def note_head(self) -> None:
        ports = self._ports
        try:
            head = await ports.store.read(lambda tx: tx.audit.head())
            if head != self._noted:
                ports.note_head(head, ports.clock.now())
        except (StoreError, OSError) as error:
            ports.log("audit.head_not_noted", level="warning", error=str(error))
            return
        if head != self._noted:
            ports.log("audit.head", seq=head.seq, hash=head.hash)
        self._noted, self._note_at = head, ports.clock.monotonic() + NOTE_HEAD_EVERY_S

    async def close(self) -> None:
        await self.catch_up()
        await self.note_head()
