"""The hand that writes: text with air around it, asides close together, each in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal

from msgspec import Struct

from pilothouse.channels.terminal.ink import Ink, wash, wrap
from pilothouse.channels.terminal.markdown import blocks, draw
from pilothouse.channels.terminal.screen import Screen


class Look(Struct, frozen=True):
    """`streamed`: text is shown while it comes in, with air around it; else the answer is written as it is, at
    the end. `drawn`: its Markdown is drawn, in `color` or without. `ink` is for all that is not the answer."""

    ink: Ink
    width: Callable[[], int]
    drawn: bool
    streamed: bool
    color: bool = False
    verbose: bool = False
    asks: bool = True
    """Whether asks are shown here; a one-shot message has its own way with them."""

    @property
    def columns(self) -> int:
        return self.width()

    def words(self, text: str) -> str:
        """A notice or a failure, as it was written; wrapped where a person reads it, not in a pipe."""
        return wrap(text, self.columns) if self.streamed else wash(text)


class Pen:
    def __init__(self, screen: Screen, look: Look) -> None:
        self.screen = screen
        self.look = look
        self._last: Literal["", "text", "aside", "end"] = ""

    async def text(self, found: Iterable[str]) -> None:
        """Blocks of Markdown, each with air before it."""
        for block in found:
            gap = "\n" if self._last and self.look.streamed else ""
            await self.screen.say(gap + self._drawn(block))
            self._last = "text"

    async def whole(self, text: str) -> None:
        await self.text(blocks(text) if self.look.streamed else [text.strip("\n")])

    async def aside(self, *lines: str) -> None:
        """Lines that are not the answer; empty ones are left out."""
        for line in filter(None, lines):
            gap = "\n" if self._last in ("text", "end") and self.look.streamed else ""
            await self.screen.note(gap + line)
            self._last = "aside"

    def part_here(self) -> None:
        """Whatever comes next has air before it."""
        self._last = self._last and "end"

    def _drawn(self, block: str) -> str:
        if self.look.drawn:
            return draw(block, self.look.columns, color=self.look.color)
        return wash(block) if self.look.streamed else block
