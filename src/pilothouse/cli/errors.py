"""An error as a person should read it, and the exit code that goes with it."""

from __future__ import annotations

import os
import sys

from pilothouse.cli import BROKEN, BUSY, INTERRUPTED, UNFORESEEN


def explain(error: BaseException) -> int:
    """Says it on stderr. What nobody foresaw is kept, with its traceback, in the log file alone."""
    import click

    from pilothouse.core.errors import PilothouseError, RoleHeld

    match error:
        case click.exceptions.Exit():
            return error.exit_code
        case SystemExit():
            return error.code if isinstance(error.code, int) else BROKEN
        case click.Abort():
            say_error("stopped; nothing was changed")
            return INTERRUPTED
        case click.ClickException():
            error.show()
            return error.exit_code
        case BaseExceptionGroup() if len(error.exceptions) == 1:
            return explain(error.exceptions[0])
        case PilothouseError():
            say_error(str(error))
            return BUSY if isinstance(error, RoleHeld) else BROKEN
        case _:
            return _say_unforeseen(error)


def say_error(text: str) -> None:
    from pilothouse.logs.redaction import redact

    colour = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    head = "\x1b[31merror:\x1b[0m" if colour else "error:"
    print(f"{head} {redact(text)}", file=sys.stderr)


def _say_unforeseen(error: BaseException) -> int:
    from pilothouse.config.paths import find_paths
    from pilothouse.logs.log import emergency
    from pilothouse.logs.redaction import Redactor, redact

    file = find_paths(os.environ).log_file
    kept = emergency(file, Redactor(), error)
    where = f"details in {file}" if kept else f"details could not be written to {file}"
    text = redact(f"{type(error).__name__}: {error}".split("\n", 1)[0])
    print(f"Something broke that we did not foresee: {text}; {where}", file=sys.stderr)
    return UNFORESEEN
