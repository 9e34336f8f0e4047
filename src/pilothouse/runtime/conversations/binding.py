"""What a workspace's own file wishes for a conversation. It is kept beside the binding, never in it.

A binding holds what a person chose, and that wins. Wishes are written anew whenever somebody opens a chat in the
folder, so a file that changed its mind, or is gone, leaves nothing behind.

The binding as it works: what a person chose in a conversation, else what its workspace wishes, else its parent's.

A thread is a conversation of its own with a session of its own. Until somebody binds it to something else, it works
where the place that it belongs to works, whichever way that changes.

The approval mode of a turn: what was said for this chat, what is configured, what was picked, else the narrowest.

Whose session a conversation works in: its own, or, where threads share it, that of the place which they belong to.

A thread that was bound to something of its own has a session of its own, whatever is configured.
"""

from __future__ import annotations

import os

import msgspec
from msgspec import Struct

from pilothouse.core.conversation import BusyPolicy, Conversation
from pilothouse.core.ids import ConversationId, EngineId, SessionId
from pilothouse.core.message import Address, parent_id
from pilothouse.core.policy import MODES, ApprovalMode
from pilothouse.core.store import Tx
from pilothouse.core.turn import Turn
from pilothouse.runtime.audit import record
from pilothouse.runtime.conversations.places import ensure_place, resolve
from pilothouse.runtime.settings import Settings

_PICKED = "mode:"


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


def bound(tx: Tx, conversation: Conversation) -> Conversation:
    """As it works, with what was inherited. Not to be saved: that would make it a choice."""
    parent, wishes = _parent(tx, conversation.id), wishes_of(tx, conversation.id)
    engine = conversation.engine or wishes.engine or (parent.engine if parent else None)
    inherits_model = parent is not None and engine == parent.engine
    return msgspec.structs.replace(
        conversation,
        workspace=conversation.workspace or (parent.workspace if parent else None),
        engine=engine,
        model=conversation.model or wishes.model or (parent.model if parent and inherits_model else None),
        busy=conversation.busy or wishes.busy or (parent.busy if parent else None),
    )


def workspace_of(tx: Tx, id: ConversationId, default: str) -> str:
    """The folder whose roles hold in a conversation, also before anything was said in it."""
    known, parent = tx.conversations.get(id), _parent(tx, id)
    return (known.workspace if known else None) or (parent.workspace if parent else None) or default


def _parent(tx: Tx, id: ConversationId) -> Conversation | None:
    parent = parent_id(id)
    return None if parent is None else tx.conversations.get(resolve(tx, parent))


def said_mode(tx: Tx, conversation_id: ConversationId, turn: Turn) -> ApprovalMode | None:
    """What whoever opened the chat said with a flag. It is for what they say there, not for what comes by itself."""
    return wishes_of(tx, conversation_id).approval_mode if turn.cause in ("message", "answer") else None


def picked_mode(tx: Tx, real: str) -> ApprovalMode | None:
    """What was picked when a chat was first opened in this folder."""
    kept = tx.get_fact(f"{_PICKED}{real}")
    return next((mode for mode in MODES if mode == kept), None)


def pick_mode(tx: Tx, workspace: str, mode: ApprovalMode, at: float, by: str) -> None:
    real = os.path.realpath(workspace)
    tx.set_fact(f"{_PICKED}{real}", mode)
    record(tx, at, by, "mode.picked", workspace=real, mode=mode)


def keeper(tx: Tx, settings: Settings, conversation: Conversation, at: float) -> Conversation:
    """The conversation whose session this one works in."""
    address = conversation.address
    own = conversation.workspace is not None or conversation.engine is not None
    if settings.threads == "own" or own or address.thread is None:
        return conversation
    return ensure_place(tx, Address(address.channel, address.place), at)


def keep_session(
    tx: Tx, kept: Conversation, conversation: Conversation, session_id: SessionId | None
) -> None:
    """Both go on in it; None is a new one."""
    for place in {kept.id: kept, conversation.id: conversation}.values():
        if place.session_id != session_id:
            tx.conversations.save(msgspec.structs.replace(place, session_id=session_id))
