"""The input line, by prompt_toolkit: output scrolls above, the status and what is typed stay below.

One application runs from start to end. Enter, Ctrl-C and the keys of an ask only put values into a stream, so the
line never flickers and half-typed text is never lost. Only yes, no and a number answer an ask without Enter. An answer
that keeps a rule also needs that the rule was on the screen.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from pilothouse.channels.terminal.receive import Interrupt, Key, Leave, Line, Typed
from pilothouse.channels.terminal.screen import put
from pilothouse.channels.terminal.streams import Streams

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.data_structures import Size
    from prompt_toolkit.formatted_text import StyleAndTextTuples
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
    from prompt_toolkit.output import Output
    from typing_extensions import override
else:

    def override(method):
        return method


class Prompt:
    """A `Screen`, and its keyboard.

    `keys` answer at once while nothing is typed; `answers` tells whether a text is for an ask, and `warning` which rule
    Enter would keep. While something is `running`, Ctrl-C stops it and leaves the typed text alone.
    """

    live = True

    def __init__(
        self,
        streams: Streams,
        history: Path | None,
        keys: Callable[[], str],
        answers: Callable[[str], bool],
        warning: Callable[[str], str],
        running: Callable[[], bool],
    ) -> None:
        self._streams = streams
        self._keys = keys
        self._answers = answers
        self._warning = warning
        self._running = running
        self._status = ""
        self._warned = ""
        """The warning on the screen."""
        self._answer: Typed | None = None
        """An answer to an ask that is not handled yet."""
        self._send: MemoryObjectSendStream[Typed] | None = None
        self._session = self._make(history)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[MemoryObjectReceiveStream[Typed]]:
        """Yields once the line is drawn: from then on Ctrl-C is a key, not a signal."""
        drawn = anyio.Event()

        def mark(app: object) -> None:
            self._warned = self._warning_now()
            drawn.set()

        self._session.app.after_render.add_handler(mark)
        self._send, receive = anyio.create_memory_object_stream[Typed](64)
        with self._send, receive:
            async with anyio.create_task_group() as group:
                group.start_soon(self._run)
                await drawn.wait()
                yield receive
                group.cancel_scope.cancel()

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

    def prefill(self, text: str) -> None:
        """Puts a text into the line, to be edited there."""
        from prompt_toolkit.document import Document

        self._session.default_buffer.document = Document(text)
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

    def _make(self, history: Path | None) -> PromptSession[str]:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.input.vt100 import Vt100Input
        from prompt_toolkit.output.color_depth import ColorDepth

        return PromptSession(
            self._message,
            history=_history(history),
            key_bindings=self._bindings(),
            input=Vt100Input(self._streams.stdin),
            output=_output(self._streams.stdout),
            color_depth=None if self._streams.color else ColorDepth.DEPTH_1_BIT,
            erase_when_done=True,
        )

    def _message(self) -> StyleAndTextTuples:
        found: StyleAndTextTuples = [("dim", f"{self._status}\n")] if self._status else []
        if warning := self._warning_now():
            found.append(("ansiyellow", f"{warning}\n"))
        return [("", "\n"), *found, ("bold", "❯ ")]

    def _warning_now(self) -> str:
        return self._warning(self._session.default_buffer.text)

    def _bindings(self) -> KeyBindings:
        from prompt_toolkit.filters import Condition
        from prompt_toolkit.key_binding import KeyBindings
        from prompt_toolkit.keys import Keys

        bindings = KeyBindings()
        empty = Condition(lambda: not self._session.default_buffer.text)

        @bindings.add("enter")
        def enter(event: KeyPressEvent) -> None:
            warning = self._warning_now()
            if warning and warning != self._warned:
                return event.app.invalidate()
            text = event.current_buffer.text
            answers, line = self._answers(text), Line(text, warning)
            event.current_buffer.reset(append_to_history=bool(text.strip()) and not answers)
            if self._put(line) and answers:
                self._answer = line
            return None

        @bindings.add("c-c")
        @bindings.add(Keys.SIGINT)
        def interrupt(event: KeyPressEvent) -> None:
            buffer = event.current_buffer
            if buffer.text and (self._answers(buffer.text) or not self._running()):
                buffer.reset()
            else:
                self._put(Interrupt())

        answering = Condition(lambda: self._answers(self._session.default_buffer.text))

        @bindings.add("escape", filter=answering, eager=True)
        def go_back(event: KeyPressEvent) -> None:
            event.current_buffer.reset()

        @bindings.add("c-d", filter=empty)
        def leave(event: KeyPressEvent) -> None:
            self._put(Leave())

        for char in "yn123456789":
            answers = Condition(lambda char=char: self._answer is None and char in self._keys())

            @bindings.add(char, filter=empty & answers, eager=True)
            def answer(event: KeyPressEvent) -> None:
                if self._put(key := Key(event.data)):
                    self._answer = key

        return bindings

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


def _output(stream: TextIO) -> Output:
    from prompt_toolkit.output.vt100 import Vt100_Output

    class Patient(Vt100_Output):
        """Ignores write errors: a closed window is noticed by the keyboard and by a signal.

        prompt_toolkit would print the error from the event loop, which fails again.
        """

        @override
        def flush(self) -> None:
            with suppress(OSError):
                super().flush()

    # Cursor position requests (CPR) print a warning on terminals that do not answer.
    return Patient(stream, lambda: _size_of(stream), enable_cpr=False)


def _size_of(stream: TextIO) -> Size:
    from prompt_toolkit.data_structures import Size

    try:
        columns, rows = os.get_terminal_size(stream.fileno())
    except OSError:  # its window was closed
        columns = rows = 0
    return Size(rows=rows or 24, columns=columns or 80)


async def edit_line(streams: Streams, text: str) -> str:
    """Edits one line on the tty beside a one-shot answer; empty if the person goes back."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.input.vt100 import Vt100Input

    session: PromptSession[str] = PromptSession(
        input=Vt100Input(streams.stdin), output=_output(streams.stderr)
    )
    try:
        return await session.prompt_async("  ❯ ", default=text, handle_sigint=False)
    except (EOFError, KeyboardInterrupt):
        return ""


def _history(path: Path | None) -> History:
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    if path is None:
        return InMemoryHistory()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600))
    path.chmod(0o600)
    return FileHistory(path)
