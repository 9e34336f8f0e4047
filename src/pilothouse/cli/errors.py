"""Exit codes, and errors as messages for a person."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from pilothouse.bootstrap.terminal_text import say

if TYPE_CHECKING:
    import click

    from pilothouse.logs.redaction import Redactor

BROKEN = 1
UNFORESEEN = 70
BUSY = 75
INTERRUPTED = 130
PIPE_CLOSED = 141

NOWHERE = (
    "The current folder was removed or replaced. Go to another one with cd, or name one with --workspace where the "
    "command has it."
)


def explain(error: BaseException) -> int:
    """Prints the error on stderr and returns the exit code. The traceback of an unexpected error goes to the log only."""
    import click

    from pilothouse.config import InvalidConfig
    from pilothouse.core.errors import PilothouseError, RoleHeld

    match error:
        case click.exceptions.Exit():
            return error.exit_code
        case SystemExit():
            return error.code if isinstance(error.code, int) else BROKEN
        case click.Abort():
            if sys.stderr.isatty():
                sys.stderr.write("\n")  # the cursor is behind a question, and perhaps behind ^C
            say_error("stopped; nothing was changed")
            return INTERRUPTED
        case click.exceptions.NoArgsIsHelpError():  # its message is the whole help
            error.show()
            return error.exit_code
        case click.ClickException():
            _say_usage(error)
            return error.exit_code
        case BaseExceptionGroup() if len(error.exceptions) == 1:
            return explain(error.exceptions[0])
        case InvalidConfig():
            say_error(*map(str, error.problems))
            return BROKEN
        case PilothouseError():
            say_error(str(error))
            return BUSY if isinstance(error, RoleHeld) else BROKEN
        case FileNotFoundError() if error.filename is None and not _is_somewhere():
            say(NOWHERE, head=_head())
            return BROKEN
        case _:
            return _say_unforeseen(error)


def _say_usage(error: click.ClickException) -> None:
    """Prints the way to call the command, where that is the problem, and the error as any other."""
    context = getattr(error, "ctx", None)
    if context is not None:
        print(f"{context.get_usage()}\nTry '{context.command_path} --help' for help.\n", file=sys.stderr)
    say_error(error.format_message())


def _is_somewhere() -> bool:
    try:
        os.getcwd()
    except FileNotFoundError:
        return False
    return True


def say_error(*texts: str) -> None:
    """Prints each text with its own `error:` mark, so that a search finds them all."""
    redactor = _redactor()
    for text in texts:
        say(redactor.redact(text), head=_head())


def _head() -> str:
    colour = sys.stderr.isatty() and "NO_COLOR" not in os.environ
    return "\x1b[31merror:\x1b[0m" if colour else "error:"


def _redactor() -> Redactor:
    """Knows as many secrets as possible: the configuration itself may be what is broken."""
    from pilothouse.config import find_paths, load
    from pilothouse.core.errors import ConfigError
    from pilothouse.logs.redaction import Redactor, names_secret

    redactor = Redactor(value for name, value in os.environ.items() if names_secret(name))
    try:
        loaded = load(find_paths(os.environ), os.environ)
    except ConfigError:
        return redactor
    named = (leaf.value for key, leaf in loaded.leaves.items() if names_secret(key[-1]))
    redactor.add(*loaded.secrets, *(value for value in named if isinstance(value, str)))
    return redactor


def _say_unforeseen(error: BaseException) -> int:
    from pilothouse.config import find_paths
    from pilothouse.logs.log import emergency

    file = find_paths(os.environ).log_file
    redactor = _redactor()
    kept = emergency(file, redactor, error)
    where = f"details in {file}" if kept else f"details could not be written to {file}"
    text = redactor.redact(f"{type(error).__name__}: {error}".split("\n", 1)[0])
    print(f"Unexpected error: {text}; {where}", file=sys.stderr)
    return UNFORESEEN
