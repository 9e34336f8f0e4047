"""Id types. Each kind of id is its own type, and only the code that makes it parses it.

New ids come from an `IdMaker` argument, never from a global random generator, so that a test knows every id in advance.
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
        """Return a new short id, for example `turn-3f9k2a`."""
        ...
