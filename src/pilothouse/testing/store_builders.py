"""Rows for tests of stores. Everything has a default, so that a test names only what it is about."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from pilothouse.core.ask import Ask, AskKind, AskRow
from pilothouse.core.conversation import Conversation, Session
from pilothouse.core.ids import (
    AskId,
    ChannelId,
    ConversationId,
    EngineId,
    Epoch,
    MessageId,
    ScheduleId,
    SessionId,
    TurnId,
)
from pilothouse.core.message import Address
from pilothouse.core.queue import Put, Queue
from pilothouse.core.schedule import Every, Schedule
from pilothouse.core.store import NodeInfo, Role, Store, Tx
from pilothouse.core.turn import Prompt, Turn, TurnStatus

Unit = Callable[[Tx], Any]
OpenStore = Callable[[], AbstractAsyncContextManager[Store]]
"""Opens the data of this test; each call opens another store on it, as another process would."""

C1, C2 = ConversationId("memory:1"), ConversationId("memory:2")
S1, S2 = SessionId("session-1"), SessionId("session-2")
T1, T2, T3, T4, T5 = (TurnId(f"t{number}") for number in range(1, 6))
M1, M2, M3 = MessageId("m1"), MessageId("m2"), MessageId("m3")
SCRIPT = EngineId("script")
MEMORY = ChannelId("memory")


class StoreSuite:
    """The base of every part of the conformance suite. It needs the fixture `open_store`."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    async def store(self, open_store: OpenStore) -> AsyncIterator[Store]:
        """Opens a store that has joined, with two conversations."""
        async with open_store() as store:
            await join(store)
            await store.write(add_places)
            yield store


async def join(store: Store, *roles: Role, name: str = "node") -> Epoch:
    return await store.write(lambda tx: tx.nodes.join(node(name), roles, lease_until=1e10))


def node(name: str = "node") -> NodeInfo:
    return NodeInfo(name, host="host", pid=1, started="0")


def add_places(tx: Tx) -> None:
    for place in (C1, C2):
        tx.conversations.ensure(conversation(place))


def conversation(id: ConversationId, channel: ChannelId = MEMORY, **fields: Any) -> Conversation:
    return Conversation(id, Address(channel, id.partition(":")[2]), created_at=1.0, **fields)


def session(id: SessionId = S1, **fields: Any) -> Session:
    values: dict[str, Any] = {
        "conversation_id": C1,
        "engine": SCRIPT,
        "workspace": "/w",
        "created_at": 1.0,
        "used_at": 1.0,
    }
    return Session(id, **(values | fields))


def put(queue: Queue, id: str, place: ConversationId = C1, **fields: Any) -> Put:
    values: dict[str, Any] = {
        "key": f"key of {id}",
        "conversation_id": place,
        "kind": "chat",
        "body": b'{"text":"hello"}',
        "at": 1.0,
    }
    return queue.put(id=MessageId(id), **(values | fields))


def turn(id: str, status: TurnStatus = "queued", **fields: Any) -> Turn:
    values: dict[str, Any] = {
        "session_id": S1,
        "conversation_id": C1,
        "engine": SCRIPT,
        "cause": "message",
        "prompt": Prompt("hello"),
        "created_at": 1.0,
    }
    return Turn(id=TurnId(id), status=status, **(values | fields))


def ask_row(
    id: str,
    *,
    payload_hash: str = "h",
    expires_at: float | None = None,
    kind: AskKind = "approval",
    **fields: Any,
) -> AskRow:
    values: dict[str, Any] = {
        "conversation_id": C1,
        "session_id": S1,
        "turn_id": TurnId("t1"),
        "engine_key": f"engine's {id}",
        "state": "open",
        "asked_at": 1.0,
    }
    ask = Ask(AskId(id), kind, "May I?", {"command": "ls"}, payload_hash, expires_at=expires_at)
    return AskRow(ask, **(values | fields))


def schedule(id: str, next_at: float | None, **fields: Any) -> Schedule:
    values: dict[str, Any] = {
        "conversation_id": C1,
        "timing": Every(every_s=60.0, start_at=0.0),
        "prompt": "Good morning",
    }
    return Schedule(ScheduleId(id), next_at=next_at, **(values | fields))


def ids(rows: list[Any]) -> list[str]:
    return [row.id for row in rows]
