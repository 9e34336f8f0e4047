"""Prints sentences: wrapped at the width of a terminal, on one line in a file or a pipe.

Sentences name commands as `pilothouse …`; `as_typed` puts in the name that works in the reader's shell.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TextIO

PROGRAM = "pilothouse"
RUN_SCRIPT = "PILOTHOUSE_RUN"
"""Set by the script `run` of a checkout, to its own path."""
HEAD = "error:\N{NO-BREAK SPACE}"
"""Its no-break space keeps it on the line of what follows, however long that is."""


def say(text: str, stream: TextIO | None = None, *, head: str = "") -> None:
    """Writes to `stream`, by default standard error. `head` replaces `HEAD`, perhaps in colour, at the same width."""
    stream, text = stream or sys.stderr, as_typed(text)
    fitted = fit(f"{HEAD}{text}" if head else text, columns_of(stream))
    stream.write((f"{head} {fitted.removeprefix(HEAD)}" if head else fitted) + "\n")
    stream.flush()


def as_typed(text: str) -> str:
    """Returns the text with every command as this person can type it."""
    name = program(os.environ)
    if name == PROGRAM:
        return text
    import re

    return re.sub(rf"(?<![\w./-]){PROGRAM}(?= [a-z])", lambda _: name, text)


def program(environ: Mapping[str, str]) -> str:
    """Returns `pilothouse`, or the script of the checkout if only that was used and `pilothouse` is not on the PATH."""
    script = environ.get(RUN_SCRIPT)
    if not script:
        return PROGRAM
    import shlex
    import shutil

    if shutil.which(PROGRAM, path=environ.get("PATH")):
        return PROGRAM
    here = os.path.dirname(script) == environ.get("PWD")
    return f"./{os.path.basename(script)}" if here else shlex.quote(script)


def fit(text: str, columns: int | None) -> str:
    """Wraps at spaces only: a path, a link or a code must stay whole to be copied."""
    if columns is None:
        return text
    return "\n".join(_fit_line(line, columns) for line in text.split("\n"))


def _fit_line(line: str, columns: int) -> str:
    import textwrap

    indent = line[: len(line) - len(line.lstrip())]
    rows = textwrap.wrap(
        line, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(rows)


def columns_of(stream: TextIO) -> int | None:
    """Returns the terminal's width, or None if the stream is not a terminal."""
    if not stream.isatty():
        return None
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told):
        return int(told)
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except OSError:
        return None
