"""Many places that stream at once, on any platform: the engine's part, the people's part, and the result."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import anyio
from tests.runtime.puppet import Strings

PATIENCE_S = 180.0
VIEWS: dict[str, Any] = {"first_view_s": 2.0, "edit_every_s": 1.25}


class Crowd(NamedTuple):
    """`lags` are the seconds between the end of a turn and its answer, of all that were delivered."""

    lags: list[float]
    missing: int
    refused: int
    counted: int
    """Requests that the platform's limits are about."""
    edits: int
    """How often progress was shown anew."""


class Plan(NamedTuple):
    """In each place one turn after the other; the places begin `apart_s` apart, and so end apart."""

    turns: int = 1
    words: int = 20
    every_s: float = 0.1
    apart_s: float = 0.0


class Crowding:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._ended: dict[str, float] = {}

    async def play(self, strings: Strings) -> None:
        said = next(word for word in strings.prompt.text.split() if word.startswith("place"))
        await strings.start()
        for number in range(self._plan.words):
            await strings.say(f"word {number} of {said} ")
            await anyio.sleep(self._plan.every_s)
        self._ended[said] = time.time()
        await strings.end(f"answer {said}")

    async def talk(
        self,
        places: int,
        say: Callable[[int, str], None],
        answered_at: Callable[[int, str], Awaitable[float]],
    ) -> list[float]:
        """The lags. `say` says something in the place of that number; `answered_at` waits for the answer to it."""
        lags: list[float] = []

        async def talk_in(number: int) -> None:
            await anyio.sleep(number * self._plan.apart_s)
            for turn in range(self._plan.turns):
                said = _name(number, turn)
                say(number, said)
                lags.append(await answered_at(number, said) - self._ended[said])

        with anyio.move_on_after(PATIENCE_S):
            async with anyio.create_task_group() as tasks:
                for number in range(places):
                    tasks.start_soon(talk_in, number)
        return lags


def _name(number: int, turn: int) -> str:
    """As no other place's turn is called, nor part of another's name."""
    return f"place{number:03d}turn{turn:02d}."
