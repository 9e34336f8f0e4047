"""Turns as a person reads them: events and delivered parts in, text on a screen out, each thing once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import msgspec

from pilothouse.channels.terminal.ink import fit, hang
from pilothouse.channels.terminal.page import Page
from pilothouse.channels.terminal.pen import Look, Pen
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
from pilothouse.channels.terminal.screen import Screen
from pilothouse.channels.text import activity_text
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
"""How long a delivered answer waits for the end of its turn to be followed, so that it is drawn with it."""
DELIVERY_WAIT_S = 2.0
"""How long an ended turn waits for its answer; after that the event's own words are shown."""
HELD_S = 0.3
"""How long a call that began waits to be told in a line of its own: an ask about it may follow."""
QUIET_S = 0.3
"""After this much silence a turn that began before we came is taken to be running still."""
NEWLINE = "\n"
AWAY = "While you were away"


class Transcript:
    def __init__(self, screen: Screen, look: Look, clock: Clock, me: Author, *, since: float = 0.0) -> None:
        """What happened before `since` is history: it is told only if it was not delivered then."""
        self._pen = Pen(screen, look)
        self._screen = screen
        self._look = look
        self._clock = clock
        self._me = me
        self._since = since
        self._pages: dict[TurnId, Page] = {}
        self._shown: set[AskId] = set()
        self._open: dict[AskId, Ask] = {}
        """Asks that wait for an answer. Not the views': an ask may outlive the turn that asked."""
        self._settled: set[AskId] = set()
        self._lock = anyio.Lock()
        self._away = False
        self._expecting: float | None = None
        self._seen_seq = 0
        self._ends: defaultdict[TurnId, anyio.Event] = defaultdict(anyio.Event)

    # What is known.

    @property
    def running(self) -> bool:
        return self._expecting is not None or any(page.running for page in self._pages.values())

    @property
    def ask(self) -> Ask | None:
        """The oldest ask that waits for an answer."""
        return next(iter(self._open.values()), None)

    @property
    def safe_seq(self) -> int:
        """Following after this later misses nothing that has not ended, or was not delivered, yet."""
        kept = [page.first_seq for page in self._pages.values() if not page.settled]
        return min(kept, default=self._seen_seq + 1) - 1

    def expect(self) -> None:
        """A message was sent: something will begin."""
        self._expecting = self._clock.now()

    def settle(self, ask: AskId) -> Ask | None:
        """The ask is not open any more; what it was, if it was open here."""
        self._settled.add(ask)
        return self._open.pop(ask, None)

    # What comes in.

    async def asked(self, ask: Ask) -> None:
        """An ask that was open before anything was followed."""
        async with self._lock:
            await self._ask(ask)

    async def event(self, row: LoggedEvent) -> None:
        """An ask may change after its turn's end: that settles the ask, and tells nothing of the turn."""
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
        """Time passed: held text may be due, and an ended turn may have waited long enough."""
        now = self._clock.monotonic()
        async with self._lock:
            for page in list(self._pages.values()):
                if page.past and page.ended_at is None and now - page.heard_at >= QUIET_S:
                    page.past = False
                if self._look.streamed:
                    await self._pen.text(page.due(self._clock.now()))
                await self._announce(page, held_s=HELD_S)
                late = page.ended_at is not None and now - page.heard_at >= DELIVERY_WAIT_S
                if late and not page.past and not page.closed:
                    await self._close(page)
        self.draw_status()

    @asynccontextmanager
    async def hushed(self) -> AsyncIterator[None]:
        """Nothing is printed meanwhile: the screen belongs to another program."""
        async with self._lock:
            yield

    async def note(self, text: str, *, alone: bool = False) -> None:
        """A line of our own; one that stands `alone` has air after it."""
        async with self._lock:
            await self._pen.aside(text)
            if alone:
                self._pen.part_here()

    async def finish(self) -> None:
        """The terminal is about to close: what is missing of ended turns is shown now."""
        async with self._lock:
            for page in self._pages.values():
                if page.ended_at is not None and not page.past:
                    await self._close(page)

    def draw_status(self) -> None:
        now, width = self._clock.now(), self._look.columns
        page = next((page for page in reversed(self._pages.values()) if page.running), None)
        if page:
            self._screen.status(activity_line(page.view, now, width))
        else:
            self._screen.status(fit(f"{spinner(now)} Starting…", width - 1) if self._expecting else "")

    def _page_for(self, row: LoggedEvent) -> Page | None:
        """Where the event belongs; nowhere if its turn has ended, or was never seen here and only its ask changed."""
        page = self._pages.get(row.turn_id)
        if page is None and not isinstance(row.event, AskChanged):
            page = self._pages[row.turn_id] = Page(row.seq, past=self._is_past(row))
        return page if page and page.ended_at is None else None

    def _is_past(self, row: LoggedEvent) -> bool:
        return row.at < self._since and self._expecting is None

    # What is printed.

    async def _tell(self, page: Page, row: LoggedEvent, before: TurnView) -> None:
        ink, columns = self._look.ink, self._look.columns
        if not isinstance(row.event, Asked):
            await self._announce(page)
        match row.event:
            case PromptAdded(text=text, by=by) if by not in ("", self._me.id, self._me.name):
                await self._pen.aside(ink.dim(f"❯ {fit(text, columns - 2)}"))
            case ToolStarted(call=call):
                await self._narration(page)
                page.held += [] if self._screen.live else [f"  {fit(activity_text(call), columns - 2)}"]
            case ToolFinished(call_id=call_id):
                done = (action for action in page.view.recent_actions if action.id == call_id)
                await self._pen.aside(*(step_line(action, ink, columns) for action in done))
            case Asked(ask=ask):
                await self._narration(page)
                await self._ask(ask)
            case PlanChanged(items=items):
                await self._pen.aside(plan_lines(before.plan, items, ink, columns))
            case Notice():
                await self._pen.aside(notice_line(row.event, ink, columns))
            case TurnEnded() if page.delivered:
                await self._close(page)
            case _:
                pass

    async def _page_of(self, turn: TurnId) -> Page | None:
        """The turn's page, once its end was followed; what is there if that takes too long."""
        with anyio.move_on_after(END_WAIT_S):
            await self._ends[turn].wait()
        return self._pages.get(turn)

    def _unheard(self, turn: TurnId) -> Page:
        """A page for a turn whose events come later, if at all."""
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
                paint = self._look.ink.red if view.outcome == "failed" else self._look.ink.dim
                await self._pen.aside(*(paint(self._look.words(block)) for block in page.rest_of(part.text)))
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
            await self._pen.aside(*(self._look.ink.dim(hang(block, self._look.columns)) for block in words))
        if view.failure:
            await self._failure(page, view.failure)
        page.closed = True
        await self._closing(page)

    async def _closing(self, page: Page) -> None:
        if page.ended_at is not None:
            await self._pen.aside(closing_line(page.view, page.ended_at, self._look.ink))
        self._pen.part_here()

    async def _answer(self, page: Page, text: str) -> None:
        rest = page.rest_of(text)
        if self._look.streamed:
            await self._pen.text(rest)
        elif rest:
            await self._pen.whole(text)

    async def _failure(self, page: Page, failure: Failure) -> None:
        """What was delivered has said it, as a rule; its detail is for those who asked for it."""
        ink = self._look.ink
        if not page.delivered and not any(failure.text in block for block in page.printed):
            await self._pen.aside(ink.red(self._look.words(failure.text)))
        if self._look.verbose and failure.detail:
            await self._pen.aside(ink.dim(hang(failure.detail, self._look.columns)))

    async def _apart(self, part: Part, page: Page | None) -> None:
        """Something that belongs to no turn on the screen: an old answer, a reply, a repeat."""
        if page is not None and not self._away:
            self._away = True
            await self._pen.aside(self._look.ink.dim(AWAY))
        await self._pen.whole(part.text)
        await self._files(part)
        await self._pen.aside(self._look.ink.dim(AGAIN_MARK) if part.again else "")
        if page is not None:
            await self._closing(page)
        self._pen.part_here()

    async def _ask(self, ask: Ask, *, again: bool = False) -> None:
        if ask.id in self._settled:
            return
        self._open[ask.id] = ask
        if not self._look.asks or (ask.id in self._shown and not again):
            return
        self._shown.add(ask.id)
        self._pen.part_here()
        ink = self._look.ink
        await self._pen.aside(ask_text(ask, ink, self._look.columns), ink.dim(AGAIN_MARK) if again else "")

    async def _ask_changed(self, change: AskChanged) -> None:
        """Settled by somebody else: one line that says who answered what."""
        ask = self.settle(change.ask_id)
        if ask is None or change.by == self._me.id:
            return
        by = f", by {change.by}" if change.by else ""
        line = f"→ {ask.title.split(NEWLINE)[0]} · {change.said or change.state}{by}"
        await self._pen.aside(self._look.ink.dim(hang(line, self._look.columns)))

    async def _announce(self, page: Page, *, held_s: float = 0.0) -> None:
        """What runs, where no line tells it live. Not before it may: a call that is asked about does not run yet."""
        if page.held and not page.view.asks and self._clock.monotonic() - page.heard_at >= held_s:
            await self._pen.aside(*page.held)
            page.held.clear()

    async def _narration(self, page: Page) -> None:
        """Words before a tool: they are not the answer, so they step back."""
        if self._look.streamed:
            columns = self._look.columns
            await self._pen.aside(*(self._look.ink.dim(hang(block, columns)) for block in page.flush()))

    async def _files(self, part: Part) -> None:
        ink, columns = self._look.ink, self._look.columns
        await self._pen.aside(*(attachment_line(file, ink, columns) for file in part.attachments))
