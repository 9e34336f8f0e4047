"""The input line: output scrolls above, the answer so far, the status and what is typed stay below.

One application runs from start to end. Enter, Ctrl-C, Escape and the keys of an ask only put values into a stream, so
the line never flickers and half-typed text is never lost.

A single key answers an ask only if it comes alone: typed into an empty line, after the question could be read, and
followed by nothing for `ALONE_S`. Otherwise it is a letter, and Enter decides. An answer that keeps a rule also needs
that the rule was on the screen.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from pilothouse.channels.terminal.line_editor import make_session
from pilothouse.channels.terminal.receive import Escape, Interrupt, Key, Leave, Line, PasteImage, Typed
from pilothouse.channels.terminal.screen import put
from pilothouse.channels.terminal.streams import Streams
from pilothouse.core.ask import Ask, is_secret
from pilothouse.core.clock import Clock

if TYPE_CHECKING:
    from prompt_toolkit.buffer import Buffer
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

ALONE_S = 0.7
ROWS_BELOW = 8
"""Rows kept free below the text that is being written, for the status and what is typed."""
SINGLE_KEYS = "yn123456789"


class PromptState(Protocol):
    """Facts about the chat that decide what a key does."""

    @property
    def running(self) -> bool:
        """While something runs, Ctrl-C stops it and leaves the typed text alone."""
        ...

    @property
    def front(self) -> Ask | None:
        """The question that a key or a line is about."""
        ...

    def single_keys(self) -> str:
        """Returns the keys that answer an ask without Enter at this moment."""
        ...

    def answers(self, text: str) -> bool:
        """Tells whether a text is for an ask."""
        ...

    def warning(self, text: str) -> str:
        """Names the rule that Enter would keep; empty if none."""
        ...


class Prompt:
    """A `Screen`, and its keyboard."""

    live = True

    def __init__(
        self,
        streams: Streams,
        history: Path | None,
        clock: Clock,
        completer: Completer | None = None,
    ) -> None:
        self._streams = streams
        self._state: PromptState
        self._clock = clock
        self._status = ""
        self._draft = ""
        self._warned = ""
        """The warning on the screen."""
        self._edits = 0
        """Counts changes of the line."""
        self._answer: Typed | None = None
        """An answer to an ask that is not handled yet."""
        self._send: MemoryObjectSendStream[Typed] | None = None
        self._group: TaskGroup | None = None
        self._session = make_session(
            streams,
            history,
            self._message,
            self._bindings(),
            completer,
            self._submit,
        )
        self._session.default_buffer.on_text_changed += self._count_edit

    @asynccontextmanager
    async def open(self, state: PromptState) -> AsyncIterator[MemoryObjectReceiveStream[Typed]]:
        """Yields once the line is drawn: from then on Ctrl-C is a key, not a signal."""
        self._state = state
        drawn = anyio.Event()

        def mark(app: object) -> None:
            self._warned = self._warning_now()
            drawn.set()

        self._session.app.after_render.add_handler(mark)
        self._send, receive = anyio.create_memory_object_stream[Typed](64)
        with self._send, receive:
            async with anyio.create_task_group() as self._group:
                self._group.start_soon(self._run)
                await drawn.wait()
                yield receive
                self._group.cancel_scope.cancel()

    async def say(self, text: str) -> None:
        """Prints above the line. `run_in_terminal` would switch the tty to cooked mode meanwhile and lose a Ctrl-D."""
        app = self._session.app
        if app.is_running:
            app.renderer.erase()
        put(self._streams.stdout, text + "\n")
        app.invalidate()

    async def note(self, text: str) -> None:
        await self.say(text)

    def status(self, line: str) -> None:
        if line != self._status:
            self._status = line
            self._session.app.invalidate()

    def draft(self, text: str) -> bool:
        if text != self._draft:
            self._draft = text
            self._session.app.invalidate()
        return True

    def prefill(self, text: str) -> None:
        """Puts a text into the line, to be edited there."""
        from prompt_toolkit.document import Document

        self._session.default_buffer.document = Document(text)
        self._session.app.invalidate()

    def insert(self, text: str) -> None:
        self._session.default_buffer.insert_text(text)
        self._session.app.invalidate()

    @asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        """Removes the line and restores the tty for another program, such as an editor."""
        from prompt_toolkit.application.current import set_app
        from prompt_toolkit.application.run_in_terminal import in_terminal

        with set_app(self._session.app):
            async with in_terminal():
                yield

    def taken(self, typed: Typed) -> None:
        """Marks it as handled. Until an answer is, keys are plain letters: they may begin the reason it asks for."""
        if typed is self._answer:
            self._answer = None

    async def _run(self) -> None:
        try:
            await self._session.prompt_async()
        except EOFError:  # the tty was closed
            self._put(Leave())

    def _message(self) -> StyleAndTextTuples:
        from prompt_toolkit.formatted_text import ANSI, to_formatted_text

        found: StyleAndTextTuples = []
        if self._draft:
            rows = self._draft.split("\n")[-max(1, self._session.output.get_size().rows - ROWS_BELOW) :]
            found += [*to_formatted_text(ANSI("\n".join(rows))), ("", "\n\n")]
        if self._status:
            found.append(("dim", f"{self._status}{self._key_hint()}\n"))
        if warning := self._warning_now():
            found.append(("ansiyellow", f"{warning}\n"))
        return [("", "\n"), *found, ("bold", "❯ ")]

    def _key_hint(self) -> str:
        typed = self._session.default_buffer.text
        if self._answer is not None or (typed and not self._state.answers(typed)):
            return ""
        keys = self._state.single_keys()
        return " · Enter answers" if typed else f" · press {' or '.join(keys)}" if keys else ""

    def _warning_now(self) -> str:
        return self._state.warning(self._session.default_buffer.text)

    def _bindings(self) -> KeyBindings:
        from prompt_toolkit.enums import DEFAULT_BUFFER
        from prompt_toolkit.filters import Condition, has_focus
        from prompt_toolkit.key_binding import KeyBindings
        from prompt_toolkit.keys import Keys

        bindings, in_line = KeyBindings(), has_focus(DEFAULT_BUFFER)
        empty = in_line & Condition(lambda: not self._session.default_buffer.text)

        @bindings.add("enter", filter=in_line)
        def enter(event: KeyPressEvent) -> None:
            self._submit(event.current_buffer)

        @bindings.add("escape", "enter", filter=in_line)
        @bindings.add("c-j", filter=in_line)
        def break_line(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @bindings.add("c-c", filter=in_line)
        @bindings.add(Keys.SIGINT)
        def interrupt(event: KeyPressEvent) -> None:
            self._interrupt()

        @bindings.add("escape", filter=in_line)
        def escape(event: KeyPressEvent) -> None:
            self._escape()

        @bindings.add("c-d", filter=empty)
        def leave(event: KeyPressEvent) -> None:
            self._put(Leave())

        @bindings.add("c-z", filter=in_line)
        def undo(event: KeyPressEvent) -> None:
            event.current_buffer.undo()

        @bindings.add("c-v", filter=in_line)
        def paste_image(event: KeyPressEvent) -> None:
            self._put(PasteImage())

        for char in SINGLE_KEYS:
            acts = Condition(lambda char=char: self._answer is None and char in self._state.single_keys())

            @bindings.add(char, filter=empty & acts)
            def answer(event: KeyPressEvent) -> None:
                event.current_buffer.insert_text(event.data)
                if self._group is not None:
                    self._group.start_soon(self._press_alone, event.data, self._edits)

        return bindings

    def _submit(self, buffer: Buffer) -> bool:
        """Takes Enter. Returns true: the line was emptied here, or stays."""
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
            return True
        warning = self._warning_now()
        if warning and warning != self._warned:
            self._session.app.invalidate()
            return True
        text = buffer.text
        answers, line = self._state.answers(text), Line(text, warning, self._state.front)
        is_key = line.ask is not None and is_secret(line.ask)
        buffer.reset(append_to_history=bool(text.strip()) and not answers and not is_key)
        if self._put(line) and answers:
            self._answer = line
        return True

    def _interrupt(self) -> None:
        buffer = self._session.default_buffer
        if buffer.text and (self._state.answers(buffer.text) or not self._state.running):
            buffer.reset()
        else:
            self._put(Interrupt())

    def _escape(self) -> None:
        buffer = self._session.default_buffer
        if buffer.complete_state:
            buffer.cancel_completion()
        elif buffer.text and self._state.answers(buffer.text):
            buffer.reset()
        else:
            self._put(Escape())

    async def _press_alone(self, char: str, edits: int) -> None:
        await self._clock.sleep(ALONE_S)
        buffer = self._session.default_buffer
        alone = self._edits == edits and buffer.text == char
        if alone and self._answer is None and char in self._state.single_keys():
            buffer.reset()
            if self._put(key := Key(char, self._state.front)):
                self._answer = key

    def _count_edit(self, buffer: object) -> None:
        self._edits += 1

    def _put(self, typed: Typed) -> bool:
        """Returns false if the stream is closed or full."""
        if self._send is None:
            return False
        try:
            self._send.send_nowait(typed)
        except anyio.WouldBlock:  # a key is held down: the bell says that it was dropped
            self._session.output.bell()
            return False
        return True
