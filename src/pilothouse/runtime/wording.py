"""Small phrases that several verbs say the same way."""

from __future__ import annotations

import re

FIRST_LINE = 60


def first_line(text: str, limit: int = FIRST_LINE) -> str:
    """One line of a longer text, for lists. The whole stays in the store."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def fenced(text: str, language: str = "") -> str:
    """A block of code. The fence is longer than any in the text, so that nothing there ends it."""
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def ago(seconds: float) -> str:
    if seconds < 60:
        return f"{int(seconds)}s ago"
    if seconds < 3600:
        return f"{int(seconds // 60)}m ago"
    if seconds < 86_400:
        return f"{int(seconds // 3600)}h ago"
    return f"{int(seconds // 86_400)}d ago"


def dollars(usd: float) -> str:
    """Cents where there are any, else what there is."""
    return f"${usd:.4f}" if 0 < abs(usd) < 0.01 else f"${usd:.2f}"
