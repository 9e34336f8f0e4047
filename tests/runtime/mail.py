"""What the tests of delivery share: engines that answer, words in the outbox, and rows that are looked for."""

from __future__ import annotations

from tests.runtime.puppet import PuppetEngine, Strings, echo
from tests.runtime.rig import MAIN

from pilothouse.channels.memory import MEMORY
from pilothouse.core.conversation import Conversation
from pilothouse.core.message import Address, Content, conversation_id
from pilothouse.core.queue import QueueRow
from pilothouse.core.store import Tx
from pilothouse.runtime.clock import new_id
from pilothouse.runtime.outbox import say


def answering(text: str) -> PuppetEngine:
    async def play(strings: Strings) -> None:
        await strings.start()
        await strings.end(text)

    return PuppetEngine(play, echo)


def greeting(count: int, answer: str) -> PuppetEngine:
    """Echoes so many times, as people say hello in private, and then answers."""
    return PuppetEngine(*[echo] * count, *answering(answer).plays)


def end_of(tx: Tx, turn_id: str) -> QueueRow:
    row = tx.outbox.by_key(f"end:{turn_id}")
    assert row is not None
    return row


def postponed(tx: Tx, now: float) -> QueueRow | None:
    rows = [row for row in tx.outbox.unfinished(MAIN) if row.status == "queued" and row.ready_at > now]
    return rows[0] if rows else None


def say_in(tx: Tx, text: str, place: str = "main") -> None:
    address = Address(MEMORY, place)
    tx.conversations.ensure(Conversation(conversation_id(address), address, 1.0))
    say(tx, new_id, conversation_id(address), Content(text), key=f"test:{place}:{text}", at=1.0)
