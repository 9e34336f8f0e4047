"""Prints asks: the oldest open one in full, and one line for each that was settled elsewhere."""

from __future__ import annotations

from pilothouse.channels.terminal.ask_queue import AskQueue
from pilothouse.channels.terminal.ask_text import ask_text
from pilothouse.channels.terminal.screen import Writer
from pilothouse.channels.terminal.style import indent
from pilothouse.core.ask import Ask
from pilothouse.core.ask_words import subject
from pilothouse.core.event import AskChanged
from pilothouse.core.message import AGAIN_MARK, Author


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
