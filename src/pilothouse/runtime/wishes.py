"""What a workspace's own file wishes for a conversation. It is kept beside the binding, never in it.

A binding holds what a person chose, and that wins. Wishes are written anew whenever somebody opens a chat in the
folder, so a file that changed its mind, or is gone, leaves nothing behind.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from pilothouse.core.conversation import BusyPolicy
from pilothouse.core.ids import ConversationId, EngineId
from pilothouse.core.policy import ApprovalMode
from pilothouse.core.store import Tx


class Wishes(Struct, frozen=True):
    engine: EngineId | None = None
    model: str | None = None
    busy: BusyPolicy | None = None
    show_cost: bool | None = None
    approval_mode: ApprovalMode | None = None
    """What whoever opened the chat said for as long as it is open; no file can wish for that."""


NO_WISHES = Wishes()
_decode = msgspec.json.Decoder(Wishes).decode


def wishes_of(tx: Tx, conversation_id: ConversationId) -> Wishes:
    kept = tx.get_fact(_key(conversation_id))
    return _decode(kept) if kept else NO_WISHES


def keep_wishes(tx: Tx, conversation_id: ConversationId, wishes: Wishes) -> None:
    if wishes != wishes_of(tx, conversation_id):
        tx.set_fact(_key(conversation_id), msgspec.json.encode(wishes).decode())


def _key(conversation_id: ConversationId) -> str:
    return f"wishes:{conversation_id}"
