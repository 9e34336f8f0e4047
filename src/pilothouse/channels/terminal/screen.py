"""Where text goes. `say` is for what was asked for, `note` for all around it, `status` for the one live line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

from pilothouse.channels.terminal.streams import Streams
from pilothouse.core.errors import TryLater


class Screen(Protocol):
    @property
    def live(self) -> bool:
        """Whether there is a line that may be rewritten; if not, progress is told in plain lines."""
        ...

    async def say(self, text: str) -> None: ...

    async def note(self, text: str) -> None: ...

    def status(self, line: str) -> None: ...


class PlainScreen:
    """Answers on stdout, the rest on stderr; on a terminal stderr's last line is the status."""

    def __init__(self, streams: Streams, notes: TextIO | None = None) -> None:
        self._out = streams.stdout
        self._notes = notes or streams.stderr
        self._shown = ""
        self._quiet = False
        self.live = streams.live

    async def say(self, text: str) -> None:
        self._clear()
        put(self._out, text + "\n")

    async def note(self, text: str) -> None:
        self._clear()
        put(self._notes, text + "\n")

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """The status line is away meanwhile: it would be drawn over what somebody types."""
        self._clear()
        self._quiet = True
        try:
            yield
        finally:
            self._quiet = False

    def status(self, line: str) -> None:
        if self.live and line != self._shown and not self._quiet:
            self._shown = line
            put(self._notes, f"\r\x1b[2K{line}")

    def _clear(self) -> None:
        self.status("")


def put(stream: TextIO, text: str) -> None:
    """Writes at once; what the stream's encoding lacks becomes a question mark."""
    try:
        try:
            stream.write(text)
        except UnicodeEncodeError as error:
            stream.write(text.encode(error.encoding, "replace").decode(error.encoding))
        stream.flush()
    except (OSError, ValueError) as error:  # a broken pipe, a closed window, a closed file
        raise TryLater(60.0, "nobody reads the terminal's output any more") from error
