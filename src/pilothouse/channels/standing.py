"""Progress that an answer may take the place of: which turn's stands where, and whether it is an answer by now.

In memory alone: after a restart the answer is a message of its own.
"""

from __future__ import annotations

import anyio

from pilothouse.core.ids import TurnId
from pilothouse.core.message import MessageRef

ANSWER_S = 5.0
"""How long the progress of a turn that is over waits for its answer before it goes away."""


class Standing:
    def __init__(self) -> None:
        self._of_turn: dict[TurnId, MessageRef] = {}
        self._taken: dict[MessageRef, anyio.Event] = {}

    def put(self, turn_id: TurnId, ref: MessageRef) -> None:
        self._of_turn[turn_id] = ref
        self._taken[ref] = anyio.Event()

    def of(self, turn_id: TurnId) -> MessageRef | None:
        return self._of_turn.get(turn_id)

    def take(self, turn_id: TurnId) -> None:
        """It is the answer from now on."""
        if (ref := self._of_turn.pop(turn_id, None)) is not None:
            self._taken[ref].set()

    def is_taken(self, ref: MessageRef) -> bool:
        return ref in self._taken and self._taken[ref].is_set()

    async def leave(self, ref: MessageRef) -> bool:
        """Forgets it, once its answer came or did not come; true if it shall go away."""
        if ref not in self._taken:
            return True
        with anyio.move_on_after(ANSWER_S):
            await self._taken[ref].wait()
        self._of_turn = {turn: stands for turn, stands in self._of_turn.items() if stands != ref}
        return not self._taken.pop(ref).is_set()
