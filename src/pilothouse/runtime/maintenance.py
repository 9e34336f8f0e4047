"""Keeps the audit log complete while we run: what waits in the trail, what the configuration grants, how far it goes.

The head is noted outside of the store at the start, every hour and at the end: whoever rewrites the log must then
rewrite those notes too.
"""

from __future__ import annotations

from pilothouse.core.audit import AuditHead
from pilothouse.core.errors import Fenced, StoreError
from pilothouse.core.people import People
from pilothouse.core.store import Tx
from pilothouse.runtime.audit import record_roles, write_notes
from pilothouse.runtime.ports import Ports

WRITE_EVERY_S = 1.0
NOTE_HEAD_EVERY_S = 3600.0


class Anchoring:
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
            await self._ports.clock.sleep(WRITE_EVERY_S)

    async def catch_up(self) -> None:
        """Writes what waits; what cannot be written now waits on."""
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
