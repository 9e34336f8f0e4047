"""The interactive chat: sends typed lines to the desk, and shows followed events, until the person leaves."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream
from msgspec.structs import replace

from pilothouse.channels.terminal.ask_dialog import AskDialog
from pilothouse.channels.terminal.completion import make_completer
from pilothouse.channels.terminal.config import News
from pilothouse.channels.terminal.images import ImageProblem, find_images, is_file, paste_image
from pilothouse.channels.terminal.lines import typed_lines
from pilothouse.channels.terminal.prompt import Prompt
from pilothouse.channels.terminal.receive import (
    Escape,
    Interrupt,
    Key,
    Leave,
    Line,
    PasteImage,
    Typed,
)
from pilothouse.channels.terminal.render import attachment_line
from pilothouse.channels.terminal.screen import PlainScreen, Screen
from pilothouse.channels.terminal.setup import TICK_S, Setup, open_asks
from pilothouse.channels.terminal.style import indent, sanitize, wrap
from pilothouse.channels.terminal.transcript import Transcript
from pilothouse.core.channel import Desk, Receipt
from pilothouse.core.errors import DeliveryError, PilothouseError
from pilothouse.core.event import TurnEnded
from pilothouse.core.ids import MessageId
from pilothouse.core.message import Part

LEAVING = ("/exit", "/quit")
CHANGED = "The question changed in the meantime; nothing was answered."
HINT = "Esc stops · Tab completes · Ctrl-D leaves."
ALSO = """\
New line: Alt+Enter, Ctrl-J, or \\ and Enter. File: @ and Tab. Image: @ and its path, or Ctrl-V. Leave: /exit or /quit.
What works in every chat:"""
FAREWELL = "`{program} chat` in this folder continues here."
STOPPING = "Stopping."
"""The reply to a stop begins so, which a line above it says already."""


class InteractiveTalk:
    exit_code = 0
    messages: tuple[MessageId, ...] | None = None
    """None: an interactive chat shows everything of its conversation."""

    def __init__(self, setup: Setup, news: AsyncIterable[News] | None = None, first: str = "") -> None:
        self._setup = setup
        self._news = news
        self._first = first
        streams = setup.streams
        self._desk: Desk | None = None
        self._prompt = self._make_prompt() if self._has_editor else None
        screen: Screen = self._prompt or PlainScreen(replace(streams, dumb=True), streams.stdout)
        self._palette = setup.palette(tty=streams.stdout_tty)
        display = setup.display(self._palette, drawn=self._has_editor, streamed=True)
        self._transcript = Transcript(
            screen, display, setup.clock, setup.identity.author, since=setup.clock.now()
        )
        self._dialog = AskDialog(setup, self._transcript, self._palette, self._prompt)
        self._mark = setup.mark()
        self._stops: set[str] = set()
        """Ids of the stop commands that were sent from here."""
        self._armed = False
        """True after one Ctrl-C; another one leaves."""

    @property
    def _has_editor(self) -> bool:
        streams = self._setup.streams
        return streams.stdin_tty and streams.stdout_tty and not streams.dumb

    def _make_prompt(self) -> Prompt:
        setup = self._setup
        history = setup.state_dir / "history" if setup.config.history else None
        return Prompt(setup.streams, history, setup.clock, make_completer(setup, self._query))

    async def _query(self, what: str) -> list[Any]:
        """Asks the desk for what Tab offers; nothing if it cannot say."""
        nothing = list[Any]()
        if self._desk is None:
            return nothing
        try:
            return await self._desk.query(
                what, self._setup.identity.author, conversation=self._setup.conversation
            )
        except PilothouseError:
            return nothing

    async def run(self, desk: Desk, opened: Callable[[], None]) -> None:
        self._desk = desk
        async with self._typed() as typed, anyio.create_task_group() as group:
            await self._greet()
            await self._show_open_asks(desk)
            opened()
            group.start_soon(self._follow, desk)
            group.start_soon(self._tick)
            if self._news is not None:
                group.start_soon(self._tell_news, self._news)
            if self._first:
                await self._echo(self._first)
                await self._send(desk, self._first, is_command=False)
            async for item in typed:
                if not await self._take(desk, item):
                    break
            with suppress(DeliveryError):  # the window may have been closed
                words = FAREWELL.format(program=self._setup.facts.program)
                await self._transcript.farewell(self._palette.dim(words))
            group.cancel_scope.cancel()

    async def part(self, part: Part) -> None:
        stops = part.data.get("reply_to") in self._stops
        part = replace(part, text=part.text.removeprefix(STOPPING).strip()) if stops else part
        if part.text or not stops:
            await self._transcript.part(part)
        self._mark.save(self._transcript.safe_seq)

    @asynccontextmanager
    async def _typed(self) -> AsyncIterator[MemoryObjectReceiveStream[Typed]]:
        source = self._prompt.open(self._dialog) if self._prompt else typed_lines(self._setup.streams)
        async with source as typed:
            yield typed

    async def _greet(self) -> None:
        text = "\n".join(filter(None, (self._setup.facts.header, HINT)))
        await self._transcript.note(self._palette.dim(wrap(text, self._setup.columns())), alone=True)

    async def _show_open_asks(self, desk: Desk) -> None:
        """Shows asks from before: the next message would close one that the person has not seen."""
        try:
            asks = await open_asks(desk, self._setup)
        except PilothouseError as error:
            return await self._dialog.complain(str(error))
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
            case Escape():
                await self._escape(desk)
            case PasteImage():
                await self._paste()
            case Key(char=char, ask=ask) if self._transcript.asks.is_stale(char, ask):
                await self._dialog.complain(CHANGED)
            case Key(char=char):
                await self._dialog.answer_with(desk, char)
            case Line(text=text) if text.strip() in LEAVING:
                return False
            case Line(text=text) if self._dialog.completes(text):
                await self._echo(text.strip())
                await self._dialog.complete(desk, text.strip())
            case Line(text=text, warned=warned, ask=ask) if self._prompt and (
                warned != self._dialog.warning(text) or self._transcript.asks.is_stale(text, ask)
            ):
                await self._dialog.complain(CHANGED)
            case Line(text=text) if text.strip():
                self._armed = False
                await self._say(desk, text.strip())
            case _:
                pass
        return True

    async def _interrupt(self, desk: Desk) -> bool:
        if self._armed:
            return False
        if self._dialog.wanted:
            await self._dialog.go_back()
        else:
            self._armed = True
            if self._transcript.running:
                await self._stop(desk, "Stopping… Ctrl-C again leaves.")
            else:
                await self._transcript.note(self._palette.dim("  Ctrl-C again leaves."))
        return True

    async def _escape(self, desk: Desk) -> None:
        if self._dialog.wanted:
            await self._dialog.go_back()
        elif self._transcript.running and not self._transcript.stopping:
            await self._stop(desk, "Stopping…")

    async def _stop(self, desk: Desk, told: str) -> None:
        self._transcript.stop_here()
        await self._transcript.note(self._palette.dim(f"  {told}"))
        await self._send(desk, "/stop")

    async def _say(self, desk: Desk, text: str) -> None:
        await self._echo(text)
        if text.lower() == "/help":
            # The reply is the same in every channel; the ways to leave are the terminal's own.
            await self._transcript.note(self._palette.dim(indent(ALSO, self._setup.columns())))
        if text.startswith("/") or not await self._dialog.answer_with(desk, text):
            await self._send(desk, text)

    async def _echo(self, text: str) -> None:
        if self._prompt and text:
            shown = sanitize(text).replace("\n", "\n  ")
            await self._transcript.note(f"{self._palette.bold('❯')} {shown}", alone=True)

    async def _send(self, desk: Desk, text: str, *, is_command: bool | None = None) -> None:
        identity, now = self._setup.identity, self._setup.clock.now()
        if is_command is None:
            is_command = text.startswith("/") and not is_file(text)
        try:
            if is_command:
                id = identity.next_id()
                self._stops |= {id} if text == "/stop" else set()
                receipt = await desk.command(identity.address, identity.author, text, id, sent_at=now)
            else:
                receipt = await self._send_message(desk, text, now)
        except (PilothouseError, ImageProblem) as error:
            receipt = Receipt("refused", text=str(error))
        if receipt.text:
            paint = self._palette.red if receipt.state == "refused" else self._palette.dim
            await self._transcript.note(paint(indent(receipt.text, self._setup.columns())))

    async def _send_message(self, desk: Desk, text: str, now: float) -> Receipt:
        files = await find_images(text, self._setup)
        message = replace(self._setup.identity.message(text, now), attachments=files)
        for file in files:
            await self._transcript.note(attachment_line(file, self._palette, self._setup.columns()))
        receipt = await desk.accept(message)
        if receipt.state == "queued":
            self._transcript.expect(text)
        return receipt

    async def _paste(self) -> None:
        """Saves the image on the clipboard, and types its path into the line."""
        try:
            path = await paste_image(self._setup.state_dir, self._setup.clock.now())
        except ImageProblem as problem:
            return await self._dialog.complain(str(problem))
        if self._prompt:
            self._prompt.insert(f"@{path} ")
        return None
