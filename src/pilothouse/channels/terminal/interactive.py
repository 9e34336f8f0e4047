"""The interactive chat: sends typed lines to the desk, and shows followed events, until the person leaves."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Literal

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream
from msgspec import Struct
from msgspec.structs import replace

from pilothouse.channels.terminal.config import News
from pilothouse.channels.terminal.draft import UNCHANGED, Unusable, changed, draft_of, edit_in_editor
from pilothouse.channels.terminal.lines import typed_lines
from pilothouse.channels.terminal.prompt import Prompt
from pilothouse.channels.terminal.receive import (
    WHY,
    Interrupt,
    Key,
    Leave,
    Line,
    Typed,
    chosen,
    decide,
    keys_of,
)
from pilothouse.channels.terminal.render import ask_body, ask_help, keep_warning
from pilothouse.channels.terminal.screen import Display, PlainScreen, Screen
from pilothouse.channels.terminal.setup import TICK_S, Setup, full_ask, open_asks
from pilothouse.channels.terminal.style import indent, sanitize
from pilothouse.channels.terminal.transcript import Transcript
from pilothouse.core.ask import Ask, Decision
from pilothouse.core.ask_view import whole_ask
from pilothouse.core.channel import Desk, Receipt
from pilothouse.core.errors import PilothouseError
from pilothouse.core.event import TurnEnded
from pilothouse.core.ids import MessageId
from pilothouse.core.message import Part

LEAVING = ("/exit", "/quit")
CHANGED = "The question changed in the meantime; nothing was answered."
HINT = "Ctrl-C stops a turn, Ctrl-D leaves."
ALSO = "  /exit or /quit leaves, as Ctrl-D does. What works in every chat:"


class Wanted(Struct, frozen=True):
    """The next line is the reason of a denial, or a changed input."""

    ask: Ask
    what: Literal["reason", "change"]


class InteractiveTalk:
    exit_code = 0
    messages: tuple[MessageId, ...] | None = None
    """None: an interactive chat shows everything of its conversation."""

    def __init__(self, setup: Setup, news: AsyncIterable[News] | None = None) -> None:
        self._setup = setup
        self._news = news
        streams = setup.streams
        self._prompt: Prompt | None = None
        if streams.stdin_tty and streams.stdout_tty and not streams.dumb:
            history = setup.state_dir / "history" if setup.config.history else None
            self._prompt = Prompt(
                streams,
                history,
                self._keys,
                self._answers,
                self._warning,
                lambda: self._transcript.running,
            )
        screen: Screen = self._prompt or PlainScreen(replace(streams, dumb=True), streams.stdout)
        drawn = self._prompt is not None
        self._palette = setup.palette(tty=streams.stdout_tty)
        display = Display(self._palette, setup.columns, drawn, True, self._palette.color, setup.verbose)
        self._transcript = Transcript(
            screen, display, setup.clock, setup.identity.author, since=setup.clock.now()
        )
        self._mark = setup.mark()
        self._wanted: Wanted | None = None
        self._armed = False
        """True after one Ctrl-C; another one leaves."""

    async def run(self, desk: Desk, opened: Callable[[], None]) -> None:
        async with self._typed() as typed, anyio.create_task_group() as group:
            await self._greet()
            await self._show_open_asks(desk)
            opened()
            group.start_soon(self._follow, desk)
            group.start_soon(self._tick)
            if self._news is not None:
                group.start_soon(self._tell_news, self._news)
            async for item in typed:
                if not await self._take(desk, item):
                    break
            group.cancel_scope.cancel()

    async def part(self, part: Part) -> None:
        await self._transcript.part(part)
        self._mark.save(self._transcript.safe_seq)

    @asynccontextmanager
    async def _typed(self) -> AsyncIterator[MemoryObjectReceiveStream[Typed]]:
        source = self._prompt.open() if self._prompt else typed_lines(self._setup.streams)
        async with source as typed:
            yield typed

    async def _greet(self) -> None:
        lines = filter(None, (self._setup.header, HINT))
        await self._transcript.note("\n".join(map(self._palette.dim, lines)), alone=True)

    async def _show_open_asks(self, desk: Desk) -> None:
        """Shows asks from before: the next message would close one that the person has not seen."""
        try:
            asks = await open_asks(desk, self._setup)
        except PilothouseError as error:
            return await self._complain(str(error))
        for ask in asks:
            await self._transcript.asked(ask)
        return None

    async def _follow(self, desk: Desk) -> None:
        after_seq = await self._read_until(desk)
        async for row in desk.follow(self._setup.conversation, after_seq, self._setup.identity.author):
            await self._transcript.event(row)
            self._armed = self._armed and not isinstance(row.event, TurnEnded)

    async def _read_until(self, desk: Desk) -> int:
        """Returns the mark; 0 if it is ahead of the log, as after a restored backup."""
        author, marked = self._setup.identity.author, self._mark.load()
        try:
            last: int = await desk.query("last_seq", author, conversation=self._setup.conversation)
        except PilothouseError:
            return 0
        return marked if marked <= last else 0

    async def _tick(self) -> None:
        while True:
            await self._setup.clock.sleep(TICK_S)
            await self._transcript.tick()

    async def _tell_news(self, news: AsyncIterable[News]) -> None:
        async for told in news:
            paint = self._palette.yellow if told.worrying else self._palette.dim
            await self._transcript.note(paint(indent(told.text, self._setup.columns())), alone=True)

    async def _take(self, desk: Desk, typed: Typed) -> bool:
        """Returns false if the person leaves."""
        stays = await self._hear(desk, typed)
        if self._prompt:
            self._prompt.taken(typed)
        return stays

    async def _hear(self, desk: Desk, typed: Typed) -> bool:
        match typed:
            case Leave():
                return False
            case Interrupt():
                return await self._interrupt(desk)
            case Key(char=char):
                await self._answer_with(desk, char)
            case Line(text=text) if text.strip() in LEAVING:
                return False
            case Line(text=text) if self._wanted and not (
                self._wanted.what == "reason" and text.startswith("/")
            ):
                await self._complete(desk, self._wanted, text.strip())
            case Line(text=text, warned=warned) if self._prompt and warned != self._warning(text):
                await self._complain(CHANGED)
            case Line(text=text) if text.strip():
                self._armed = False
                await self._say(desk, text.strip())
            case _:
                pass
        return True

    async def _interrupt(self, desk: Desk) -> bool:
        if self._armed:
            return False
        if self._wanted:
            await self._go_back()
        elif self._transcript.running:
            self._armed = True
            await self._send(desk, "/stop")
            await self._transcript.note(self._palette.dim("  Stopping… Ctrl-C again leaves."))
        else:
            self._armed = True
            await self._transcript.note(self._palette.dim("  Ctrl-C again leaves."))
        return True

    async def _say(self, desk: Desk, text: str) -> None:
        await self._echo(text)
        if text.lower() == "/help":
            # The reply is the same in every channel; the ways to leave are the terminal's own.
            await self._transcript.note(self._palette.dim(ALSO))
        if text.startswith("/") or not await self._answer_with(desk, text):
            await self._send(desk, text)

    async def _echo(self, text: str) -> None:
        if self._prompt:
            await self._transcript.note(f"{self._palette.bold('❯')} {sanitize(text)}", alone=True)

    async def _send(self, desk: Desk, text: str) -> None:
        identity, now = self._setup.identity, self._setup.clock.now()
        try:
            if text.startswith("/"):
                receipt = await desk.command(
                    identity.address, identity.author, text, identity.next_id(), sent_at=now
                )
            else:
                receipt = await desk.accept(identity.message(text, now))
                if receipt.state == "queued":
                    self._transcript.expect()
        except PilothouseError as error:
            receipt = Receipt("refused", text=str(error))
        if receipt.text:
            paint = self._palette.red if receipt.state == "refused" else self._palette.dim
            await self._transcript.note(paint(indent(receipt.text, self._setup.columns())))

    async def _answer_with(self, desk: Desk, typed: str) -> bool:
        """Returns true if the text was for the open ask. If it needs more words, the next line completes it."""
        ask = self._transcript.ask
        if ask is None:
            return False
        choice = chosen(ask, typed)
        match choice.action if choice else "answer":
            case "reason":
                await self._want(Wanted(ask, "reason"), WHY)
            case "change":
                await self._change(desk, ask)
            case "whole":
                await self._show_whole(desk, ask)
            case "help":
                await self._transcript.note(ask_help(ask, self._palette, self._setup.columns()))
            case _:
                decision = decide(ask, typed)
                if decision is None:
                    return False
                await self._answer(desk, ask, decision)
        return True

    async def _want(self, wanted: Wanted, hint: str, prefilled: str = "") -> None:
        self._wanted = wanted
        await self._transcript.note(self._palette.dim(indent(hint, self._setup.columns())))
        if prefilled and self._prompt:
            self._prompt.prefill(prefilled)
        elif prefilled:
            await self._transcript.note(f"  {sanitize(prefilled)}")

    async def _go_back(self) -> None:
        self._wanted = None
        if self._prompt:
            self._prompt.prefill("")
        await self._transcript.note(self._palette.dim("  Not answered yet."))

    async def _change(self, desk: Desk, ask: Ask) -> None:
        """Lets the person edit a command in the line, and other input in their own editor."""
        try:
            ask = await full_ask(desk, self._setup, ask)
        except PilothouseError as error:
            return await self._complain(str(error))
        draft = draft_of(ask, in_editor=bool(self._setup.streams.editor and self._prompt))
        if draft.is_command or not self._setup.streams.editor or self._prompt is None:
            return await self._want(Wanted(ask, "change"), draft.hint, draft.text)
        try:
            async with self._transcript.paused(), self._prompt.away():
                text = await edit_in_editor(self._setup.streams, draft.text, self._setup.state_dir)
        except Unusable as problem:
            return await self._complain(f"{problem} Not answered yet.")
        return await self._allow_changed(desk, ask, text)

    async def _complete(self, desk: Desk, wanted: Wanted, text: str) -> None:
        """Completes the ask that the line was typed for; the line is never sent as a message."""
        if not text:
            return await self._go_back()
        self._wanted = None
        await self._echo(text)
        if wanted.what == "change":
            return await self._allow_changed(desk, wanted.ask, text)
        return await self._answer(desk, wanted.ask, Decision("deny", text=text))

    async def _allow_changed(self, desk: Desk, ask: Ask, text: str) -> None:
        try:
            decision = changed(ask, text)
        except Unusable as problem:
            hint = f"{problem} Try again, or press Enter on an empty line to go back."
            return await self._want(Wanted(ask, "change"), hint, text)
        if decision is None:
            return await self._transcript.note(self._palette.dim(indent(UNCHANGED, self._setup.columns())))
        return await self._answer(desk, ask, decision)

    async def _show_whole(self, desk: Desk, ask: Ask) -> None:
        try:
            ask = await full_ask(desk, self._setup, ask)
        except PilothouseError as error:
            return await self._complain(str(error))
        lines = ask_body(whole_ask(ask), self._palette, self._setup.columns())
        return await self._transcript.note("\n".join(lines), alone=True)

    async def _answer(self, desk: Desk, ask: Ask, decision: Decision) -> None:
        author = self._setup.identity.author
        decision = replace(decision, by=author.id)
        try:
            answered = await desk.answer(ask.id, ask.payload_hash, decision, author)
            waiting = () if answered.accepted else await open_asks(desk, self._setup)
        except PilothouseError as error:
            return await self._complain(f"{error} Answer again.")
        if ask.id not in {found.id for found in waiting}:
            self._transcript.settle(ask.id)
        settled = indent(f"→ {answered.text}", self._setup.columns())
        return await self._transcript.note(self._palette.dim(settled), alone=True)

    async def _complain(self, text: str) -> None:
        await self._transcript.note(self._palette.red(indent(text, self._setup.columns())))

    def _keys(self) -> str:
        return keys_of(ask) if (ask := self._answerable) else ""

    def _answers(self, text: str) -> bool:
        return (ask := self._answerable) is not None and chosen(ask, text) is not None

    def _warning(self, text: str) -> str:
        return keep_warning(ask, text, self._setup.columns()) if (ask := self._answerable) else ""

    @property
    def _answerable(self) -> Ask | None:
        """The ask that the next key or line is about."""
        return None if self._wanted else self._transcript.ask
