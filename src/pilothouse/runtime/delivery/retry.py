"""Resends messages that a platform did not confirm: after pauses that double, up to five minutes.

The pauses are kept in the store, so a restart shortens none of them. A channel that was in trouble and is well again
ends them, once: its unconfirmed messages are sent at once.
"""

from __future__ import annotations

from pilothouse.core.ids import ChannelId, ConversationId
from pilothouse.core.queue import CHANGES, NEVER, QueueRow
from pilothouse.core.store import Tx
from pilothouse.runtime.settings import Settings, exponential_s

MAX_SENDS = 200
"""With pauses of at most five minutes: most of a day. A change of a message that was sent has as many tries."""
QUICK_SENDS = 3
"""Sends before people are told. A short network failure rarely takes more."""
OWN_FAULT_SENDS = 8
"""Sends before the message is given up although its notice arrived: then the platform works and this message fails."""
PLACES_AT_ONCE = 500


def resend_pause_s(settings: Settings, sends: int) -> float:
    return exponential_s(settings.retry_first_s, settings.doubt_cap_s, sends)


def resend_now(tx: Tx, channel: ChannelId, now: float) -> None:
    """Make the first unconfirmed message of each conversation ready: the channel is well again."""
    for head in tx.outbox.deliverable(NEVER, channels=[channel], limit=PLACES_AT_ONCE):
        row = _first_message(tx, head.conversation_id)
        if row is not None and row.ready_at > now and _is_unconfirmed(tx, row):
            tx.outbox.rewrite(row.id, bytes(row.body), ready_at=now)


def _first_message(tx: Tx, conversation_id: ConversationId) -> QueueRow | None:
    """Return the first unfinished row that is a message: a postponed change blocks none."""
    return next((row for row in tx.outbox.unfinished(conversation_id) if row.kind not in CHANGES), None)


def _is_unconfirmed(tx: Tx, row: QueueRow) -> bool:
    return any(part.state == "sending" for part in tx.outbox.parts(row.id))
