"""Open asks, oldest first. Only the first is on the screen, so it is always clear which one a key answers."""

from __future__ import annotations

from pilothouse.channels.terminal.receive import decide
from pilothouse.core.ask import Ask
from pilothouse.core.ask_words import subject
from pilothouse.core.clock import Clock
from pilothouse.core.ids import AskId


class AskQueue:
    """Kept apart from the views of turns: an ask may outlive its turn."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: dict[AskId, Ask] = {}
        self._shown: set[AskId] = set()
        self._settled: set[AskId] = set()
        self._answered_here: set[AskId] = set()
        self._stopped_here: dict[AskId, Ask] = {}
        self._since = 0.0

    @property
    def front(self) -> Ask | None:
        """The ask that keys and words answer."""
        return next(iter(self._open.values()), None)

    @property
    def behind(self) -> int:
        """How many more are open."""
        return max(0, len(self._open) - 1)

    @property
    def stood_s(self) -> float:
        """How long the first ask has been on the screen; 0 if there is none."""
        front = self.front
        return self._clock.monotonic() - self._since if front and front.id in self._shown else 0.0

    def is_stale(self, text: str, seen: Ask | None) -> bool:
        """True if the text answers a question, and another one than was `seen` is on the screen by now."""
        front = self.front
        if (seen and seen.id) == (front and front.id):
            return False
        return any(ask is not None and decide(ask, text) is not None for ask in (seen, front))

    def add(self, ask: Ask) -> bool:
        """Returns false for an ask that is settled."""
        if ask.id not in self._settled:
            self._open[ask.id] = ask
        return ask.id in self._open

    def is_open(self, id: AskId) -> bool:
        return id in self._open

    def named_in(self, text: str) -> list[AskId]:
        """Returns the open asks that a message tells the end of."""
        return [id for id, one in self._open.items() if subject(one) in text]

    def answer_here(self, id: AskId) -> None:
        """Notes that an answer is on its way from here: its result needs no line of its own."""
        self._answered_here.add(id)

    def was_answered_here(self, id: AskId) -> bool:
        return id in self._answered_here

    def stop_here(self) -> None:
        """Notes that the turn was stopped from here: that its asks close needs no line of its own."""
        self._stopped_here = dict(self._open)

    def was_stopped_here(self, id: AskId) -> bool:
        return id in self._stopped_here

    def tells_of_stop(self, text: str) -> bool:
        """True once for a message that only tells the end of an ask whose turn was stopped from here."""
        found = next((id for id, one in self._stopped_here.items() if subject(one) in text), None)
        return found is not None and self._stopped_here.pop(found) is not None

    def forget_stop(self) -> None:
        self._stopped_here = {}

    def settle(self, id: AskId) -> Ask | None:
        """Closes an ask; returns it if it was open here."""
        self._settled.add(id)
        return self._open.pop(id, None)

    def next_to_show(self, *, again: bool = False) -> Ask | None:
        """Returns the first ask when it is due to be shown: once, unless it is shown `again`."""
        first = self.front
        if first is None or (first.id in self._shown and not again):
            return None
        self._shown.add(first.id)
        self._since = self._clock.monotonic()
        return first
