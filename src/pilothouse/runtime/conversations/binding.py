"""The binding of a conversation: which workspace, engine, model, busy policy, approval mode and session it uses.

A person's choice wins, then the wishes of the workspace's own file, then the parent's binding. Wishes are stored beside
the binding and rewritten whenever a chat is opened in the folder, so a changed or deleted file leaves nothing behind.

A thread is a conversation with its own session. Until it is bound to something else it inherits its parent's binding.
Where `threads` is "shared", an unbound thread works in its parent's session.
"""

from __future__ import annotations

import os

import msgspec
from msgspec import Struct

from pilothouse.core.conversation import BusyPolicy, Conversation
from pilothouse.core.facts import PICKED_MODE, WISHES, load_fact, save_fact
from pilothouse.core.ids import ConversationId, EngineId, SessionId
from pilothouse.core.message import Address, parent_id
from pilothouse.core.policy import MODES, ApprovalMode
from pilothouse.core.store import Tx
from pilothouse.core.turn import Turn
from pilothouse.runtime.audit import record
from pilothouse.runtime.conversations.places import ensure_place, resolve
from pilothouse.runtime.settings import Settings


class Wishes(Struct, frozen=True):
    engine: EngineId | None = None
    model: str | None = None
    busy: BusyPolicy | None = None
    show_cost: bool | None = None
    approval_mode: ApprovalMode | None = None
    """Set with a flag when the chat was opened, for as long as it is open; no file can set it."""


NO_WISHES = Wishes()


def wishes_of(tx: Tx, conversation_id: ConversationId) -> Wishes:
    return load_fact(tx, WISHES.of(conversation_id), Wishes) or NO_WISHES


def keep_wishes(tx: Tx, conversation_id: ConversationId, wishes: Wishes) -> None:
    if wishes != wishes_of(tx, conversation_id):
        save_fact(tx, WISHES.of(conversation_id), wishes)


def bound(tx: Tx, conversation: Conversation) -> Conversation:
    """Return the effective binding, with inherited values. Do not save it: that would make them choices."""
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
    """Return the folder whose roles apply in a conversation, which may not be stored yet."""
    known, parent = tx.conversations.get(id), _parent(tx, id)
    return (known.workspace if known else None) or (parent.workspace if parent else None) or default


def _parent(tx: Tx, id: ConversationId) -> Conversation | None:
    parent = parent_id(id)
    return None if parent is None else tx.conversations.get(resolve(tx, parent))


def chat_mode(tx: Tx, conversation_id: ConversationId, turn: Turn) -> ApprovalMode | None:
    """Return the mode set by flag for this chat. It applies to turns that people start there."""
    return wishes_of(tx, conversation_id).approval_mode if turn.cause in ("message", "answer") else None


def picked_mode(tx: Tx, real: str) -> ApprovalMode | None:
    """Return the mode picked when a chat was first opened in this folder."""
    kept = tx.get_fact(PICKED_MODE.of(real))
    return next((mode for mode in MODES if mode == kept), None)


def pick_mode(tx: Tx, workspace: str, mode: ApprovalMode, at: float, by: str) -> None:
    real = os.path.realpath(workspace)
    tx.set_fact(PICKED_MODE.of(real), mode)
    record(tx, at, by, "mode.picked", workspace=real, mode=mode)


def session_owner(tx: Tx, settings: Settings, conversation: Conversation, at: float) -> Conversation:
    """Return the conversation whose session this one uses: itself, or its parent where threads share."""
    address = conversation.address
    own = conversation.workspace is not None or conversation.engine is not None
    if settings.threads == "own" or own or address.thread is None:
        return conversation
    return ensure_place(tx, Address(address.channel, address.place), at)


def set_session(
    tx: Tx, owner: Conversation, conversation: Conversation, session_id: SessionId | None
) -> None:
    """Set the session of both conversations; None starts a new one."""
    for place in {owner.id: owner, conversation.id: conversation}.values():
        if place.session_id != session_id:
            tx.conversations.save(msgspec.structs.replace(place, session_id=session_id))
