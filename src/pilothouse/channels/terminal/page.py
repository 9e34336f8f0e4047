"""One turn on the screen: what was printed, and what is missing.

The event stream and the delivered answer race. The second finds here what the first one printed, so that every block
of the answer is printed exactly once.

`LiveArea` is the part of the screen that changes in place: the text that is being written, and one line of status.
"""

from __future__ import annotations

from collections.abc import Iterable

from pilothouse.channels.terminal.ask_queue import AskQueue
from pilothouse.channels.terminal.markdown import blocks, complete, missing
from pilothouse.channels.terminal.render import activity_line, spinner, tail_line
from pilothouse.channels.terminal.screen import Display, Screen
from pilothouse.channels.terminal.style import fit
from pilothouse.core.channel import LoggedEvent
from pilothouse.core.clock import Clock
from pilothouse.core.event import TurnEnded
from pilothouse.core.ids import CallId
from pilothouse.core.message import Part
from pilothouse.core.view import TurnView, fold


class Page:
    def __init__(self, first_seq: int, *, past: bool) -> None:
        self.first_seq = first_seq
        self.past = past
        """True if all its events happened before the terminal opened."""
        self.view = TurnView()
        self.printed: list[str] = []
        self.held: list[str] = []
        """Lines about calls that began, held until it is certain that no ask about them follows."""
        self.refused: set[CallId] = set()
        """Calls that a person denied: they did not fail, they were not run."""
        self.began_at: float | None = None
        self.ended_at: float | None = None
        self.heard_at = 0.0
        self.delivered = False
        self.closed = False

    def take(self, row: LoggedEvent, heard_at: float) -> None:
        self.view = fold(self.view, row.event, row.at)
        self.began_at = row.at if self.began_at is None else self.began_at
        self.heard_at = heard_at
        if isinstance(row.event, TurnEnded):
            self.ended_at = row.at

    @property
    def running(self) -> bool:
        return self.began_at is not None and self.ended_at is None and not self.past and not self.delivered

    @property
    def settled(self) -> bool:
        """True if nothing more will come. A turn without a delivered answer gets one more chance, later."""
        return self.ended_at is not None and (self.delivered or self.past)

    def is_answer(self, part: Part) -> bool:
        """Returns true for the answer, or the text so far of a turn that goes on later.

        Any other part is a notice: the turn waits, was stopped, or failed."""
        if self.view.outcome in ("failed", "cancelled"):
            return False
        return part.data.get("kind") != "notice" or part.text.strip() in self.view.text

    def due(self, now: float) -> list[str]:
        """Returns the blocks to print now: complete, and not held back for a tool call that may follow."""
        view = self.view
        held = view.draft_at is not None and now - view.draft_at < view.hold_s
        if (
            self.past
            or self.closed
            or self.delivered
            or view.phase == "idle"
            or (view.phase == "buffering" and held)
        ):
            return []
        return self._fresh(whole=False)

    def live_text(self) -> str:
        """Returns the text that is not printed yet, complete or not."""
        if self.past or self.closed or self.delivered or self.view.phase == "ended":
            return ""
        now = [part for block in self.view.blocks.values() for part in blocks(block.text)]
        return "\n\n".join(now[self._same(now) :])

    def flush(self) -> list[str]:
        """Returns every block, complete or not: nothing will be added to it."""
        return [] if self.past or self.closed else self._fresh(whole=True)

    def rest_of(self, text: str) -> list[str]:
        rest = missing(blocks(text), self.printed)
        self.printed += rest
        return rest

    def _fresh(self, *, whole: bool) -> list[str]:
        texts = [block.text for block in self.view.blocks.values()]
        now = [part for text in texts[:-1] for part in blocks(text)]
        now += (blocks if whole else complete)(texts[-1]) if texts else []
        same = self._same(now)
        if same == len(now):
            return []
        self.printed = now
        return now[same:]

    def _same(self, now: list[str]) -> int:
        """Returns how many blocks are printed already."""
        same = 0
        while same < min(len(now), len(self.printed)) and now[same] == self.printed[same]:
            same += 1
        return same


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
