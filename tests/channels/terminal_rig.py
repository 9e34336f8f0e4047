"""Terminals for tests: in memory, where time is moved by hand, and on a real pty, where a person types."""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import hashlib
import heapq
import io
import os
import pty
import re
import select
import struct
import termios
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, Self

import anyio
import anyio.lowlevel
from msgspec import Struct
from tests.channels.terminal_scene import Scene, make_channel
from tests.forked import Forked

from pilothouse.channels.terminal.channel import TerminalChannel
from pilothouse.channels.terminal.config import Mode
from pilothouse.channels.terminal.streams import Streams
from pilothouse.core.message import Address, conversation_id
from pilothouse.testing.desk import ScriptedDesk

GOLDEN = Path(__file__).parent / "golden"
ROOT = Path(__file__).parents[2]
_TOKEN = re.compile(
    r"\x1b\[(?P<args>[0-9;?]*)(?P<code>[@-~])|\x1b[=>78]|\x1b\][^\x07]*\x07|(?P<char>.)", re.S
)
PATIENCE_S = 100.0
"""A busy machine may take many seconds to start a program on a pty."""


class Edges:
    """In-memory streams, and a Ctrl-C to press. `together` puts stdout and stderr on one screen."""

    def __init__(
        self,
        *,
        tty: bool = False,
        together: bool = False,
        dumb: bool = False,
        color: bool = False,
        width: int = 80,
    ) -> None:
        self.stdout = io.StringIO()
        self.stderr = self.stdout if together else io.StringIO()
        self._presses, self._pressed = anyio.create_memory_object_stream[None](10)
        self.streams = Streams(
            stdin=io.StringIO(),
            stdout=self.stdout,
            stderr=self.stderr,
            stdin_tty=False,
            stdout_tty=tty,
            stderr_tty=tty,
            width=lambda: width,
            color=color,
            dumb=dumb,
            interrupts=self._interrupts,
        )

    def press_ctrl_c(self) -> None:
        self._presses.send_nowait(None)

    def close(self) -> None:
        self._presses.close()
        self._pressed.close()

    @contextlib.contextmanager
    def _interrupts(self) -> Iterator[AsyncIterator[object]]:
        yield self._pressed


class RushClock:
    """Time that passes as soon as nobody has anything left to do: a minute of sleeping costs a millisecond."""

    def __init__(self) -> None:
        self._now = 0.0
        self._order = count()
        self._sleepers: list[tuple[float, int, anyio.Event]] = []

    def now(self) -> float:
        return 1_800_000_000.0 + self._now

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        woken = anyio.Event()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._order), woken))
        await woken.wait()

    async def rush(self, over: Callable[[], bool], most_s: float = 600.0) -> None:
        while not over():
            for _ in range(40):  # more than the longest chain of tasks that wake each other
                await anyio.lowlevel.checkpoint()
            if self._sleepers and not over():
                self._now, _, woken = heapq.heappop(self._sleepers)
                woken.set()
            assert self._now < most_s, "it takes for ever"


class Seen(Struct, frozen=True):
    stdout: str
    stderr: str
    exit_code: int


class Stay:
    """One terminal and the scene behind it, with a clock that a test moves."""

    def __init__(
        self, state_dir: Path, mode: Mode, edges: Edges, *, pace_s: float = 0.0, **options: Any
    ) -> None:
        self.clock = RushClock()
        self.desk = ScriptedDesk()
        self.edges = edges
        self.channel: TerminalChannel = make_channel(state_dir, mode, edges.streams, self.clock, **options)
        self.scene = Scene(self.desk, self.clock, pace_s)
        self._over = False

    async def play(self) -> Seen:
        """To its end."""
        async with self.playing():
            pass
        return self.seen()

    @contextlib.asynccontextmanager
    async def playing(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as group:
            group.start_soon(self._run)
            await anyio.wait_all_tasks_blocked()
            yield
            await self.clock.rush(lambda: self._over)
            group.cancel_scope.cancel()

    async def _run(self) -> None:
        try:
            await self.scene.run(self.channel)
        finally:
            self._over = True
            self.edges.close()

    def seen(self) -> Seen:
        return Seen(self.edges.stdout.getvalue(), self.edges.stderr.getvalue(), self.channel.exit_code)


def leave_mark(state_dir: Path, address: Address, seq: int) -> Path:
    """As a terminal does that has read up to `seq`, of whichever log."""
    name = hashlib.sha256(conversation_id(address).encode()).hexdigest()[:16]
    path = state_dir / "terminal" / f"{name}.seq"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(str(seq), "ascii")
    return path


def settled(text: str) -> str:
    """What stays on a terminal after its status line was rewritten for the last time."""
    return "\n".join(line.split("\r\x1b[2K")[-1] for line in text.split("\n"))


def check_golden(name: str, text: str) -> None:
    """`UPDATE_GOLDEN=1` writes the file anew: read the diff before you commit it."""
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")


def painted(raw: str) -> str:
    """The little of a terminal that a line editor uses: cursor up, down, left, right, erase, and plain text."""
    rows: dict[int, dict[int, str]] = {}
    y = x = 0
    for token in _TOKEN.finditer(raw):
        count_of = int(token["args"]) if (token["args"] or "").isdigit() else 1
        match token["code"] or token["char"]:
            case "\r" if token["char"]:
                x = 0
            case "\n" if token["char"]:
                y += 1
            case "\b" if token["char"]:
                x -= 1
            case "A" if token["code"]:
                y = max(0, y - count_of)
            case "B" if token["code"]:
                y += count_of
            case "C" if token["code"]:
                x += count_of
            case "D" if token["code"]:
                x = max(0, x - count_of)
            case "J" if token["code"]:
                rows = {row: cells for row, cells in rows.items() if row < y} | {
                    y: _before(rows.get(y, {}), x)
                }
            case "K" if token["code"]:
                rows[y] = {} if token["args"] == "2" else _before(rows.get(y, {}), x)
            case char if token["char"] and char:
                rows.setdefault(y, {})[x] = char
                x += 1
            case _:
                pass
    return "\n".join(_line(rows.get(row, {})) for row in range(max(rows, default=0) + 1))


def _before(cells: dict[int, str], x: int) -> dict[int, str]:
    return {column: char for column, char in cells.items() if column < x}


def _line(cells: dict[int, str]) -> str:
    return "".join(cells.get(column, " ") for column in range(max(cells, default=-1) + 1)).rstrip()


SCENE = ("tests.channels.terminal_scene",)


class Pty:
    """A program on a real pty, and the person in front of it: a module and its first words, by default the scene.

    It takes the pty for its own, as a shell's programs have theirs: Ctrl-C there reaches it.
    """

    def __init__(
        self,
        *arguments: str,
        program: Sequence[str] = SCENE,
        folder: Path = ROOT,
        columns: int = 80,
        environ: dict[str, str] | None = None,
    ) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        # What runs the tests may say how wide its own window is; here the pty says it.
        unsaid = ("NO_COLOR", "COLUMNS", "LINES")
        inherited = {name: value for name, value in os.environ.items() if name not in unsaid}
        env = {**inherited, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT / "src"), **(environ or {})}
        self.process = Forked(
            *program, *arguments, env=env, cwd=folder, streams=(theirs,) * 3, session="terminal"
        )
        os.close(theirs)
        self.raw = ""
        # A pty may cut anywhere, in the middle of a character too.
        self._characters = codecs.getincrementaldecoder("utf-8")("replace")
        self._hung_up = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        if not self._hung_up:
            os.close(self._ours)

    def hang_up(self) -> None:
        """The window is closed."""
        os.close(self._ours)
        self._hung_up = True

    @property
    def text(self) -> str:
        """What stands on the screen, with all that scrolled away above it."""
        return painted(self.raw)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def wait_for(self, needle: str, timeout_s: float = PATIENCE_S, *, times: int = 1) -> None:
        self._until(lambda: self.text.count(needle) >= times, f"{needle!r} to be seen", timeout_s)

    def wait_until_gone(self, needle: str, timeout_s: float = PATIENCE_S) -> None:
        self._until(lambda: needle not in self.text, f"{needle!r} to be gone", timeout_s)

    def press_until(self, key: str, needle: str) -> None:
        """Presses again where a key may come too early: a line editor reads its history when it has time."""
        for _ in range(30):
            self.type(key)
            with contextlib.suppress(AssertionError):
                return self.wait_for(needle, 0.5)
        return self.wait_for(needle)

    def wait(self, timeout_s: float = PATIENCE_S) -> int:
        """The exit code."""
        self._until(lambda: self.process.poll() is not None, "the program to end", timeout_s)
        self._read(0.0)
        return self.process.wait()

    def _until(self, seen: Callable[[], bool], what: str, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not seen():
            assert time.monotonic() < deadline, f"waited for {what} in:\n{self.text}"
            self._read(0.05)

    def _read(self, timeout_s: float) -> None:
        while select.select([self._ours], [], [], timeout_s)[0]:
            try:
                chunk = os.read(self._ours, 65_536)
            except OSError:
                return
            if not chunk:
                return
            self.raw += self._characters.decode(chunk)
            timeout_s = 0.0
