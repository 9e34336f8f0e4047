"""The part of the screen that changes in place: the text that is being written, and one line of status."""

from __future__ import annotations

from collections.abc import Iterable

from pilothouse.channels.terminal.ask_queue import AskQueue
from pilothouse.channels.terminal.page import Page
from pilothouse.channels.terminal.render import activity_line, spinner, tail_line
from pilothouse.channels.terminal.screen import Display, Screen
from pilothouse.channels.terminal.style import fit
from pilothouse.core.clock import Clock

WAITING = "Waiting for your answer"
LIVE_ROWS = 12
LIVE_CHARS = 6000


class LiveArea:
    def __init__(self, screen: Screen, display: Display, clock: Clock, asks: AskQueue) -> None:
        self._screen = screen
        self._display = display
        self._clock = clock
        self._asks = asks
        self._text = ""
        self._rows = ""
        """The text that is being written, as it was drawn."""

    def show(self, pages: Iterable[Page], *, starting: bool, draw: bool) -> None:
        """Shows the newest turn that runs. Its text is drawn only with `draw`, for drawing takes its time."""
        now, width = self._clock.now(), self._display.columns
        page = next((page for page in pages if page.running), None)
        if page is None:
            self._screen.draft("")
            waiting = WAITING if self._asks.front and self._display.asks else ""
            self._screen.status(fit(f"{spinner(now)} Starting…", width - 1) if starting else waiting)
            return
        text = page.live_text()
        shown = self._screen.draft(self._drawn(text) if draw or not text else self._rows)
        line = activity_line(page.view, now, width)
        if text and not shown and page.view.phase == "buffering":
            line = tail_line(text, now, width)
        elif page.view.asks and self._asks.behind:
            line = fit(f"{line} · {self._asks.behind} more after this", width - 1)
        self._screen.status(line)

    def _drawn(self, text: str) -> str:
        """Draws the last rows of the text."""
        if text != self._text:
            rows = self._display.draw(text[-LIVE_CHARS:]).split("\n") if text else []
            self._text, self._rows = text, "\n".join(rows[-LIVE_ROWS:])
        return self._rows
