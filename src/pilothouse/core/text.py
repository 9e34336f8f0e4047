"""Times, durations, sizes and sums of money as people read them, for every channel, command and log."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from pilothouse.core.message import Content, Part

_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))

FIRST_LINE = 60


def span(seconds: float) -> str:
    """Format a duration in one unit: `5s`, `12m`, `3h`, `9d`. Never negative, even if the clock was set back."""
    whole = max(0, int(seconds))
    size, unit = next((pair for pair in _UNITS if whole >= pair[0]), _UNITS[-1])
    return f"{whole // size}{unit}"


def format_duration(seconds: float) -> str:
    """Format a duration in two units: `12s`, `1m 02s`, `3h 05m`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02d}m"


def moment(at: float, now: float) -> str:
    """Format a time: `at 14:03 UTC`, or on another day `at 14:03 UTC on 15 Nov`."""
    then, today = (datetime.fromtimestamp(one, UTC) for one in (at, now))
    return then.strftime("at %H:%M UTC" if then.date() == today.date() else "at %H:%M UTC on %d %b")


def file_size(count: int) -> str:
    """Format a size: `512 B`, `31 kB`, `2.4 MB`."""
    if count < 1000:
        return f"{count} B"
    return f"{count / 1000:.0f} kB" if count < 999_500 else f"{count / 1_000_000:.1f} MB"


def format_cost(usd: float) -> str:
    """Format the cost of one turn, to a hundredth of a cent."""
    return f"${usd:.4f}" if usd < 1 else f"${usd:.2f}"


def dollars(usd: float) -> str:
    """Format a sum in cents, or more precisely if it is below one cent."""
    return f"${usd:.4f}" if 0 < abs(usd) < 0.01 else f"${usd:.2f}"


def first_line(text: str, limit: int = FIRST_LINE) -> str:
    """Shorten a text to one line for lists."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def excerpt(said: Content | Part) -> str:
    """Return one line of a message: its text, or the names of its files."""
    return first_line(said.text or ", ".join(file.name for file in said.attachments))


def code_block(text: str, language: str = "") -> str:
    """Make a code block whose fence is longer than any in the text."""
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def ago(seconds: float) -> str:
    return f"{span(seconds)} ago"
