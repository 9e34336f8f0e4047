"""The approval mode of a turn: what was said for this chat, what is configured, what was picked, else the narrowest."""

from __future__ import annotations

import os

from pilothouse.core.ids import ConversationId
from pilothouse.core.policy import MODES, ApprovalMode
from pilothouse.core.store import Tx
from pilothouse.core.turn import Turn
from pilothouse.runtime.auditing import record
from pilothouse.runtime.wishes import wishes_of

_PICKED = "mode:"


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
