"""Answers to the ask on the screen of an interactive chat: keys, words, a reason, a changed input."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from pilothouse.channels.terminal.ask_text import ask_body, ask_help, keep_warning
from pilothouse.channels.terminal.draft import UNCHANGED, Unusable, changed, draft_of, edit_in_editor
from pilothouse.channels.terminal.prompt import Prompt
from pilothouse.channels.terminal.receive import WHY, chosen, decide, keys_of
from pilothouse.channels.terminal.setup import Setup, full_ask, open_asks
from pilothouse.channels.terminal.style import Palette, indent, sanitize
from pilothouse.channels.terminal.transcript import Transcript
from pilothouse.core.ask import Ask, Decision
from pilothouse.core.ask_view import whole_ask
from pilothouse.core.channel import Desk
from pilothouse.core.errors import PilothouseError

READ_S = 1.0
"""A single key answers a question only after it was on the screen for this long."""


class Wanted(Struct, frozen=True):
    """The next line is the reason of a denial, or a changed input."""

    ask: Ask
    what: Literal["reason", "change"]


class AskDialog:
    def __init__(self, setup: Setup, transcript: Transcript, palette: Palette, prompt: Prompt | None) -> None:
        """`prompt` is None on a plain terminal."""
        self._prompt = prompt
        self._setup = setup
        self._transcript = transcript
        self._palette = palette
        self.wanted: Wanted | None = None

    @property
    def front(self) -> Ask | None:
        """The ask that the next key or line is about."""
        return None if self.wanted else self._transcript.asks.front

    @property
    def running(self) -> bool:
        return self._transcript.running

    def single_keys(self) -> str:
        """Returns the keys that answer without Enter at this moment."""
        ask = self.front
        return keys_of(ask) if ask and self._transcript.asks.stood_s >= READ_S else ""

    def answers(self, text: str) -> bool:
        return (ask := self.front) is not None and chosen(ask, text) is not None

    def warning(self, text: str) -> str:
        return keep_warning(ask, text, self._setup.columns()) if (ask := self.front) else ""

    def completes(self, text: str) -> bool:
        """True if the line belongs to an answer that was begun; a command may come in between, except as a new input."""
        return self.wanted is not None and not (self.wanted.what == "reason" and text.startswith("/"))

    async def answer_with(self, desk: Desk, typed: str) -> bool:
        """Returns true if the text was for the open ask. If it needs more words, the next line completes it."""
        ask = self._transcript.asks.front
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

    async def complete(self, desk: Desk, text: str) -> None:
        """Completes the answer that the line was typed for; the line is never sent as a message."""
        wanted = self.wanted
        if wanted is None or not text:
            return await self.go_back()
        self.wanted = None
        if wanted.what == "change":
            return await self._allow_changed(desk, wanted.ask, text)
        return await self._answer(desk, wanted.ask, Decision("deny", text=text))

    async def go_back(self) -> None:
        self.wanted = None
        if self._prompt:
            self._prompt.prefill("")
        await self._hint("Not answered yet.")

    async def complain(self, text: str) -> None:
        await self._transcript.note(self._palette.red(indent(text, self._setup.columns())))

    async def _want(self, wanted: Wanted, hint: str, prefilled: str = "") -> None:
        self.wanted = wanted
        await self._hint(hint)
        if prefilled and self._prompt:
            self._prompt.prefill(prefilled)
        elif prefilled:
            await self._transcript.note(f"  {sanitize(prefilled)}")

    async def _change(self, desk: Desk, ask: Ask) -> None:
        """Lets the person edit a command in the line, and other input in their own editor."""
        try:
            ask = await full_ask(desk, self._setup, ask)
        except PilothouseError as error:
            return await self.complain(str(error))
        editor = self._setup.streams.editor
        draft = draft_of(ask, in_editor=bool(editor and self._prompt))
        if draft.is_command or not editor or self._prompt is None:
            return await self._want(Wanted(ask, "change"), draft.hint, draft.text)
        try:
            async with self._transcript.paused(), self._prompt.away():
                text = await edit_in_editor(self._setup.streams, draft.text, self._setup.state_dir)
        except Unusable as problem:
            return await self.complain(f"{problem} Not answered yet.")
        return await self._allow_changed(desk, ask, text)

    async def _allow_changed(self, desk: Desk, ask: Ask, text: str) -> None:
        try:
            decision = changed(ask, text)
        except Unusable as problem:
            hint = f"{problem} Try again, or press Enter on an empty line to go back."
            return await self._want(Wanted(ask, "change"), hint, text)
        return await (self._hint(UNCHANGED) if decision is None else self._answer(desk, ask, decision))

    async def _show_whole(self, desk: Desk, ask: Ask) -> None:
        try:
            ask = await full_ask(desk, self._setup, ask)
        except PilothouseError as error:
            return await self.complain(str(error))
        lines = ask_body(whole_ask(ask), self._palette, self._setup.columns())
        return await self._transcript.note("\n".join(lines), alone=True)

    async def _answer(self, desk: Desk, ask: Ask, decision: Decision) -> None:
        author = self._setup.identity.author
        decision = replace(decision, by=author.id)
        self._transcript.asks.answer_here(ask.id)
        try:
            answered = await desk.answer(ask.id, ask.payload_hash, decision, author)
            waiting = () if answered.accepted else await open_asks(desk, self._setup)
        except PilothouseError as error:
            return await self.complain(f"{error} Answer again.")
        settled = indent(f"→ {answered.text}", self._setup.columns())
        await self._transcript.note(self._palette.dim(settled), alone=True)
        if ask.id not in {found.id for found in waiting}:
            await self._transcript.settle(ask.id)
        return None

    async def _hint(self, text: str) -> None:
        await self._transcript.note(self._palette.dim(indent(text, self._setup.columns())))
