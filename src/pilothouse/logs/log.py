"""The log that everybody is handed: structlog in front, our sinks behind. Its library is loaded when it opens."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Generator, MutableMapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from pilothouse.logs.redaction import Redactor
from pilothouse.logs.sinks import Entry, FileSink, RotatingFile, TerminalSink

if TYPE_CHECKING:
    import logging

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class Log:
    """Called as `log("turn.ended", turn_id=…)`, or by level. `level` may be changed while it is in use."""

    def __init__(self, sinks: Sequence[Callable[[Entry], None]], level: str = "info") -> None:
        import structlog

        self.level = level
        self._sinks = sinks
        self._logger: Any = structlog.wrap_logger(
            None,
            processors=[structlog.contextvars.merge_contextvars, _stamp, self._hand_over],
            wrapper_class=structlog.BoundLoggerBase,
        )

    def __call__(self, event: str, /, *, level: str = "info", **fields: Any) -> None:
        if LEVELS.get(level, 20) >= LEVELS.get(self.level, 20):
            self._logger._proxy_to_logger(level, event, **fields)

    def debug(self, event: str, /, **fields: Any) -> None:
        self(event, level="debug", **fields)

    def info(self, event: str, /, **fields: Any) -> None:
        self(event, level="info", **fields)

    def warning(self, event: str, /, **fields: Any) -> None:
        self(event, level="warning", **fields)

    def error(self, event: str, /, *, error: BaseException | None = None, **fields: Any) -> None:
        """`error` becomes one line of text for people and a traceback for the file."""
        if error is not None:
            fields |= {"error": f"{type(error).__name__}: {error}", "traceback": _trace(error)}
        self(event, level="error", **fields)

    def _hand_over(self, _logger: Any, _method: str, entry: MutableMapping[str, Any]) -> NoReturn:
        import structlog

        for sink in self._sinks:
            sink(entry)
        raise structlog.DropEvent


def _stamp(_logger: Any, method: str, entry: MutableMapping[str, Any]) -> dict[str, Any]:
    now = time.time()
    at = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds")
    return {**entry, "at": at.replace("+00:00", "Z"), "level": method}


def _trace(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def with_fields(**fields: Any) -> AbstractContextManager[None]:
    """Inside, every entry of this task carries them: `with with_fields(turn_id=turn.id): …`."""
    import structlog

    return structlog.contextvars.bound_contextvars(**fields)


@contextmanager
def open_log(
    path: Path,
    redactor: Redactor,
    *,
    level: str = "info",
    max_mb: float = 10.0,
    keep: int = 5,
    terminal: TextIO | None = None,
) -> Generator[Log]:
    """To the file, and to `terminal` if there is one; what libraries warn about comes along."""
    import logging

    file = RotatingFile(path, int(max_mb * 1_000_000), keep)
    sinks: list[Callable[[Entry], None]] = [FileSink(file, redactor, _complain)]
    if terminal is not None:
        sinks.append(TerminalSink(terminal, redactor))
    log = Log(sinks, level)
    bridge = _bridge(log)
    root = logging.getLogger()
    root.addHandler(bridge)
    try:
        yield log
    finally:
        root.removeHandler(bridge)
        file.close()


def _bridge(log: Log) -> logging.Handler:
    """Libraries speak to the standard logger: their warnings are entries too, redacted like any other."""
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
    """Keeps the traceback of what nobody foresaw, without any library. False if even that failed."""
    said: list[str] = []
    file = RotatingFile(path, 10_000_000, 5)
    fields = {
        "event": "program.broke",
        "error": f"{type(error).__name__}: {error}",
        "traceback": _trace(error),
    }
    FileSink(file, redactor, said.append)(_stamp(None, "error", {**fields, "argv": sys.argv}))
    file.close()
    return not said


def _complain(text: str) -> None:
    sys.stderr.write(f"{text}\n")
