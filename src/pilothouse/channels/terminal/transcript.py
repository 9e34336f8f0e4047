"""Shows turns on a screen: events and delivered parts come in, each thing is printed once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import msgspec

from pilothouse.channels.steps import activity_text
from pilothouse.channels.terminal.page import Page
from pilothouse.channels.terminal.render import (
    activity_line,
    ask_text,
    attachment_line,
    closing_line,
    notice_line,
    plan_lines,
    spinner,
    step_line,
)
from pilothouse.channels.terminal.screen import Display, Screen, Writer
from pilothouse.channels.terminal.style import fit, indent
from pilothouse.core.ask import Ask
from pilothouse.core.channel import LoggedEvent
from pilothouse.core.clock import Clock
from pilothouse.core.event import (
    AskChanged,
    Asked,
    Notice,
    PlanChanged,
    PromptAdded,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from pilothouse.core.ids import AskId, TurnId
from pilothouse.core.message import AGAIN_MARK, Author, Part
from pilothouse.core.outcome import Failure
from pilothouse.core.view import TurnView

END_WAIT_S = 0.5
"""How long a delivered answer waits for the end of its turn to be followed, so that both are drawn together."""
DELIVERY_WAIT_S = 2.0
"""How long an ended turn waits for its answer; after that the text of its events is shown."""
HELD_S = 0.3
"""How long a started call waits before it gets a line: an ask about it may follow."""
QUIET_S = 0.3
"""After this much silence a turn that began before the terminal opened counts as running."""
NEWLINE = "\n"
AWAY = "While you were away"


class Transcript:
    def __init__(
        self, screen: Screen, display: Display, clock: Clock, me: Author, *, since: float = 0.0
    ) -> None:
        """Events before `since` are history: they are shown only if they were not delivered then."""
        self._writer = Writer(screen, display)
        self._screen = screen
        self._display = display
        self._clock = clock
        self._me = me
        self._since = since
        self._pages: dict[TurnId, Page] = {}
        self._shown: set[AskId] = set()
        self._open: dict[AskId, Ask] = {}
        """Open asks. Kept apart from the views: an ask may outlive its turn."""
        self._settled: set[AskId] = set()
        self._lock = anyio.Lock()
        self._away = False
        self._expecting: float | None = None
        self._seen_seq = 0
        self._ends: defaultdict[TurnId, anyio.Event] = defaultdict(anyio.Event)

    # State.

    @property
    def running(self) -> bool:
        return self._expecting is not None or any(page.running for page in self._pages.values())

    @property
    def ask(self) -> Ask | None:
        """The oldest open ask."""
        return next(iter(self._open.values()), None)

    @property
    def safe_seq(self) -> int:
        """The event after which to follow next time, so that no unfinished or undelivered turn is missed."""
        kept = [page.first_seq for page in self._pages.values() if not page.settled]
        return min(kept, default=self._seen_seq + 1) - 1

    def expect(self) -> None:
        """Notes that a message was sent: a turn will begin."""
        self._expecting = self._clock.now()

    def settle(self, ask: AskId) -> Ask | None:
        """Closes an ask; returns it if it was open here."""
        self._settled.add(ask)
        return self._open.pop(ask, None)

    # Input.

    async def asked(self, ask: Ask) -> None:
        """Shows an ask that was open before the terminal."""
        async with self._lock:
            await self._ask(ask)

    async def event(self, row: LoggedEvent) -> None:
        """Takes an event. An ask may change after its turn's end: that settles the ask and shows nothing of the turn."""
        self._seen_seq = row.seq
        async with self._lock:
            if isinstance(row.event, AskChanged):
                await self._ask_changed(row.event)
            page = self._page_for(row)
            if page is None:
                return
            before = page.view
            page.past = page.past and self._is_past(row)
            page.take(row, self._clock.monotonic())
            if page.ended_at is not None:
                self._ends[row.turn_id].set()
            if page.closed or page.past or (page.delivered and page.ended_at is None):
                return
            self._expecting = None
            if isinstance(row.event, AskChanged) and row.event.said.startswith("denied"):
                page.held.clear()
            await self._tell(page, row, before)
        self.draw_status()

    async def part(self, part: Part) -> None:
        kind, turn = part.data.get("kind"), TurnId(part.data.get("turn_id") or "")
        page = await self._page_of(turn) if turn and kind != "ask" and not part.again else None
        async with self._lock:
            self._expecting = None
            if kind == "ask":
                await self._ask(msgspec.convert(part.data["ask"], Ask), again=part.again)
            elif not turn or part.again or (page and page.past):
                await self._apart(part, page)
            else:
                await self._deliver(page or self._unheard(turn), part)
        self.draw_status()

    async def tick(self) -> None:
        """Prints held text that is due, and closes ended turns that waited long enough."""
        now = self._clock.monotonic()
        async with self._lock:
            for page in list(self._pages.values()):
                if page.past and page.ended_at is None and now - page.heard_at >= QUIET_S:
                    page.past = False
                if self._display.streamed:
                    await self._writer.text(page.due(self._clock.now()))
                await self._announce(page, held_s=HELD_S)
                late = page.ended_at is not None and now - page.heard_at >= DELIVERY_WAIT_S
                if late and not page.past and not page.closed:
                    await self._close(page)
        self.draw_status()

    @asynccontextmanager
    async def paused(self) -> AsyncIterator[None]:
        """Prints nothing meanwhile: the screen belongs to another program."""
        async with self._lock:
            yield

    async def note(self, text: str, *, alone: bool = False) -> None:
        """Prints a line of our own; with `alone`, a blank line follows it."""
        async with self._lock:
            await self._writer.aside(text)
            if alone:
                self._writer.break_here()

    async def finish(self) -> None:
        """Shows what is missing of ended turns before the terminal closes."""
        async with self._lock:
            for page in self._pages.values():
                if page.ended_at is not None and not page.past:
                    await self._close(page)

    def draw_status(self) -> None:
        now, width = self._clock.now(), self._display.columns
        page = next((page for page in reversed(self._pages.values()) if page.running), None)
        if page:
            self._screen.status(activity_line(page.view, now, width))
        else:
            self._screen.status(fit(f"{spinner(now)} Starting…", width - 1) if self._expecting else "")

    def _page_for(self, row: LoggedEvent) -> Page | None:
        """Returns the page of the event's turn; None if it ended, or if only an ask of an unseen turn changed."""
        page = self._pages.get(row.turn_id)
        if page is None and not isinstance(row.event, AskChanged):
            page = self._pages[row.turn_id] = Page(row.seq, past=self._is_past(row))
        return page if page and page.ended_at is None else None

    def _is_past(self, row: LoggedEvent) -> bool:
        return row.at < self._since and self._expecting is None

    # Output.

    async def _tell(self, page: Page, row: LoggedEvent, before: TurnView) -> None:
        palette, columns = self._display.palette, self._display.columns
        if not isinstance(row.event, Asked):
            await self._announce(page)
        match row.event:
            case PromptAdded(text=text, by=by) if by not in ("", self._me.id, self._me.name):
                await self._writer.aside(palette.dim(f"❯ {fit(text, columns - 2)}"))
            case ToolStarted(call=call):
                await self._narration(page)
                page.held += [] if self._screen.live else [f"  {fit(activity_text(call), columns - 2)}"]
            case ToolFinished(call_id=call_id):
                done = (action for action in page.view.recent_actions if action.id == call_id)
                await self._writer.aside(*(step_line(action, palette, columns) for action in done))
            case Asked(ask=ask):
                await self._narration(page)
                await self._ask(ask)
            case PlanChanged(items=items):
                await self._writer.aside(plan_lines(before.plan, items, palette, columns))
            case Notice():
                await self._writer.aside(notice_line(row.event, palette, columns))
            case TurnEnded() if page.delivered:
                await self._close(page)
            case _:
                pass

    async def _page_of(self, turn: TurnId) -> Page | None:
        """Returns the turn's page, after waiting a moment for the turn's end."""
        with anyio.move_on_after(END_WAIT_S):
            await self._ends[turn].wait()
        return self._pages.get(turn)

    def _unheard(self, turn: TurnId) -> Page:
        """Returns a page for a turn whose events come later, if at all."""
        return self._pages.setdefault(turn, Page(self._seen_seq + 1, past=False))

    async def _deliver(self, page: Page, part: Part) -> None:
        page.delivered = part.data.get("kind") == "answer" or page.ended_at is not None
        view = page.view
        if view.outcome != "completed" and page.ended_at is not None:
            await self._narration(page)
        if not (view.outcome == "failed" and page.closed and view.failure and view.failure.text in part.text):
            if page.is_answer(part):
                await self._answer(page, part.text)
            else:
                paint = self._display.palette.red if view.outcome == "failed" else self._display.palette.dim
                await self._writer.aside(
                    *(paint(self._display.words(block)) for block in page.rest_of(part.text))
                )
            await self._files(part)
        if page.ended_at is not None:
            await self._close(page)

    async def _close(self, page: Page) -> None:
        if page.closed:
            return
        view = page.view
        if not page.delivered and view.outcome == "completed":
            await self._answer(page, view.answer or view.text)
        elif not page.delivered:
            words = page.rest_of(view.answer or view.text)
            await self._writer.aside(
                *(self._display.palette.dim(indent(block, self._display.columns)) for block in words)
            )
        if view.failure:
            await self._failure(page, view.failure)
        page.closed = True
        await self._closing(page)

    async def _closing(self, page: Page) -> None:
        if page.ended_at is not None:
            await self._writer.aside(closing_line(page.view, page.ended_at, self._display.palette))
        self._writer.break_here()

    async def _answer(self, page: Page, text: str) -> None:
        rest = page.rest_of(text)
        if self._display.streamed:
            await self._writer.text(rest)
        elif rest:
            await self._writer.whole(text)

    async def _failure(self, page: Page, failure: Failure) -> None:
        """Prints the failure unless it was delivered already; its detail only with `verbose`."""
        palette = self._display.palette
        if not page.delivered and not any(failure.text in block for block in page.printed):
            await self._writer.aside(palette.red(self._display.words(failure.text)))
        if self._display.verbose and failure.detail:
            await self._writer.aside(palette.dim(indent(failure.detail, self._display.columns)))

    async def _apart(self, part: Part, page: Page | None) -> None:
        """Prints a part of no turn on the screen: an old answer, a reply, a repeat."""
        if page is not None and not self._away:
            self._away = True
            await self._writer.aside(self._display.palette.dim(AWAY))
        await self._writer.whole(part.text)
        await self._files(part)
        await self._writer.aside(self._display.palette.dim(AGAIN_MARK) if part.again else "")
        if page is not None:
            await self._closing(page)
        self._writer.break_here()

    async def _ask(self, ask: Ask, *, again: bool = False) -> None:
        if ask.id in self._settled:
            return
        self._open[ask.id] = ask
        if not self._display.asks or (ask.id in self._shown and not again):
            return
        self._shown.add(ask.id)
        self._writer.break_here()
        palette = self._display.palette
        await self._writer.aside(
            ask_text(ask, palette, self._display.columns), palette.dim(AGAIN_MARK) if again else ""
        )

    async def _ask_changed(self, change: AskChanged) -> None:
        """Prints one line about an ask that was settled elsewhere: who answered what."""
        ask = self.settle(change.ask_id)
        if ask is None or change.by == self._me.id:
            return
        by = f", by {change.by}" if change.by else ""
        line = f"→ {ask.title.split(NEWLINE)[0]} · {change.said or change.state}{by}"
        await self._writer.aside(self._display.palette.dim(indent(line, self._display.columns)))

    async def _announce(self, page: Page, *, held_s: float = 0.0) -> None:
        """Prints started calls on a screen without a status line, but not a call that waits for an ask."""
        if page.held and not page.view.asks and self._clock.monotonic() - page.heard_at >= held_s:
            await self._writer.aside(*page.held)
            page.held.clear()

    async def _narration(self, page: Page) -> None:
        """Prints text before a tool call dimmed: it is not the answer."""
        if self._display.streamed:
            columns = self._display.columns
            await self._writer.aside(
                *(self._display.palette.dim(indent(block, columns)) for block in page.flush())
            )

    async def _files(self, part: Part) -> None:
        palette, columns = self._display.palette, self._display.columns
        await self._writer.aside(*(attachment_line(file, palette, columns) for file in part.attachments))
