"""Turns as a person reads them: events and delivered parts in, text on a screen out, each thing once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import anyio
import msgspec

from pilothouse.channels.terminal.blocks import blocks
from pilothouse.channels.terminal.ink import Ink, hang, wash
from pilothouse.channels.terminal.markdown import draw
from pilothouse.channels.terminal.page import Page
from pilothouse.channels.terminal.render import (
    activity_line,
    ask_text,
    attachment_line,
    closing_line,
    fit,
    notice_line,
    plan_lines,
    spinner,
    step_line,
)
from pilothouse.channels.terminal.screen import Screen
from pilothouse.channels.text import activity_label
from pilothouse.core.ask import Ask
from pilothouse.core.channel import LoggedEvent
from pilothouse.core.clock import Clock
from pilothouse.core.event import (
    Asked,
    Notice,
    PlanChanged,
    PromptAdded,
    ToolFinished,
    ToolStarted,
    TurnEnded,
)
from pilothouse.core.failure import Failure
from pilothouse.core.ids import AskId, TurnId
from pilothouse.core.message import AGAIN_MARK, Author, Part
from pilothouse.core.view import TurnView

END_WAIT_S = 0.5
"""How long a delivered answer waits for the end of its turn to be followed, so that it is drawn with it."""
DELIVERY_WAIT_S = 2.0
"""How long an ended turn waits for its answer; after that the event's own words are shown."""
QUIET_S = 0.3
"""After this much silence a turn that began before we came is taken to be running still."""
AWAY = "While you were away"


class Look(msgspec.Struct, frozen=True):
    """`streamed`: text is shown while it comes in, with air around it; else the answer is written as it is, at
    the end. `drawn`: its Markdown is drawn."""

    ink: Ink
    columns: int
    drawn: bool
    streamed: bool
    verbose: bool = False
    asks: bool = True
    """Whether asks are shown here; a one-shot message has its own way with them."""


class Transcript:
    def __init__(self, screen: Screen, look: Look, clock: Clock, me: Author, *, since: float = 0.0) -> None:
        """What happened before `since` is history: it is told only if it was not delivered then."""
        self._screen = screen
        self._look = look
        self._clock = clock
        self._me = me
        self._since = since
        self._pages: dict[TurnId, Page] = {}
        self._asked: set[AskId] = set()
        self._lock = anyio.Lock()
        self._last = ""
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
        return next((ask for page in self._pages.values() if page.running for ask in page.view.asks), None)

    @property
    def safe_seq(self) -> int:
        """Following after this later misses nothing of what has not ended yet."""
        open_pages = [page.first_seq for page in self._pages.values() if page.ended_at is None]
        return min(open_pages, default=self._seen_seq + 1) - 1

    def view(self, turn: TurnId) -> TurnView | None:
        return self._pages[turn].view if turn in self._pages else None

    def expect(self) -> None:
        """A message was sent: something will begin."""
        self._expecting = self._clock.now()

    # What comes in.

    async def event(self, row: LoggedEvent) -> None:
        self._seen_seq = row.seq
        page = self._pages.get(row.turn_id)
        if page is None:
            page = self._pages[row.turn_id] = Page(row.seq, past=self._is_past(row))
        async with self._lock:
            before = page.view
            page.past = page.past and self._is_past(row)
            page.take(row, self._clock.monotonic())
            if page.ended_at is not None:
                self._ends[row.turn_id].set()
            if page.closed or page.past or (page.delivered and page.ended_at is None):
                return
            self._expecting = None
            await self._tell(page, row, before)
        self.draw_status()

    async def part(self, part: Part) -> None:
        kind, turn = part.data.get("kind"), TurnId(part.data.get("turn_id") or "")
        page = await self._page_of(turn) if turn and kind != "ask" and not part.again else None
        async with self._lock:
            self._expecting = None
            if kind == "ask" and not part.again:
                await self._ask(msgspec.convert(part.data["ask"], Ask))
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
                    await self._text(page.due(self._clock.now()))
                late = page.ended_at is not None and now - page.heard_at >= DELIVERY_WAIT_S
                if late and not page.past and not page.closed:
                    await self._close(page)
        self.draw_status()

    async def note(self, text: str, *, alone: bool = False) -> None:
        """A line of our own; one that stands `alone` has air after it."""
        async with self._lock:
            await self._aside(text)
            self._last = "closed" if alone else self._last

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

    def _is_past(self, row: LoggedEvent) -> bool:
        return row.at < self._since and self._expecting is None

    # What is printed.

    async def _tell(self, page: Page, row: LoggedEvent, before: TurnView) -> None:
        look = self._look
        match row.event:
            case PromptAdded(text=text, by=by) if by not in ("", self._me.id, self._me.name):
                await self._aside(look.ink.dim(f"❯ {fit(text, look.columns - 2)}"))
            case ToolStarted(call=call):
                await self._narration(page)
                if not self._screen.live:
                    await self._aside(f"  {activity_label(call)}")
            case ToolFinished(call_id=call_id):
                done = [action for action in page.view.recent_actions if action.id == call_id]
                await self._lines(step_line(action, look.ink, look.columns) for action in done)
            case Asked(ask=ask):
                await self._narration(page)
                await self._ask(ask)
            case PlanChanged(items=items):
                await self._lines([plan_lines(before.plan, items, look.ink, look.columns)])
            case Notice():
                await self._lines([notice_line(row.event, look.ink, look.columns)])
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
        failed = page.view.outcome == "failed"
        if page.view.outcome != "completed" and page.ended_at is not None:
            await self._narration(page)
        if not (failed and page.closed and page.view.failure and page.view.failure.text in part.text):
            await self._answer(page, part.text, failed=failed)
            await self._files(part)
        if page.ended_at is not None:
            await self._close(page)

    async def _close(self, page: Page) -> None:
        if page.closed:
            return
        view = page.view
        if not page.delivered:
            await self._answer(page, view.answer or view.text)
        if view.failure:
            await self._failure(page, view.failure)
        page.closed = True
        ended_at = page.ended_at if page.ended_at is not None else self._clock.now()
        await self._aside(closing_line(view, ended_at, self._look.ink))
        self._last = "closed"

    async def _answer(self, page: Page, text: str, *, failed: bool = False) -> None:
        rest = page.rest_of(text)
        whole = [text.strip("\n")] if rest and not self._look.streamed else rest
        await self._text(whole, failed=failed)

    async def _failure(self, page: Page, failure: Failure) -> None:
        """What was delivered has said it, as a rule; its detail is for those who asked for it."""
        said = any(failure.text in block for block in page.printed)
        if not page.delivered and not said:
            await self._aside(self._look.ink.red(wash(failure.text)))
        if self._look.verbose and failure.detail:
            await self._aside(self._look.ink.dim(hang(failure.detail, self._look.columns)))

    async def _apart(self, part: Part, page: Page | None) -> None:
        """Something that belongs to no turn on the screen: an old answer, a reply, a repeat."""
        if page is not None and not self._away:
            self._away = True
            await self._aside(self._look.ink.dim(AWAY))
        await self._text(blocks(part.text) if self._look.streamed else [part.text.strip("\n")])
        await self._files(part)
        if part.again:
            await self._aside(self._look.ink.dim(AGAIN_MARK))
        if page is not None and page.ended_at is not None:
            await self._aside(closing_line(page.view, page.ended_at, self._look.ink))
        self._last = "closed"

    async def _ask(self, ask: Ask) -> None:
        if self._look.asks and ask.id not in self._asked:
            self._asked.add(ask.id)
            self._last = self._last and "closed"
            await self._aside(ask_text(ask, self._look.ink, self._look.columns))

    async def _narration(self, page: Page) -> None:
        """Words before a tool: they are not the answer, so they step back."""
        if self._look.streamed:
            await self._lines(self._look.ink.dim(hang(block, self._look.columns)) for block in page.flush())

    async def _text(self, found: list[str], *, failed: bool = False) -> None:
        look = self._look
        for block in found:
            if failed:
                await self._aside(look.ink.red(wash(block)))
                continue
            gap = "\n" if self._last and look.streamed else ""
            await self._screen.say(gap + self._drawn(block))
            self._last = "text"

    def _drawn(self, block: str) -> str:
        look = self._look
        if look.drawn:
            return draw(block, look.columns, color=look.ink.color)
        return wash(block) if look.streamed else block

    async def _files(self, part: Part) -> None:
        await self._lines(attachment_line(a, self._look.ink, self._look.columns) for a in part.attachments)

    async def _lines(self, lines: Iterable[str]) -> None:
        for line in filter(None, lines):
            await self._aside(line)

    async def _aside(self, text: str) -> None:
        gap = "\n" if self._last in ("text", "closed") and self._look.streamed else ""
        await self._screen.note(gap + text)
        self._last = "aside"
