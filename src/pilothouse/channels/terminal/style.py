"""Colour, width and safety of lines. Text from outside must pass `sanitize` before it reaches a terminal."""

from __future__ import annotations

import re
import textwrap
import unicodedata
from pathlib import PurePosixPath

from msgspec import Struct

_UNSAFE = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[\]P^_X].*?(?:\x07|\x1b\\)|\r(?!\n)|[\x00-\x08\x0b-\x1f\x7f-\x9f]", re.S
)
_GAP = re.compile(r"(?<=\S) {2,}(?=\S)")


def sanitize(text: str) -> str:
    """Removes control characters: an engine must not move the cursor or write to the clipboard."""
    return _UNSAFE.sub("", text.replace("\r\n", "\n"))


def relative_path(path: str, folder: str) -> str:
    """Returns a path inside the folder relative to it, and any other as it is."""
    whole = PurePosixPath(path)
    return str(whole.relative_to(folder)) if folder and whole.is_relative_to(folder) else path


class Palette(Struct, frozen=True):
    color: bool

    def dim(self, text: str) -> str:
        return self._set("2", text)

    def bold(self, text: str) -> str:
        return self._set("1", text)

    def red(self, text: str) -> str:
        return self._set("31", text)

    def green(self, text: str) -> str:
        return self._set("32", text)

    def yellow(self, text: str) -> str:
        return self._set("33", text)

    def _set(self, code: str, text: str) -> str:
        if not self.color or not text:
            return text
        return "\n".join(f"\x1b[{code}m{line}\x1b[0m" if line else "" for line in text.split("\n"))


def cells(text: str) -> int:
    return sum(_cell(char) for char in text)


def _cell(char: str) -> int:
    if unicodedata.combining(char) or char in "\u200d\ufe0f":
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def wrap(text: str, width: int) -> str:
    """Removes control characters, and wraps between words."""
    lines = (
        textwrap.wrap(line, width, break_on_hyphens=False) or [""] for line in sanitize(text).split("\n")
    )
    return "\n".join(line for wrapped in lines for line in wrapped)


def indent(text: str, width: int) -> str:
    """Wraps, and indents by two columns: the form of everything that is not the answer."""
    return "\n".join(f"  {line}".rstrip() for line in wrap(text, width - 2).split("\n"))


def fold_line(line: str, width: int) -> list[str]:
    """Folds a line into rows of at most `width`, keeping every character; later rows are indented, so two shorter."""
    rows, row, used = list[str](), "", 0
    for char in line.expandtabs(4):
        cell = _cell(char)
        if used + cell > max(8, width - (2 if rows else 0)):
            rows.append(row)
            row, used = "", 0
        row += char
        used += cell
    return [*rows, row]


def fold_column(line: str, width: int) -> list[str]:
    """Folds the last column of a line in columns within `width`.

    A line that fits, has no columns, or whose last one begins in the right half is returned as it is.
    """
    starts = [gap.end() for gap in _GAP.finditer(line) if cells(line[: gap.end()]) <= width // 2]
    if not starts or cells(line) <= width:
        return [line]
    room = cells(line[: starts[-1]])
    first, *rest = textwrap.wrap(line[starts[-1] :], width - room, break_on_hyphens=False)
    return [line[: starts[-1]] + first, *(" " * room + more for more in rest)]


def fit(text: str, width: int) -> str:
    """Returns one line of at most `width` columns, cut with an ellipsis."""
    line = " ".join(sanitize(text).split())
    if cells(line) <= width:
        return line
    kept, used = "", 0
    for char in line:
        used += _cell(char)
        if used > width - 1:
            break
        kept += char
    return f"{kept.rstrip()}…"
