"""Messages whose files are still being fetched: `/stop` knows of them, and takes back what would begin, with what was
said behind them.

They are in memory alone, for their channel keeps them. One that was taken back has a row, withdrawn, under its own key:
when it comes after all, or once more after a restart, it is a repeat and begins nothing. What waits behind it only its
channel knows: that comes to us after the stop, and tells by its time that it was said before.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import anyio

from pilothouse.core.ids import ConversationId
from pilothouse.core.message import InboundMessage
from pilothouse.core.store import Store, Tx
from pilothouse.runtime.binding import workspace_of
from pilothouse.runtime.command_call import CommandCall
from pilothouse.runtime.growing import head_of, keep_message, without_known
from pilothouse.runtime.placing import place_id
from pilothouse.runtime.standing import may
from pilothouse.runtime.trimming import cleaned


class Expected:
    def __init__(self) -> None:
        self._fetches: dict[anyio.CancelScope, InboundMessage] = {}

    @contextmanager
    def expecting(self, message: InboundMessage) -> Iterator[None]:
        """What is done within is left where it is once the message was taken back."""
        with anyio.CancelScope() as scope:
            self._fetches[scope] = message
            try:
                yield
            finally:
                del self._fetches[scope]

    def messages(self) -> tuple[InboundMessage, ...]:
        return tuple(self._fetches.values())

    async def leave_stopped(self, store: Store) -> None:
        """Nobody waits any longer for the files of what was taken back."""
        fetches = list(self._fetches.items())

        def unit(tx: Tx) -> list[anyio.CancelScope]:
            return [scope for scope, message in fetches if _is_taken_back(tx, message)]

        for scope in await store.read(unit) if fetches else ():
            scope.cancel()


def _is_taken_back(tx: Tx, message: InboundMessage) -> bool:
    """All of it: of one whose first piece was withdrawn before, the rest is still to come."""
    row = head_of(tx, message.address, message.native_id)
    return row is not None and row.status == "withdrawn" and without_known(tx, message) is None


def still_expected(call: CommandCall) -> list[InboundMessage]:
    """Those of this conversation that are in no row yet. A stranger's is refused when it has come."""
    place, people = call.conversation.id, call.settings.people
    workspace = workspace_of(call.tx, place, call.settings.default_workspace)
    here = [message for message in call.prepared.expected if place_id(call.tx, message.address) == place]
    known = [
        message for message in here if may(call.tx, people, message.author.id, "desk.expecting", workspace)
    ]
    return [fresh for message in known if (fresh := without_known(call.tx, message)) is not None]


def take_back(call: CommandCall, message: InboundMessage) -> None:
    """It stays in the record, without what was not fetched yet."""
    put = keep_message(call.tx, call.ids, cleaned(message), call.conversation.id, call.at)
    call.tx.inbox.withdraw(put.row.id, call.at, f"stopped by {call.by.id}")


def note_stop(call: CommandCall) -> None:
    """Something was taken back: whatever was said here before this stop, and is still to come, goes with it."""
    if call.prepared.said_at:
        call.tx.set_fact(_key(call.conversation.id), repr(call.prepared.said_at))


def is_stopped(tx: Tx, place: ConversationId, message: InboundMessage) -> bool:
    """Both times are the platform's. Where they are the same, as two within one second may be, it begins."""
    stopped_at = tx.get_fact(_key(place))
    return bool(stopped_at) and message.kind == "chat" and 0 < message.sent_at < float(stopped_at)


def _key(place: ConversationId) -> str:
    return f"stopped:{place}"
