"""The inbox: a queue that knows which conversations may start a turn."""

from __future__ import annotations

from collections.abc import Sequence

from pilothouse.core.ids import ConversationId, EngineId
from pilothouse.stores.sqlite.link import Link, to_json
from pilothouse.stores.sqlite.queue import QueueTable


class InboxTable(QueueTable):
    def __init__(self, link: Link) -> None:
        super().__init__(link, "inbox")

    def startable(
        self, now: float, *, engines: Sequence[EngineId] | None, limit: int
    ) -> list[ConversationId]:
        wanted = None if engines is None else to_json(list(engines)).decode()
        rows = self._link.rows("inbox.startable", now=now, engines=wanted, limit=limit)
        return [row[0] for row in rows]
