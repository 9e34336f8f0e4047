"""The public conformance suite for stores. Every store passes it, ours and those of plugins.

    class TestMyStore(StoreConformance):
        @pytest.fixture
        def open_store(self, tmp_path):
            return lambda: open_my_store(tmp_path / "data")

`open_store` returns a callable; each call opens another store on the same data, as another process would. Each test
begins with empty data. The suite runs with anyio's pytest plugin.
"""

from __future__ import annotations

from pilothouse.testing.store_asks import AskSuite, PeopleSuite, ScheduleSuite
from pilothouse.testing.store_builders import OpenStore
from pilothouse.testing.store_costs import SpendingSuite
from pilothouse.testing.store_inbox import InboxSuite
from pilothouse.testing.store_log import LogSuite, PruneSuite
from pilothouse.testing.store_nodes import NodeSuite, UnitSuite, WakeSuite
from pilothouse.testing.store_outbox import OutboxSuite
from pilothouse.testing.store_queues import QueueSuite
from pilothouse.testing.store_rules import RuleSuite
from pilothouse.testing.store_transcripts import TranscriptSuite
from pilothouse.testing.store_turns import PlaceSuite, TurnSuite

__all__ = ["OpenStore", "StoreConformance"]


class StoreConformance(
    QueueSuite,
    InboxSuite,
    OutboxSuite,
    PlaceSuite,
    TurnSuite,
    AskSuite,
    PeopleSuite,
    ScheduleSuite,
    RuleSuite,
    LogSuite,
    PruneSuite,
    SpendingSuite,
    TranscriptSuite,
    NodeSuite,
    UnitSuite,
    WakeSuite,
):
    pass
