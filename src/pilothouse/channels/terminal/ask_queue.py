"""Open asks, oldest first, and how they are printed. Only the first is on the screen, so it is clear which one a key answers.

One line is printed for each ask that was settled elsewhere.
"""

from __future__ import annotations

from pilothouse.channels.terminal.ask_text import ask_text
from pilothouse.channels.terminal.receive import decide
from pilothouse.channels.terminal.screen import Writer
from pilothouse.channels.terminal.style import indent
from pilothouse.core.ask import Ask
from pilothouse.core.ask_view import subject
from pilothouse.core.clock import Clock
from pilothouse.core.event import AskChanged
from pilothouse.core.ids import AskId
from pilothouse.core.message import AGAIN_MARK, Author


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
        """Return how many more are open."""
        return max(0, len(self._open) - 1)

    @property
    def stood_s(self) -> float:
        """Return how long the first ask has been on the screen; 0 if there is none."""
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


class AskBoard:
    def __init__(self, asks: AskQueue, writer: Writer, me: Author) -> None:
        self._asks = asks
        self._writer = writer
        self._display = writer.display
        self._me = me

    async def show(self, ask: Ask, *, again: bool = False) -> None:
        """Takes an ask, and prints it when it is the oldest one; with `again`, also if it is on the screen."""
        if self._asks.add(ask):
            await self.show_next(again=again and ask == self._asks.front)

    async def show_next(self, *, again: bool = False) -> None:
        found = self._asks.next_to_show(again=again) if self._display.asks else None
        if found is not None:
            display, palette = self._display, self._display.palette
            self._writer.break_here()
            text = ask_text(
                found, palette, display.columns, display.folder, enter=not self._writer.screen.live
            )
            await self._writer.aside(text, palette.dim(AGAIN_MARK) if again else "")

    def is_by_other(self, change: AskChanged) -> bool:
        """True if another person answered: a message tells that with their name."""
        return change.state == "answered" and change.by not in (None, self._me.id)

    async def settled_elsewhere(self, change: AskChanged) -> None:
        """Prints how the ask ended, unless it was answered here or a message tells it; then the next ask."""
        found = self._asks.settle(change.ask_id)
        if found is None:
            return
        here = change.by == self._me.id and self._asks.was_answered_here(change.ask_id)
        stopped = change.state == "withdrawn" and self._asks.was_stopped_here(change.ask_id)
        if not here and not stopped and not self.is_by_other(change):
            line = f"→ {subject(found)} · {change.said or change.state}"
            await self._writer.aside(self._display.palette.dim(indent(line, self._display.columns)))
        await self.show_next()
