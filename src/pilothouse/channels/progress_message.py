"""Progress messages that an answer may replace: where each turn has one, and whether it became the answer.

Kept in memory only: after a restart the answer is a new message.
"""

from __future__ import annotations

import anyio

from pilothouse.core.ids import TurnId
from pilothouse.core.message import MessageRef

ANSWER_S = 5.0
"""How long the progress message of an ended turn waits for its answer before it is deleted."""


class _Place:
    def __init__(self) -> None:
        self.settled = anyio.Event()
        self.is_answer = False


class ProgressMessages:
    def __init__(self) -> None:
        self._of_turn: dict[TurnId, MessageRef] = {}
        self._places: dict[MessageRef, _Place] = {}

    def put(self, turn_id: TurnId, ref: MessageRef) -> None:
        self._of_turn[turn_id] = ref
        self._places[ref] = _Place()

    def of(self, turn_id: TurnId) -> MessageRef | None:
        return self._of_turn.get(turn_id)

    def take(self, turn_id: TurnId, *, taken: bool) -> None:
        """Marks the message as the answer if `taken`. If not, no later part may use it: that would be above the first."""
        ref = self._of_turn.pop(turn_id, None)
        if ref is not None and (place := self._places.get(ref)) is not None:
            place.is_answer = taken
            place.settled.set()

    def is_taken(self, ref: MessageRef) -> bool:
        return ref in self._places and self._places[ref].is_answer

    async def leave(self, ref: MessageRef) -> bool:
        """Waits for the answer, then forgets the message; returns true if it is to be deleted."""
        place = self._places.get(ref)
        if place is None:
            return True
        with anyio.move_on_after(ANSWER_S):
            await place.settled.wait()
        self._of_turn = {turn: other for turn, other in self._of_turn.items() if other != ref}
        self._places.pop(ref, None)
        return not place.is_answer
