"""What the tests of delivery share: engines that answer, words in the outbox, and rows that are looked for."""

from __future__ import annotations

from tests.runtime.puppet import PuppetEngine, Strings, echo
from tests.runtime.rig import MAIN

from pilothouse.channels.memory import MEMORY
from pilothouse.core.conversation import Conversation
from pilothouse.core.message import Address, Content, conversation_id
from pilothouse.core.queue import QueueRow
from pilothouse.core.store import Tx
from pilothouse.runtime.outbox import say
from pilothouse.runtime.ports import new_id


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
    """Return the first unfinished message if it waits for its next try. A notice behind it does not count."""
    first = next(iter(tx.outbox.unfinished(MAIN)), None)
    return first if first is not None and first.status == "queued" and first.ready_at > now else None


def say_in(tx: Tx, text: str, place: str = "main") -> None:
    address = Address(MEMORY, place)
    tx.conversations.ensure(Conversation(conversation_id(address), address, 1.0))
    say(tx, new_id, conversation_id(address), Content(text), key=f"test:{place}:{text}", at=1.0)
