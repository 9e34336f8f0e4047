"""Talking until the person leaves: what is typed goes to the desk, what is followed goes to the screen."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream
from msgspec.structs import replace

from pilothouse.channels.terminal.ink import wash
from pilothouse.channels.terminal.lines import typed_lines
from pilothouse.channels.terminal.pen import Look
from pilothouse.channels.terminal.prompt import Prompt
from pilothouse.channels.terminal.receive import Interrupt, Key, Leave, Line, Typed, choices, decide
from pilothouse.channels.terminal.screen import PlainScreen, Screen
from pilothouse.channels.terminal.stage import TICK_S, Stage
from pilothouse.channels.terminal.transcript import Transcript
from pilothouse.core.ask import Ask, Decision
from pilothouse.core.channel import Desk, Receipt
from pilothouse.core.errors import PilothouseError
from pilothouse.core.event import TurnEnded
from pilothouse.core.ids import AskId
from pilothouse.core.message import Part

LEAVING = ("/exit", "/quit")
HINT = "Ctrl-C stops a turn, Ctrl-D leaves."


class InteractiveTalk:
    exit_code = 0

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        streams = stage.streams
        self._prompt: Prompt | None = None
        if streams.stdin_tty and streams.stdout_tty and not streams.dumb:
            history = stage.state_dir / "history" if stage.config.history else None
            self._prompt = Prompt(streams, history, self._keys, lambda: self._transcript.running)
        screen: Screen = self._prompt or PlainScreen(replace(streams, dumb=True), streams.stdout)
        drawn = self._prompt is not None
        self._ink = stage.ink(tty=streams.stdout_tty)
        look = Look(self._ink, stage.columns, drawn, True, self._ink.color, stage.verbose)
        self._transcript = Transcript(screen, look, stage.clock, stage.seat.author, since=stage.clock.now())
        self._mark = stage.mark()
        self._answered: set[AskId] = set()
        self._armed = False
        """One Ctrl-C was pressed; another one leaves."""

    async def run(self, desk: Desk, opened: Callable[[], None]) -> None:
        async with self._typed() as typed, anyio.create_task_group() as group:
            await self._greet()
            opened()
            group.start_soon(self._follow, desk)
            group.start_soon(self._tick)
            async for item in typed:
                if not await self._take(desk, item):
                    break
            group.cancel_scope.cancel()

    async def part(self, part: Part) -> None:
        await self._transcript.part(part)
        self._mark.save(self._transcript.safe_seq)

    @asynccontextmanager
    async def _typed(self) -> AsyncIterator[MemoryObjectReceiveStream[Typed]]:
        source = self._prompt.open() if self._prompt else typed_lines(self._stage.streams)
        async with source as typed:
            yield typed

    async def _greet(self) -> None:
        lines = filter(None, (self._stage.header, HINT))
        await self._transcript.note("\n".join(map(self._ink.dim, lines)), alone=True)

    async def _follow(self, desk: Desk) -> None:
        async for row in desk.follow(self._stage.conversation, self._mark.load()):
            await self._transcript.event(row)
            self._armed = self._armed and not isinstance(row.event, TurnEnded)

    async def _tick(self) -> None:
        while True:
            await self._stage.clock.sleep(TICK_S)
            await self._transcript.tick()

    async def _take(self, desk: Desk, typed: Typed) -> bool:
        """Whether the person stays."""
        match typed:
            case Leave():
                return False
            case Interrupt():
                return await self._interrupt(desk)
            case Key(char=char):
                await self._answer_with(desk, char)
            case Line(text=text) if text.strip() in LEAVING:
                return False
            case Line(text=text) if text.strip():
                self._armed = False
                await self._say(desk, text.strip())
            case _:
                pass
        return True

    async def _interrupt(self, desk: Desk) -> bool:
        if self._armed:
            return False
        if self._transcript.running:
            self._armed = True
            await self._send(desk, "/stop")
            await self._transcript.note(self._ink.dim("  Stopping… Ctrl-C again leaves."))
        else:
            self._armed = True
            await self._transcript.note(self._ink.dim("  Ctrl-C again leaves."))
        return True

    async def _say(self, desk: Desk, text: str) -> None:
        if self._prompt:
            await self._transcript.note(f"{self._ink.bold('❯')} {wash(text)}", alone=True)
        if text.startswith("/") or not await self._answer_with(desk, text):
            await self._send(desk, text)

    async def _send(self, desk: Desk, text: str) -> None:
        seat, now = self._stage.seat, self._stage.clock.now()
        try:
            if text.startswith("/"):
                receipt = await desk.command(seat.address, seat.author, text, seat.next_id())
            else:
                receipt = await desk.accept(seat.message(text, now))
                if receipt.state == "queued":
                    self._transcript.expect()
        except PilothouseError as error:
            receipt = Receipt("refused", text=str(error))
        if receipt.text:
            paint = self._ink.red if receipt.state == "refused" else self._ink.dim
            await self._transcript.note(paint(f"  {wash(receipt.text)}"))

    async def _answer_with(self, desk: Desk, typed: str) -> bool:
        ask = self._ask()
        decision = decide(ask, typed) if ask else None
        if ask is None or decision is None:
            return False
        self._answered.add(ask.id)
        await self._answer(desk, ask, decision)
        return True

    async def _answer(self, desk: Desk, ask: Ask, decision: Decision) -> None:
        author = self._stage.seat.author
        decision = replace(decision, by=author.id)
        answered = await desk.answer(ask.id, ask.payload_hash, decision, author)
        await self._transcript.note(self._ink.dim(f"  → {wash(answered.text)}"), alone=True)

    def _ask(self) -> Ask | None:
        ask = self._transcript.ask
        return ask if ask and ask.id not in self._answered else None

    def _keys(self) -> str:
        ask = self._ask()
        return "".join(choice.key for choice in choices(ask)) if ask else ""
