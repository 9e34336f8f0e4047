"""One transaction over all tables, on one connection; and pruning, which spans them."""

from __future__ import annotations

from pilothouse.core.ask import Asks
from pilothouse.core.audit import Audit
from pilothouse.core.budget import Spending
from pilothouse.core.conversation import Conversations, Sessions
from pilothouse.core.people import PeopleTable
from pilothouse.core.policy import Rules
from pilothouse.core.queue import InboxQueue, OutboxQueue
from pilothouse.core.schedule import Schedules
from pilothouse.core.store import BlobTable, Events, Nodes
from pilothouse.core.transcript import Transcripts
from pilothouse.core.turn import Turns
from pilothouse.stores.sqlite.asks import AskTable
from pilothouse.stores.sqlite.audit import AuditTable
from pilothouse.stores.sqlite.blobs import BlobFiles, BlobRows
from pilothouse.stores.sqlite.conversations import ConversationTable, SessionTable
from pilothouse.stores.sqlite.costs import SpendingTable
from pilothouse.stores.sqlite.link import Link
from pilothouse.stores.sqlite.nodes import NodeTable
from pilothouse.stores.sqlite.outbox import OutboxTable
from pilothouse.stores.sqlite.people import GrantTable, RuleTable
from pilothouse.stores.sqlite.queue import InboxTable
from pilothouse.stores.sqlite.schedules import ScheduleTable
from pilothouse.stores.sqlite.transcripts import TranscriptTable
from pilothouse.stores.sqlite.turns import EventTable, TurnTable


class SqliteTx:
    def __init__(self, link: Link, files: BlobFiles) -> None:
        self._link = link
        self.conversations: Conversations = ConversationTable(link)
        self.sessions: Sessions = SessionTable(link)
        self.inbox: InboxQueue = InboxTable(link)
        self.outbox: OutboxQueue = OutboxTable(link)
        self.turns: Turns = TurnTable(link)
        self.events: Events = EventTable(link)
        self.asks: Asks = AskTable(link)
        self.people: PeopleTable = GrantTable(link)
        self.schedules: Schedules = ScheduleTable(link)
        self.rules: Rules = RuleTable(link)
        self._blobs = BlobRows(link, files)
        self.blobs: BlobTable = self._blobs
        self.spending: Spending = SpendingTable(link)
        self.audit: Audit = AuditTable(link)
        self.transcripts: Transcripts = TranscriptTable(link)
        self.nodes: Nodes = NodeTable(link)

    def get_fact(self, key: str) -> str | None:
        seen = self._link.seen
        if ("facts", key) not in seen:
            row = self._link.row("facts.get", key=key)
            seen["facts", key] = row[0] if row else None
        return seen["facts", key]

    def set_fact(self, key: str, value: str) -> None:
        self._link.run("facts.set", key=key, value=value)
        self._link.seen["facts", key] = value

    def facts_of(self, prefix: str) -> list[tuple[str, str]]:
        return [(key[len(prefix) :], value) for key, value in self._link.rows("facts.of", prefix=prefix)]

    def tally(self, key: str, at: float, window_s: float) -> int:
        row = self._link.row("tallies.add", key=key, at=at, after=at - window_s)
        assert row is not None, "it was counted this moment"
        return row[0]

    def tallied(self, key: str, at: float, window_s: float) -> int:
        row = self._link.row("tallies.get", key=key, after=at - window_s)
        return row[0] if row else 0

    def prune(self, before: float, *, limit: int = 1000) -> int:
        """Delete at most `limit` old rows, so that other writers do not wait long."""
        left = limit
        for name in ("inbox.prune", "outbox.prune", "asks.prune", "tallies.prune"):
            left -= self._link.run(name, before=before, limit=left)
        left -= self._prune_turns(before, left)
        left -= self._blobs.prune(before, left)
        left -= self._link.run("rules.prune", before=before, limit=left)
        for name in ("schedule_runs.prune", "schedules.prune", "nodes.prune"):
            left -= self._link.run(name, before=before, limit=left)
        return limit - left

    def _prune_turns(self, before: float, limit: int) -> int:
        self._link.run("prune.pick_turns", before=before, limit=limit)
        turns = self._link.run("prune.turns")
        self._link.forget()
        events = self._link.run("prune.events", limit=limit - turns)
        self._link.run("prune.finish")
        return turns + events
