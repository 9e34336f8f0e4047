"""The log object. An entry is an event, its fields and those of its task; sinks write it."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TextIO

from pilothouse.logs.redaction import Redactor
from pilothouse.logs.sinks import Entry, FileSink, RotatingFile, TerminalSink

if TYPE_CHECKING:
    import logging

_NO_FIELDS: Mapping[str, Any] = MappingProxyType({})
_TASK_FIELDS: ContextVar[Mapping[str, Any]] = ContextVar("pilothouse.logs", default=_NO_FIELDS)

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class Log:
    """Call it as `log("turn.ended", turn_id=…)`, or by level. `level` may be changed at any time."""

    def __init__(self, sinks: Sequence[Callable[[Entry], None]], level: str = "info") -> None:
        self.level = level
        self._sinks = sinks

    def __call__(self, event: str, /, *, level: str = "info", **fields: Any) -> None:
        """Log an event. An exception as `error` becomes one line, plus a traceback for the file."""
        if LEVELS.get(level, 20) >= LEVELS.get(self.level, 20):
            error = fields.get("error")
            if isinstance(error, BaseException):
                fields |= {"error": f"{type(error).__name__}: {error}", "traceback": _trace(error)}
            entry = _stamp(level, {**_TASK_FIELDS.get(), **fields, "event": event})
            for sink in self._sinks:
                sink(entry)

    def debug(self, event: str, /, **fields: Any) -> None:
        self(event, level="debug", **fields)

    def info(self, event: str, /, **fields: Any) -> None:
        self(event, level="info", **fields)

    def warning(self, event: str, /, **fields: Any) -> None:
        self(event, level="warning", **fields)

    def error(self, event: str, /, **fields: Any) -> None:
        self(event, level="error", **fields)


def _stamp(level: str, entry: Entry) -> dict[str, Any]:
    now = time.time()
    at = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds")
    return {**entry, "at": at.replace("+00:00", "Z"), "level": level}


def _trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


@contextmanager
def with_fields(**fields: Any) -> Generator[None, None, None]:
    """Add fields to every entry of this task: `with with_fields(turn_id=turn.id): …`."""
    before = _TASK_FIELDS.set({**_TASK_FIELDS.get(), **fields})
    try:
        yield
    finally:
        _TASK_FIELDS.reset(before)


@contextmanager
def open_log(
    path: Path,
    redactor: Redactor,
    *,
    level: str = "info",
    max_mb: float = 10.0,
    keep: int = 5,
    terminal: TextIO | None = None,
    shown: Callable[[Entry], bool] | None = None,
) -> Generator[Log]:
    """Log to the file, and to `terminal` if given: all entries, or those that `shown` accepts. Warnings of libraries
    are included."""
    import logging

    file = RotatingFile(path, int(max_mb * 1_000_000), keep)
    kept = FileSink(file, redactor, _complain)
    sinks: list[Callable[[Entry], None]] = [kept]
    if terminal is not None:
        screen = TerminalSink(terminal, redactor)
        sinks.append(lambda entry: screen(entry) if shown is None or shown(entry) else None)
    log = Log(sinks, level)
    bridge = _library_handler(log)
    root = logging.getLogger()
    root.addHandler(bridge)
    try:
        yield log
    finally:
        root.removeHandler(bridge)
        kept.flush()
        file.close()


def _library_handler(log: Log) -> logging.Handler:
    """Turn warnings of the standard logger, which libraries use, into redacted entries."""
    import logging

    def emit(record: logging.LogRecord) -> bool:
        level = "error" if record.levelno >= logging.ERROR else "warning"
        trace = "".join(traceback.format_exception(*record.exc_info)) if record.exc_info else None
        fields = {"library": record.name, "text": record.getMessage(), "traceback": trace}
        log("library.warned", level=level, **{name: value for name, value in fields.items() if value})
        return False

    handler = logging.Handler(logging.WARNING)
    handler.addFilter(emit)
    return handler


def emergency(path: Path, redactor: Redactor, error: BaseException) -> bool:
    """Write the traceback of an unexpected error without any library. False if that failed."""
    said: list[str] = []
    file = RotatingFile(path, 10_000_000, 5)
    fields = {
        "event": "program.broke",
        "error": f"{type(error).__name__}: {error}",
        "traceback": _trace(error),
    }
    FileSink(file, redactor, said.append)(_stamp("error", {**fields, "argv": sys.argv}))
    file.close()
    return not said


def _complain(text: str) -> None:
    sys.stderr.write(f"{text}\n")
