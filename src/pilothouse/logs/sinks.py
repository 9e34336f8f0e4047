"""Log sinks: one JSON line per entry in a rotating file, one short line on the terminal.

Everything is redacted here, so that no caller can forget it. A sink never raises: a full disk must not stop the gateway.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Collection, Mapping
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, TextIO

from pilothouse.logs.redaction import MARK, Redactor, names_secret

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

Entry = Mapping[str, Any]

MAX_TEXT = 20_000
MAX_SCANNED = 500_000
MAX_PLAIN = 2000
MAX_DEPTH = 8
MAX_ITEMS = 200
CHECK_EVERY_S = 0.25
BATCHED_LEVELS = ("debug", "info")
FIRST = ("at", "level", "event")
FOR_PEOPLE = ("text", "error", "why")
MAX_FIELD = 100
MAX_TEXT_FIELD = 4000
INDENT = 9
NARROWEST = 40
COLOURS = {"debug": "2", "info": "36", "warning": "33", "error": "31", "critical": "31"}

_names_secret = lru_cache(maxsize=512)(names_secret)


def clean_entry(entry: Entry, redactor: Redactor) -> Entry:
    """Clean an entry. Nearly every one is short and without secrets, which one check over all of it tells."""
    if not all(isinstance(value, str | int | float | None) for value in entry.values()):
        return clean(entry, redactor)
    together = "\n".join([*entry, *map(str, entry.values())])
    if len(together) > MAX_PLAIN or any(map(_names_secret, entry)) or redactor.redact(together) != together:
        return clean(entry, redactor)
    return entry


def clean(value: Any, redactor: Redactor, depth: int = 0) -> Any:
    """Return bounded plain JSON values without secrets."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return value if redactor.redact(str(value)) == str(value) else MARK
    if depth > MAX_DEPTH:
        return "…"
    if isinstance(value, Mapping):
        return {
            _text(name, redactor): MARK
            if isinstance(item, str) and item and _names_secret(str(name))
            else clean(item, redactor, depth + 1)
            for name, item in list(value.items())[:MAX_ITEMS]
        }
    if isinstance(value, Collection) and not isinstance(value, str | bytes):
        return [clean(item, redactor, depth + 1) for item in list(value)[:MAX_ITEMS]]
    return _text(value, redactor)


def _text(value: Any, redactor: Redactor) -> str:
    """Redact, then cut: half a secret would not be recognised."""
    text = redactor.redact(_spell(value)[:MAX_SCANNED])
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}… (cut)"


def _spell(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    try:
        return f"{type(value).__name__}: {value}" if isinstance(value, BaseException) else repr(value)
    except Exception as error:  # noqa: BLE001 - a broken repr must not lose the entry
        return f"<{type(value).__name__} without a repr: {type(error).__name__}>"


class RotatingFile:
    """Appends whole lines. Another process may rotate the same file, so it is checked now and then; lines written before
    that check are in the rotated file."""

    def __init__(self, path: Path, max_bytes: int, keep: int, check_every_s: float = CHECK_EVERY_S) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._keep = keep
        self._check_every_s = check_every_s
        self._name = str(path)
        self._fd = -1
        self._inode = -1
        self._size = 0
        self._checked_at = 0.0

    def write(self, lines: str) -> None:
        data = (lines + "\n").encode("utf-8", "replace")
        now = time.monotonic()
        full = self._size + len(data) > self._max_bytes
        if self._fd < 0 or full or now - self._checked_at >= self._check_every_s:
            self._check()
            self._checked_at = now
            if self._size > 0 and self._size + len(data) > self._max_bytes:
                self._rotate()
                self._check()
        self._size += os.write(self._fd, data)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _check(self) -> None:
        """Check the size, and reopen the file if it was replaced."""
        with contextlib.suppress(OSError):
            found = os.stat(self._name)
            if self._fd >= 0 and found.st_ino == self._inode:
                self._size = found.st_size
                return
        self.close()
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        opened = os.fstat(self._fd)
        self._inode, self._size = opened.st_ino, opened.st_size

    def _rotate(self) -> None:
        self.close()
        for number in range(self._keep - 1, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                os.replace(f"{self.path}.{number}", f"{self.path}.{number + 1}")
        with contextlib.suppress(FileNotFoundError):
            if self._keep:
                self.path.replace(f"{self.path}.1")
            else:
                self.path.unlink()


class FileSink:
    """Writes one JSON line per entry, with the traceback. A failure is reported once, through `complain`.

    Lines of one event loop step are written together at its end, because each write lets another thread in. Without a
    loop, and from `warning` on, a line is written at once.
    """

    def __init__(self, file: RotatingFile, redactor: Redactor, complain: Callable[[str], object]) -> None:
        self._file = file
        self._redactor = redactor
        self._complain = complain
        self._failed = False
        self._lines: list[str] = []
        self._loop: AbstractEventLoop | None = None
        """The event loop that will write the lines."""
        self._lock = RLock()
        """Reentrant: the garbage collector may run during a write, and what it frees may log."""

    def __call__(self, entry: Entry) -> None:
        ordered = {name: entry[name] for name in FIRST if name in entry} | dict(entry)
        try:
            line = json.dumps(clean_entry(ordered, self._redactor), ensure_ascii=False)
        except ValueError as error:
            self._report(error)
            return
        loop = _running_loop()
        with self._lock:
            waits = bool(self._lines) and self._loop is loop
            self._lines.append(line)
            self._loop = loop
        if loop is None or entry.get("level") not in BATCHED_LEVELS:
            self.flush()
        elif not waits:
            loop.call_soon(self.flush)

    def flush(self) -> None:
        with self._lock:
            if not self._lines:
                return
            lines = "\n".join(self._lines)
            self._lines.clear()
            try:
                self._file.write(lines)
                self._failed = False
            except (OSError, ValueError) as error:
                self._report(error)

    def _report(self, error: Exception) -> None:
        if not self._failed:
            self._complain(f"the log {self._file.path} cannot be written: {error}")
        self._failed = True


def _running_loop() -> AbstractEventLoop | None:
    """Return the loop of this thread without importing asyncio, which most commands do not load."""
    if "asyncio" not in sys.modules:
        return None
    from asyncio import get_running_loop

    try:
        return get_running_loop()
    except RuntimeError:
        return None


class TerminalSink:
    """Writes short aligned lines: time, level, event, fields. Texts for people are wrapped, not cut. Tracebacks go only
    to the file."""

    def __init__(self, stream: TextIO, redactor: Redactor) -> None:
        self._stream = stream
        self._redactor = redactor
        self._tty = stream.isatty()
        self._colour = self._tty and "NO_COLOR" not in os.environ

    def __call__(self, entry: Entry) -> None:
        line = self.render(entry)
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(line + "\n")
            self._stream.flush()

    def _columns(self) -> int:
        """Return the current width of the window, or 80 if unknown."""
        with contextlib.suppress(OSError, ValueError):
            if columns := os.get_terminal_size(self._stream.fileno()).columns:
                return max(NARROWEST, columns)
        return 80

    def render(self, entry: Entry) -> str:
        plain = clean_entry(entry, self._redactor)
        level = str(plain.get("level", "info"))
        fields = " ".join(
            f"{name}={_shorten(name, value)}"
            for name, value in plain.items()
            if name not in (*FIRST, "traceback") and value is not None
        )
        clock, head = _clock(str(entry.get("at", ""))), f"{level:<7}"
        line = f"{clock} {head} {plain.get('event', '')!s:<20} {fields}".rstrip()
        if self._tty:
            line = _wrap(line, self._columns())
        return (
            line.replace(head, f"\x1b[{COLOURS.get(level, '0')}m{head}\x1b[0m", 1) if self._colour else line
        )


def _wrap(line: str, columns: int) -> str:
    """Wrap at spaces only, so that paths and commands can be copied."""
    import textwrap

    indent = " " * INDENT
    return textwrap.fill(
        line, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def _shorten(name: str, value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = "".join(c if c.isprintable() else " " for c in text)
    most = MAX_TEXT_FIELD if name in FOR_PEOPLE else MAX_FIELD
    return text if len(text) <= most else text[: most - 1] + "…"


def _clock(at: str) -> str:
    """Return the local time of day."""
    try:
        return datetime.fromisoformat(at).astimezone().strftime("%H:%M:%S")
    except ValueError:
        return "--:--:--"
