"""Small phrases that several verbs say the same way."""

from __future__ import annotations

FIRST_LINE = 60


def first_line(text: str, limit: int = FIRST_LINE) -> str:
    """One line of a longer text, for lists. The whole stays in the store."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


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
