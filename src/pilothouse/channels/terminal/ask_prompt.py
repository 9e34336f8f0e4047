"""An ask during a one-shot message: asked on the tty if there is one, else left to the people that it was sent to, else
denied at once. A note on stderr says which."""

from __future__ import annotations

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from pilothouse.channels.terminal.ask_queue import AskQueue
from pilothouse.channels.terminal.ask_text import ask_body, ask_help, ask_text
from pilothouse.channels.terminal.draft import UNCHANGED, Draft, Unusable, changed, draft_of, edit_in_editor
from pilothouse.channels.terminal.line_editor import edit_line
from pilothouse.channels.terminal.lines import forget_typed, read_line
from pilothouse.channels.terminal.receive import NOBODY_HERE, WHY, choices, chosen, decide
from pilothouse.channels.terminal.screen import PlainScreen
from pilothouse.channels.terminal.setup import Setup, full_ask
from pilothouse.channels.terminal.style import indent, sanitize
from pilothouse.core.ask import Ask, Decision
from pilothouse.core.ask_view import headline, whole_ask
from pilothouse.core.channel import Answered, Desk
from pilothouse.core.errors import PilothouseError
from pilothouse.core.ids import AskId
from pilothouse.core.text import long_span

AGAIN_S = 0.5
NOT_YET = "Not answered yet."
WAITING = "Waiting for the answer; Ctrl-C stops."
WAITING_AT_MOST = "Waiting for the answer, {span} at most; Ctrl-C stops."


class AskPrompt:
    def __init__(self, setup: Setup, screen: PlainScreen, asks: AskQueue) -> None:
        self._setup = setup
        self._screen = screen
        self._asks = asks
        self._palette = setup.palette(tty=setup.streams.stderr_tty)
        self._open: dict[AskId, anyio.CancelScope] = {}
        self._turn = anyio.Lock()

    def asked(self, desk: Desk, ask: Ask, group: TaskGroup) -> None:
        """Puts an ask before the person here. A denial's reason is asked for only where somebody denied by a button."""
        if ask.id not in self._open and "reason_for" not in ask.payload:
            self._open[ask.id] = anyio.CancelScope()
            group.start_soon(self._handle, desk, ask)

    def changed(self, ask_id: AskId) -> None:
        """Cancels the prompt: the ask was answered elsewhere."""
        if scope := self._open.get(ask_id):
            scope.cancel()

    async def _handle(self, desk: Desk, ask: Ask) -> None:
        if ask.whose and not self._setup.streams.stdin_tty:
            await self._say(f"{headline(ask)}\n{ask.whose} {self._how_long(ask)}")
            return
        with self._open[ask.id]:
            async with self._turn:
                while (answered := await self._answer(desk, ask)) is None:
                    await self._setup.clock.sleep(AGAIN_S)
                if self._setup.streams.stdin_tty or not answered.accepted:
                    await self._say(f"→ {answered.text}")

    def _how_long(self, ask: Ask) -> str:
        if ask.expires_at is None:
            return WAITING
        return WAITING_AT_MOST.format(span=long_span(ask.expires_at - self._setup.clock.now()))

    async def _answer(self, desk: Desk, ask: Ask) -> Answered | None:
        """Returns None if the desk could not take the answer: a note says so, and the ask is asked again."""
        author = self._setup.identity.author
        try:
            decision = await (self._put(desk, ask) if self._setup.streams.stdin_tty else self._deny(ask))
            decision = replace(decision, by=author.id)
            self._asks.answer_here(ask.id)
            return await desk.answer(ask.id, ask.payload_hash, decision, author)
        except PilothouseError as error:
            await self._screen.note(self._palette.red(f"  {sanitize(str(error))} Once more:"))
            return None

    async def _deny(self, ask: Ask) -> Decision:
        await self._screen.note(self._palette.yellow(f"Denied: {sanitize(ask.title)} ({NOBODY_HERE})"))
        return Decision("deny", text=NOBODY_HERE)

    async def _put(self, desk: Desk, ask: Ask) -> Decision:
        forget_typed(self._setup.streams)
        text = ask_text(ask, self._palette, self._setup.columns(), self._setup.folder, enter=True)
        await self._screen.note(text)
        with self._screen.quiet():
            while (typed := await read_line(self._setup.streams)) is not None:
                if decision := await self._heard(desk, ask, typed):
                    return decision
        return await self._deny(ask)

    async def _heard(self, desk: Desk, ask: Ask, typed: str) -> Decision | None:
        """Returns what the line decides; None if nothing yet."""
        choice = chosen(ask, typed)
        match choice.action if choice else "answer":
            case "reason":
                await self._say(WHY)
                reason = (await read_line(self._setup.streams) or "").strip()
                return Decision("deny", text=reason) if reason else await self._say(NOT_YET)
            case "change":
                return await self._change(await full_ask(desk, self._setup, ask))
            case "whole":
                whole = whole_ask(await full_ask(desk, self._setup, ask))
                await self._screen.note("\n".join(ask_body(whole, self._palette, self._setup.columns())))
            case "help":
                await self._screen.note(ask_help(ask, self._palette, self._setup.columns()))
            case _:
                if decision := decide(ask, typed):
                    return decision
        keys = ", ".join([*(choice.key for choice in choices(ask)), *_numbers(ask)])
        return await self._say(f"Press one of {keys}, then Enter." if keys else NOT_YET)

    async def _change(self, ask: Ask) -> Decision | None:
        streams = self._setup.streams
        in_editor = bool(streams.editor) and not streams.dumb
        draft = draft_of(ask, in_editor=in_editor)
        try:
            if in_editor and not draft.is_command:
                text = await edit_in_editor(streams, draft.text, self._setup.state_dir)
            else:
                text = await self._edited(draft)
            decision = changed(ask, text) if text.strip() else None
        except Unusable as problem:
            return await self._say(f"{problem} {NOT_YET}")
        return decision or await self._say(UNCHANGED)

    async def _edited(self, draft: Draft) -> str:
        streams = self._setup.streams
        await self._say(draft.hint)
        if streams.stderr_tty and not streams.dumb:
            return await edit_line(streams, draft.text)
        await self._screen.note(f"  {sanitize(draft.text)}")
        return await read_line(streams) or ""

    async def _say(self, text: str) -> None:
        await self._screen.note(self._palette.dim(indent(text, self._setup.columns())))


def _numbers(ask: Ask) -> list[str]:
    return [str(number) for number in range(1, len(ask.options) + 1)]
