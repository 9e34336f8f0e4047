"""Shows turns on a screen: events and delivered parts come in, each thing is printed once."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html import unescape

import anyio
import msgspec

from pilothouse.channels.progress import activity_text
from pilothouse.channels.terminal.ask_queue import AskBoard, AskQueue
from pilothouse.channels.terminal.page import LiveArea, Page
from pilothouse.channels.terminal.render import (
    attachment_line,
    closing_line,
    notice_line,
    plan_lines,
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
from pilothouse.core.ids import AskId, CallId, TurnId
from pilothouse.core.message import AGAIN_MARK, Author, Part
from pilothouse.core.outcome import Failure
from pilothouse.core.view import TurnView

END_WAIT_S = 0.5
"""Seconds that a delivered answer waits for the end of its turn to be followed, and an ask for its event or its end."""
DELIVERY_WAIT_S = 2.0
"""Seconds that an ended turn waits for its answer; after that the text of its events is shown."""
HELD_S = 0.3
"""Seconds that a started call waits before it gets a line: an ask about it may follow."""
QUIET_S = 0.3
"""After this much silence a turn that began before the terminal opened counts as running."""
AWAY = "While you were away"
STOPPED = "Stopped."
"""The last words of a stopped turn, which its closing line says too."""
_TAG = re.compile(r"</?[a-z]+(?: [^>]*)?>")


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
        self.asks = AskQueue(clock)
        self._board = AskBoard(self.asks, self._writer, me)
        self.stopping = False
        """A stop was sent from here: a step that ends now did not fail."""
        self._sent: list[str] = []
        """Messages typed here whose turns have not begun."""
        self._area = LiveArea(screen, display, clock, self.asks)
        self._lock = anyio.Lock()
        self._away = False
        self._expecting: float | None = None
        self._seen_seq = 0
        self._ends: defaultdict[TurnId, anyio.Event] = defaultdict(anyio.Event)
        self._asked: defaultdict[AskId, anyio.Event] = defaultdict(anyio.Event)
        self._told: defaultdict[AskId, anyio.Event] = defaultdict(anyio.Event)

    # State.

    @property
    def running(self) -> bool:
        return self._expecting is not None or any(page.running for page in self._pages.values())

    @property
    def safe_seq(self) -> int:
        """The event after which to follow next time, so that no unfinished or undelivered turn is missed."""
        kept = [page.first_seq for page in self._pages.values() if not page.settled]
        return min(kept, default=self._seen_seq + 1) - 1

    def expect(self, text: str = "") -> None:
        """Notes that a message was sent from here: a turn will begin."""
        self._expecting = self._clock.now()
        self._sent += [text] if text else []

    # Input.

    async def asked(self, ask: Ask) -> None:
        """Shows an ask that was open before the terminal."""
        async with self._lock:
            await self._board.show(ask)

    def stop_here(self) -> None:
        """Notes that the person stops the running turn."""
        self.stopping = True
        self.asks.stop_here()

    async def settle(self, id: AskId) -> None:
        """Closes an ask that was answered here, and shows the next one."""
        self.asks.settle(id)
        async with self._lock:
            await self._board.show_next()

    async def event(self, row: LoggedEvent) -> None:
        """Takes an event. An ask may change after its turn's end: that settles the ask and shows nothing of the turn."""
        self._seen_seq = row.seq
        if isinstance(row.event, AskChanged) and self._board.is_by_other(row.event):
            await self._until_told(row.event.ask_id)
        async with self._lock:
            if isinstance(row.event, Asked):
                self._asked[row.event.ask.id].set()
            if isinstance(row.event, AskChanged):
                await self._board.settled_elsewhere(row.event)
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
                page.refused |= {action.id for action in before.open_actions}
            if before.phase == "idle":
                self.asks.forget_stop()
                await self._close_ended(page)
            await self._tell(page, row, before)
        self.draw_status()

    async def part(self, part: Part) -> None:
        kind, turn = part.data.get("kind"), TurnId(part.data.get("turn_id") or "")
        page = await self._page_of(turn) if turn and kind != "ask" and not part.again else None
        ask = msgspec.convert(part.data["ask"], Ask) if kind == "ask" else None
        if ask is not None and turn and not part.again:
            await self._until_asked(ask.id)
        async with self._lock:
            self._expecting = None
            if ask is not None:
                await self._board.show(ask, again=part.again)
            elif not turn and self.asks.tells_of_stop(part.text):
                pass  # the person who stopped it knows
            elif not turn or part.again or (page and page.past):
                await self._apart(part, page)
                for id in self.asks.named_in(part.text):
                    self._told[id].set()
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
        self.draw_status(draw=True)

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

    async def farewell(self, text: str) -> None:
        """Prints the last line, if there is anything to come back to."""
        if self._pages:
            await self.note(text)

    async def _close_ended(self, page: Page) -> None:
        """Closes other turns that ended, before this one prints anything: their end must not follow its text."""
        for other in self._pages.values():
            if other is not page and other.ended_at is not None and not other.past:
                await self._close(other)

    async def finish(self) -> None:
        """Shows what is missing of ended turns before the terminal closes."""
        async with self._lock:
            for page in self._pages.values():
                if page.ended_at is not None and not page.past:
                    await self._close(page)

    def draw_status(self, *, draw: bool = False) -> None:
        pages = reversed(self._pages.values())
        self._area.show(pages, starting=self._expecting is not None, draw=draw)

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
            case PromptAdded(text=text, by=by):
                await self._prompt(text, by)
            case ToolStarted(call=call):
                await self._narration(page)
                page.held += [] if self._screen.live else [f"  {fit(activity_text(call), columns - 2)}"]
            case ToolFinished(denied=str(why)) if why:
                pass  # it did not run, and a message names the rule
            case ToolFinished(call_id=call_id, ok=ok):
                await self._step(page, call_id, ok, before)
            case Asked(ask=ask):
                await self._narration(page)
                await self._board.show(ask)
            case PlanChanged(items=items):
                await self._writer.aside(plan_lines(before.plan, items, palette, columns))
            case Notice(kind="permission_denied") if page.refused:
                pass  # the person who denied it knows
            case Notice():
                await self._writer.aside(notice_line(row.event, palette, columns))
            case TurnEnded() if page.delivered:
                await self._close(page)
            case _:
                pass

    async def _prompt(self, text: str, by: str) -> None:
        """Prints the message that a turn answers, unless it was typed here."""
        if text.startswith("<message"):  # several messages in a frame for the engine
            text = unescape(_TAG.sub("", text))
        mine = [sent for sent in self._sent if sent in text]
        if mine:
            self._sent = [sent for sent in self._sent if sent not in mine]
        elif by:
            who = "" if by in (self._me.id, self._me.name) else f"{by}: "
            await self._writer.aside(self._display.palette.dim(fit(f"❯ {who}{text}", self._display.columns)))

    async def _step(self, page: Page, id: CallId, ok: bool, before: TurnView) -> None:
        if not ok and (self.stopping or id in page.refused):
            return
        display = self._display
        done = [action for action in before.open_actions if action.id == id]
        if ok and not self._screen.live:  # a line said so when it began
            done = [action for action in done if action.call.kind == "file_change"]
        lines = (step_line(one, ok, display.folder, display.palette, display.columns) for one in done)
        await self._writer.aside(*lines)

    async def _page_of(self, turn: TurnId) -> Page | None:
        """Returns the turn's page, after waiting a moment for the turn's end."""
        with anyio.move_on_after(END_WAIT_S):
            await self._ends[turn].wait()
        return self._pages.get(turn)

    async def _until_asked(self, id: AskId) -> None:
        """Waits a moment for the ask's event: the steps before it are printed above it."""
        with anyio.move_on_after(END_WAIT_S):
            await self._asked[id].wait()

    async def _until_told(self, id: AskId) -> None:
        """Waits a moment for the message that tells who answered: it is printed above what follows."""
        if self.asks.is_open(id):
            with anyio.move_on_after(END_WAIT_S):
                await self._told[id].wait()

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
                rest = [block for block in page.rest_of(part.text) if block != STOPPED]
                await self._writer.aside(*(paint(self._display.words(block)) for block in rest))
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
        self.stopping = False
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
