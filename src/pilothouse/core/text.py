"""Times, spans of time, sizes and sums of money as people read them: once, for every channel, command and log.

Small phrases that several verbs say the same way.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from pilothouse.core.message import Content, Part

_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))

FIRST_LINE = 60


def span(seconds: float) -> str:
    """In one unit: `5s`, `12m`, `3h`, `9d`. Never negative: a clock may have been set back."""
    whole = max(0, int(seconds))
    size, unit = next((pair for pair in _UNITS if whole >= pair[0]), _UNITS[-1])
    return f"{whole // size}{unit}"


def format_duration(seconds: float) -> str:
    """In two units: `12s`, `1m 02s`, `3h 05m`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02d}m"


def moment(at: float, now: float) -> str:
    """`at 14:03 UTC`, and of another day `at 14:03 UTC on 15 Nov`."""
    then, today = (datetime.fromtimestamp(one, UTC) for one in (at, now))
    return then.strftime("at %H:%M UTC" if then.date() == today.date() else "at %H:%M UTC on %d %b")


def file_size(count: int) -> str:
    """`512 B`, `31 kB`, `2.4 MB`."""
    if count < 1000:
        return f"{count} B"
    return f"{count / 1000:.0f} kB" if count < 999_500 else f"{count / 1_000_000:.1f} MB"


def format_cost(usd: float) -> str:
    """What one turn cost, to a hundredth of a cent."""
    return f"${usd:.4f}" if usd < 1 else f"${usd:.2f}"


def dollars(usd: float) -> str:
    """A sum: cents where there are any, else what there is."""
    return f"${usd:.4f}" if 0 < abs(usd) < 0.01 else f"${usd:.2f}"


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
