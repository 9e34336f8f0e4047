"""Standard streams and terminal facts as one value: no other module here uses `sys` or `os.environ`."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager
from typing import TextIO

from msgspec import Struct


class Streams(Struct, frozen=True):
    """`dumb` is a terminal without colour and cursor movement."""

    stdin: TextIO
    stdout: TextIO
    stderr: TextIO
    stdin_tty: bool
    stdout_tty: bool
    stderr_tty: bool
    width: Callable[[], int]
    color: bool
    dumb: bool
    interrupts: Callable[[], AbstractContextManager[AsyncIterator[object]]]
    """Opens a stream that yields for each Ctrl-C that no line editor takes."""
    editor: str = ""
    """VISUAL or EDITOR."""

    @property
    def live(self) -> bool:
        """True if one line can be rewritten in place."""
        return self.stderr_tty and not self.dumb


def system_streams(environ: Mapping[str, str] = os.environ) -> Streams:
    dumb = environ.get("TERM", "dumb") in ("", "dumb", "unknown")
    return Streams(
        stdin=sys.stdin,
        stdout=sys.stdout,
        stderr=sys.stderr,
        stdin_tty=sys.stdin.isatty(),
        stdout_tty=sys.stdout.isatty(),
        stderr_tty=sys.stderr.isatty(),
        width=lambda: shutil.get_terminal_size().columns,
        color=not dumb and not environ.get("NO_COLOR"),
        dumb=dumb,
        interrupts=_ctrl_c,
        editor=environ.get("VISUAL") or environ.get("EDITOR") or "",
    )


def _ctrl_c() -> AbstractContextManager[AsyncIterator[object]]:
    import signal

    import anyio

    return anyio.open_signal_receiver(signal.SIGINT)


class WallClock:
    """The default `Clock` of a terminal."""

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        import anyio

        await anyio.sleep(seconds)
