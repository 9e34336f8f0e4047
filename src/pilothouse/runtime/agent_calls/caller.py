"""The caller of a tool: the live turn of a session, and the key that makes its call unique.

A call acts for the turn that its session runs now, and without one it is refused. The key of a call is its tool, its
arguments and the number of such calls in this attempt of the turn. A call that the engine repeats under the same id, and
a call that a repeated turn makes again, therefore have the key of the first one, and nothing is done twice.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct, field

from pilothouse.core.conversation import Conversation, Session
from pilothouse.core.errors import PilothouseError
from pilothouse.core.ids import ConversationId, SessionId, TurnId
from pilothouse.core.schedule import split_task_place
from pilothouse.core.store import Tx
from pilothouse.core.turn import Turn
from pilothouse.runtime.outbox import tool_key
from pilothouse.runtime.ports import Ports

MOST_CALLS = 200
"""Calls with an effect that one attempt of a turn may make."""
MOST_TURNS = 1000

NO_TURN = "No turn of this session runs now, so nothing was done. Tools work during a turn only."
TOO_MANY = f"This turn has made {MOST_CALLS} calls. Finish it, and say the rest in the answer."


class CallRefused(PilothouseError):
    """A tool call was refused. The text is for the agent."""


class Caller(Struct, frozen=True):
    """`conversation` is where the turn came from, and `key` is the key of this call."""

    turn: Turn
    session: Session
    conversation: Conversation
    key: str = ""

    @property
    def place(self) -> ConversationId:
        """The conversation of people: in the run of a task, and for an agent that was asked, the one where that began."""
        return split_task_place(self.conversation.id)[0]


class _Attempt(Struct):
    by_use_id: dict[str, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)


class CallKeys:
    """Numbers the calls of running turns. A restart may forget it: then the turn begins a new attempt."""

    def __init__(self) -> None:
        self._attempts: dict[tuple[TurnId, int], _Attempt] = {}

    def key(self, turn: Turn, tool: str, arguments: Mapping[str, Any], use_id: str) -> str:
        """Return the key of a call. Raises `CallRefused` if the turn has made too many."""
        attempt = self._attempts.setdefault((turn.id, turn.attempts), _Attempt())
        if use_id and use_id in attempt.by_use_id:
            return attempt.by_use_id[use_id]
        if attempt.counts.total() >= MOST_CALLS:
            raise CallRefused(TOO_MANY)
        if len(self._attempts) > MOST_TURNS:
            del self._attempts[next(iter(self._attempts))]
        given = msgspec.json.encode([tool, arguments], order="sorted")
        digest = hashlib.sha256(given).hexdigest()[:16]
        attempt.counts[digest] += 1
        key = tool_key(turn.id, tool, digest, attempt.counts[digest])
        if use_id:
            attempt.by_use_id[use_id] = key
        return key


def read_caller(tx: Tx, session_id: SessionId) -> Caller:
    """Raises `CallRefused` without a live turn."""
    turn, session = tx.turns.live(session_id), tx.sessions.get(session_id)
    conversation = tx.conversations.get(turn.conversation_id) if turn else None
    if turn is None or session is None or conversation is None or turn.stop_requested:
        raise CallRefused(NO_TURN)
    return Caller(turn, session, conversation)


async def find_caller(
    ports: Ports, keys: CallKeys, session_id: SessionId, tool: str, arguments: Mapping[str, Any], use_id: str
) -> Caller:
    caller = await ports.store.read(lambda tx: read_caller(tx, session_id))
    return msgspec.structs.replace(caller, key=keys.key(caller.turn, tool, arguments, use_id))


def check_live(tx: Tx, caller: Caller) -> None:
    """Raise `CallRefused` if the turn ended in the meantime. For the transaction that does something."""
    if read_caller(tx, caller.session.id).turn.id != caller.turn.id:
        raise CallRefused(NO_TURN)
