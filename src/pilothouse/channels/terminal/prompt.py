"""The interactive line, by prompt_toolkit: output scrolls above, the status and what is typed stay below.

One application runs from start to end. Enter, Ctrl-C and the keys of an ask only put values into a stream, so
that the line never flickers and what is half typed is never lost. Only a plain yes, a no and a number are read as
they are pressed. All else that answers an ask is a letter in the line like any other, and needs Enter; what would
keep a rule needs, too, that the rule was on the screen.
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
    """A `Screen`, and the keyboard beneath it.

    `keys` are those that answer at once, while nothing is typed; `answers` says whether a text is for an ask, and
    `warning` what would be kept if Enter were pressed after it; while something is `running`, Ctrl-C stops it and leaves alone what is typed.
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
        """The warning that stands on the screen."""
        self._answer: Typed | None = None
        """What was typed to an ask and is not dealt with yet."""
        self._send: MemoryObjectSendStream[Typed] | None = None
        self._session = self._make(history)

    @asynccontextmanager
    async def open(self) -> AsyncIterator[MemoryObjectReceiveStream[Typed]]:
        """Yields once the line is drawn: from then on Ctrl-C is a key and no signal."""
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
        """Above the line. Not by `run_in_terminal`: that lets the tty cook keys meanwhile, and eats a Ctrl-D."""
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
        """Puts a text into the line, to be changed there."""
        from prompt_toolkit.document import Document

        self._session.default_buffer.document = Document(text)
        self._session.app.invalidate()

    @asynccontextmanager
    async def away(self) -> AsyncIterator[None]:
        """The line is gone and the tty is as a program expects it that we start: an editor."""
        from prompt_toolkit.application.current import set_app
        from prompt_toolkit.application.run_in_terminal import in_terminal

        with set_app(self._session.app):
            async with in_terminal():
                yield

    def taken(self, typed: Typed) -> None:
        """It was dealt with. Until an answer is, keys are letters: they may be the reason that it asks for."""
        if typed is self._answer:
            self._answer = None

    async def _run(self) -> None:
        try:
            await self._session.prompt_async()
        except EOFError:  # the tty is gone
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
        """Whether somebody will take it."""
        if self._send is None:
            return False
        try:
            self._send.send_nowait(typed)
        except anyio.WouldBlock:  # somebody leans on a key: the bell says that it was not heard
            self._session.output.bell()
            return False
        return True


def _output(stream: TextIO) -> Output:
    from prompt_toolkit.output.vt100 import Vt100_Output

    class Patient(Vt100_Output):
        """Takes what nobody will see: that the window was closed is heard from the keyboard, and by a signal.

        An error would come out of the event loop, where prompt_toolkit prints it, which is an error again.
        """

        @override
        def flush(self) -> None:
            with suppress(OSError):
                super().flush()

    # Asking the terminal for the cursor's place (CPR) earns a warning from those that do not answer.
    return Patient(stream, lambda: _size_of(stream), enable_cpr=False)


def _size_of(stream: TextIO) -> Size:
    from prompt_toolkit.data_structures import Size

    try:
        columns, rows = os.get_terminal_size(stream.fileno())
    except OSError:  # its window was closed
        columns = rows = 0
    return Size(rows=rows or 24, columns=columns or 80)


async def edit_line(streams: Streams, text: str) -> str:
    """One line, changed in place on the tty beside a one-shot answer; empty if the person goes back."""
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
