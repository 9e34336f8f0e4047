"""prompt_toolkit for our streams: a session with its history, output that ignores write errors, and a one-line edit."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from pilothouse.channels.terminal.streams import Streams

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.buffer import BufferAcceptHandler
    from prompt_toolkit.completion import Completer
    from prompt_toolkit.data_structures import Size
    from prompt_toolkit.formatted_text import AnyFormattedText
    from prompt_toolkit.history import History
    from prompt_toolkit.key_binding import KeyBindings
    from prompt_toolkit.output import Output
    from typing_extensions import override
else:

    def override(method):
        return method


KEY_WAIT_S = 0.1
"""Seconds that Escape waits for a second byte. Alt+Enter sends Escape and Enter together."""


def make_session(
    streams: Streams,
    history: Path | None,
    message: AnyFormattedText,
    bindings: KeyBindings,
    completer: Completer | None,
    submit: BufferAcceptHandler,
) -> PromptSession[str]:
    """Returns a session that no key ends: whatever accepts the line, as Alt+# does too, calls `submit`."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.input.vt100 import Vt100Input
    from prompt_toolkit.output.color_depth import ColorDepth

    session: PromptSession[str] = PromptSession(
        message,
        history=_history(history),
        key_bindings=bindings,
        completer=completer,
        complete_while_typing=False,
        prompt_continuation="  ",
        input=Vt100Input(streams.stdin),
        output=_output(streams.stdout),
        color_depth=None if streams.color else ColorDepth.DEPTH_1_BIT,
        erase_when_done=True,
    )
    session.default_buffer.accept_handler = submit
    session.app.timeoutlen = session.app.ttimeoutlen = KEY_WAIT_S
    return session


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
