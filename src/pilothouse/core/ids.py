"""Every id is its own type; only its maker looks inside.

An id is made by whoever is given an `IdMaker`; nothing in the house draws random numbers by itself, so that a
test can name every id it will see.
"""

from __future__ import annotations

from typing import NewType, Protocol

ChannelId = NewType("ChannelId", str)
EngineId = NewType("EngineId", str)
UserId = NewType("UserId", str)
ConversationId = NewType("ConversationId", str)
SessionId = NewType("SessionId", str)
TurnId = NewType("TurnId", str)
MessageId = NewType("MessageId", str)
CallId = NewType("CallId", str)
AskId = NewType("AskId", str)
RuleId = NewType("RuleId", str)
ScheduleId = NewType("ScheduleId", str)
BlobHash = NewType("BlobHash", str)
Epoch = NewType("Epoch", int)


class IdMaker(Protocol):
    def __call__(self, prefix: str) -> str:
        """A short id that no other call returned, for example `turn-3f9k2a`."""
        ...
