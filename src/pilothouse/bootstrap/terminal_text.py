"""Words on a terminal break between words, at its width. In a file or a pipe a sentence stays one line."""

from __future__ import annotations

import os
import sys
from typing import TextIO

HEAD = "error:\N{NO-BREAK SPACE}"
"""It never stands alone in a line, however long the path behind it is."""


def say(text: str, stream: TextIO | None = None, *, head: str = "") -> None:
    """Without a stream, to whoever reads the errors: what a command is for goes to standard output.

    A `head` is the word before an error, perhaps in colour: it takes as much room as it does without.
    """
    stream = stream or sys.stderr
    fitted = fit(f"{HEAD}{text}" if head else text, columns_of(stream))
    stream.write((f"{head} {fitted.removeprefix(HEAD)}" if head else fitted) + "\n")
    stream.flush()


def fit(text: str, columns: int | None) -> str:
    """A path, a link or a code is never broken: whoever copies it needs it whole."""
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
    """None where nobody looks at it."""
    if not stream.isatty():
        return None
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told):
        return int(told)
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except OSError:
        return None
