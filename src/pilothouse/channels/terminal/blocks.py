"""Markdown as a list of top-level blocks: what can be printed, once, while the rest still streams.

A block ends at a blank line outside every fence, unless what follows continues it: an indented line, or the next
item of a list.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_FENCE = re.compile(r"\s*(`{3,}(?=[^`]*$)|~{3,})")
_ITEM = re.compile(r"([-*+]|\d{1,9}[.)])(\s|$)")


def blocks(text: str) -> list[str]:
    found: list[list[str]] = []
    fence, blank = "", True
    for line in text.split("\n"):
        if blank and line.strip() and not fence and not (found and _continues(found[-1], line)):
            found.append([])
        marks = _FENCE.match(line)
        if marks and not fence:
            fence = marks[1]
        elif marks and marks[1].startswith(fence) and line.strip() == marks[1]:
            fence = ""
        if found:
            found[-1].append(line)
        blank = not line.strip() and not fence
    return ["\n".join(lines).rstrip() for lines in found]


def complete(text: str) -> list[str]:
    """The blocks that no further text can change."""
    return blocks(text)[:-1]


def missing(wanted: Sequence[str], printed: Sequence[str]) -> list[str]:
    """What of `wanted` does not stand there yet, where what was printed last may be its beginning."""
    for start in range(len(printed) + 1):
        tail = list(printed[start:])
        if list(wanted[: len(tail)]) == tail:
            return list(wanted[len(tail) :])
    return list(wanted)


def _continues(block: list[str], line: str) -> bool:
    return line[0] in " \t" or bool(_ITEM.match(block[0]) and _ITEM.match(line))
