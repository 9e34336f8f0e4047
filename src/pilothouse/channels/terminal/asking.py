"""An ask beside a one-shot answer: put on the tty if there is one, else denied at once, aloud."""

from __future__ import annotations

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from pilothouse.channels.terminal.ink import wash
from pilothouse.channels.terminal.lines import forget_typed, read_line
from pilothouse.channels.terminal.receive import NOBODY_HERE, WHY, choices, decide, wants_reason
from pilothouse.channels.terminal.render import ask_text
from pilothouse.channels.terminal.screen import Screen
from pilothouse.channels.terminal.stage import Stage
from pilothouse.core.ask import Ask, Decision
from pilothouse.core.channel import Answered, Desk
from pilothouse.core.errors import PilothouseError
from pilothouse.core.ids import AskId

AGAIN_S = 0.5


class Asker:
    def __init__(self, stage: Stage, screen: Screen) -> None:
        self._stage = stage
        self._screen = screen
        self._ink = stage.ink(tty=stage.streams.stderr_tty)
        self._open: dict[AskId, anyio.CancelScope] = {}
        self._turn = anyio.Lock()

    def asked(self, desk: Desk, ask: Ask, group: TaskGroup) -> None:
        if ask.id not in self._open:
            self._open[ask.id] = anyio.CancelScope()
            group.start_soon(self._handle, desk, ask)

    def changed(self, ask_id: AskId) -> None:
        """Somebody else was quicker."""
        if scope := self._open.get(ask_id):
            scope.cancel()

    async def _handle(self, desk: Desk, ask: Ask) -> None:
        with self._open[ask.id]:
            async with self._turn:
                while (answered := await self._answer(desk, ask)) is None:
                    await self._stage.clock.sleep(AGAIN_S)
                if self._stage.streams.stdin_tty or not answered.accepted:
                    await self._screen.note(self._ink.dim(f"  → {wash(answered.text)}"))

    async def _answer(self, desk: Desk, ask: Ask) -> Answered | None:
        """None if the desk could not take it just now: it is said, and asked again."""
        decision = await (self._put(ask) if self._stage.streams.stdin_tty else self._deny(ask))
        author = self._stage.seat.author
        decision = replace(decision, by=author.id)
        try:
            return await desk.answer(ask.id, ask.payload_hash, decision, author)
        except PilothouseError as error:
            await self._screen.note(self._ink.red(f"  {wash(str(error))} Once more:"))
            return None

    async def _deny(self, ask: Ask) -> Decision:
        await self._screen.note(self._ink.yellow(f"Denied: {wash(ask.title)} ({NOBODY_HERE})"))
        return Decision("deny", text=NOBODY_HERE)

    async def _put(self, ask: Ask) -> Decision:
        forget_typed(self._stage.streams)
        await self._screen.note(ask_text(ask, self._ink, self._stage.columns(), enter=True))
        while (typed := await read_line(self._stage.streams)) is not None:
            if decision := decide(ask, typed):
                return decision
            if wants_reason(ask, typed):
                await self._screen.note(self._ink.dim(f"  {WHY}"))
                if reason := (await read_line(self._stage.streams) or "").strip():
                    return Decision("deny", text=reason)
            keys = ", ".join(choice.key for choice in choices(ask))
            await self._screen.note(self._ink.dim(f"  Press one of {keys}, then Enter."))
        return await self._deny(ask)
