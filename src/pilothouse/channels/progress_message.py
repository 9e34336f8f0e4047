"""Progress that an answer may take the place of: which turn's stands where, and whether it is an answer by now.

In memory alone: after a restart the answer is a message of its own.
"""

from __future__ import annotations

import anyio

from pilothouse.core.ids import TurnId
from pilothouse.core.message import MessageRef

ANSWER_S = 5.0
"""How long the progress of a turn that is over waits for its answer before it goes away."""


class _Place:
    def __init__(self) -> None:
        self.settled = anyio.Event()
        self.is_answer = False


class Standing:
    def __init__(self) -> None:
        self._of_turn: dict[TurnId, MessageRef] = {}
        self._places: dict[MessageRef, _Place] = {}

    def put(self, turn_id: TurnId, ref: MessageRef) -> None:
        self._of_turn[turn_id] = ref
        self._places[ref] = _Place()

    def of(self, turn_id: TurnId) -> MessageRef | None:
        return self._of_turn.get(turn_id)

    def take(self, turn_id: TurnId, *, taken: bool) -> None:
        """It is the answer from now on; or, if it could not be `taken`, it is no place for the rest of it either, which
        would stand above its beginning."""
        ref = self._of_turn.pop(turn_id, None)
        if ref is not None and (place := self._places.get(ref)) is not None:
            place.is_answer = taken
            place.settled.set()

    def is_taken(self, ref: MessageRef) -> bool:
        return ref in self._places and self._places[ref].is_answer

    async def leave(self, ref: MessageRef) -> bool:
        """Forgets it, once its answer came or did not come; true if it shall go away."""
        place = self._places.get(ref)
        if place is None:
            return True
        with anyio.move_on_after(ANSWER_S):
            await place.settled.wait()
        self._of_turn = {turn: stands for turn, stands in self._of_turn.items() if stands != ref}
        self._places.pop(ref, None)
        return not place.is_answer
