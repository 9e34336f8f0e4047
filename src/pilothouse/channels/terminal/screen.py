"""Output. A `Screen` prints the answer (`say`), everything around it (`note`) and one live line (`status`).

A `Writer` puts text on a screen with blank lines between blocks and asides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Literal, Protocol, TextIO

from msgspec import Struct

from pilothouse.channels.terminal.markdown import blocks, draw
from pilothouse.channels.terminal.streams import Streams
from pilothouse.channels.terminal.style import Palette, sanitize, wrap
from pilothouse.core.errors import TryLater


class Screen(Protocol):
    @property
    def live(self) -> bool:
        """True if one line can be rewritten; if not, progress is printed as plain lines."""
        ...

    async def say(self, text: str) -> None: ...

    async def note(self, text: str) -> None: ...

    def status(self, line: str) -> None: ...

    def draft(self, text: str) -> bool:
        """Shows the text that is still being written, in place of the one before. Returns false if it cannot."""
        ...


class PlainScreen:
    """Answers on stdout, the rest on stderr; on a terminal stderr's last line is the status."""

    def __init__(self, streams: Streams, notes: TextIO | None = None) -> None:
        self._out = streams.stdout
        self._notes = notes or streams.stderr
        self._shown = ""
        self._quiet = False
        self.live = streams.live

    async def say(self, text: str) -> None:
        self._clear()
        put(self._out, text + "\n")

    async def note(self, text: str) -> None:
        self._clear()
        put(self._notes, text + "\n")

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Hides the status line, which would overwrite what is typed."""
        self._clear()
        self._quiet = True
        try:
            yield
        finally:
            self._quiet = False

    def status(self, line: str) -> None:
        if self.live and line != self._shown and not self._quiet:
            self._shown = line
            put(self._notes, f"\r\x1b[2K{line}")

    def draft(self, text: str) -> bool:
        return False

    def _clear(self) -> None:
        self.status("")


def put(stream: TextIO, text: str) -> None:
    """Writes and flushes; characters that the encoding lacks become question marks."""
    try:
        try:
            stream.write(text)
        except UnicodeEncodeError as error:
            stream.write(text.encode(error.encoding, "replace").decode(error.encoding))
        stream.flush()
    except (OSError, ValueError) as error:  # a broken pipe, a closed window, a closed file
        raise TryLater(60.0, "the terminal's output is closed") from error


class Display(Struct, frozen=True):
    """`streamed`: text is shown as it comes in, with blank lines around it; else the answer is written unchanged at the
    end. `drawn`: Markdown is drawn, in `color` or without. `palette` colours everything but the answer."""

    palette: Palette
    width: Callable[[], int]
    drawn: bool
    streamed: bool
    color: bool = False
    verbose: bool = False
    asks: bool = True
    """True if asks are shown here; a one-shot message asks in its own way."""
    folder: str = ""
    """The workspace: paths in it are shown relative to it."""

    @property
    def columns(self) -> int:
        return self.width()

    def draw(self, text: str) -> str:
        """Draws Markdown, if this display does."""
        if self.drawn:
            return draw(text, self.columns, color=self.color)
        return sanitize(text) if self.streamed else text

    def words(self, text: str) -> str:
        """Returns a notice or failure: wrapped for a terminal, unchanged for a pipe."""
        return wrap(text, self.columns) if self.streamed else sanitize(text)


class Writer:
    def __init__(self, screen: Screen, display: Display) -> None:
        self.screen = screen
        self.display = display
        self._last: Literal["", "text", "aside", "end"] = ""

    async def text(self, found: Iterable[str]) -> None:
        """Writes blocks of Markdown, each after a blank line."""
        for block in found:
            gap = "\n" if self._last and self.display.streamed else ""
            await self.screen.say(gap + self.display.draw(block))
            self._last = "text"

    async def whole(self, text: str) -> None:
        await self.text(blocks(text) if self.display.streamed else [text.strip("\n")])

    async def aside(self, *lines: str) -> None:
        """Writes lines that are not the answer; skips empty ones."""
        for line in filter(None, lines):
            gap = "\n" if self._last in ("text", "end") and self.display.streamed else ""
            await self.screen.note(gap + line)
            self._last = "aside"

    def break_here(self) -> None:
        """Puts a blank line before what comes next."""
        self._last = self._last and "end"
