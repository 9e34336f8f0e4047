"""Small phrases that several verbs say the same way."""

from __future__ import annotations

import re

from pilothouse.core.message import Content, Part
from pilothouse.core.text import span

FIRST_LINE = 60


def first_line(text: str, limit: int = FIRST_LINE) -> str:
    """One line of a longer text, for lists. The whole stays in the store."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def beginning(said: Content | Part) -> str:
    """One line of what should have been said; of what has no words, its files."""
    return first_line(said.text or ", ".join(file.name for file in said.attachments))


def fenced(text: str, language: str = "") -> str:
    """A block of code. The fence is longer than any in the text, so that nothing there ends it."""
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def ago(seconds: float) -> str:
    return f"{span(seconds)} ago"
