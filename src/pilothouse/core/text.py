"""Times, durations, sizes, sums of money and hidden characters as people read them, for every channel, command and log."""

from __future__ import annotations

import re
from datetime import datetime, tzinfo

from pilothouse.core.message import Content, Part, clean_text
from pilothouse.core.outcome import Usage

_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"), (1, "s"))

FIRST_LINE = 60

_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\xa0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f"
    "\u2800\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Characters that no one sees, that look like a blank and are none, or that reorder others. U+FE0F is part of many emoji."""

_UI_CONTEXT = re.compile(r"(?:\A|\n\n)<ui_context>[^\n]*</ui_context>(?=\n\n|\Z)")


def with_ui_context(words: str, context: str) -> str:
    """Add what a person looks at, one line, below their words."""
    return "\n\n".join(filter(None, (words, f"<ui_context>{context}</ui_context>" if context else "")))


def without_ui_context(text: str) -> str:
    return _UI_CONTEXT.sub("", text)


def span(seconds: float) -> str:
    """Format a duration in one unit: `5s`, `12m`, `3h`, `9d`. Never negative, even if the clock was set back."""
    whole = max(0, int(seconds))
    size, unit = next((pair for pair in _UNITS if whole >= pair[0]), _UNITS[-1])
    return f"{whole // size}{unit}"


def long_span(seconds: float) -> str:
    """Format a duration in one unit, in words: `45 seconds`, `5 minutes`, `12 hours`, `1 day`."""
    whole = max(0, round(seconds))
    units = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))
    size, unit = next((pair for pair in units if whole >= 2 * pair[0] or whole == pair[0]), units[-1])
    count = round(whole / size)
    return f"{count} {unit}{'' if count == 1 else 's'}"


def format_duration(seconds: float) -> str:
    """Format a duration in two units: `12s`, `1m 02s`, `3h 05m`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02d}m"


def moment(at: float, now: float, zone: tzinfo | None = None) -> str:
    """Format a time: `at 14:03`, or on another day `at 14:03 on 15 Nov`. Without a zone, in that of this machine."""
    then, today = (datetime.fromtimestamp(one, zone) for one in (at, now))
    return then.strftime("at %H:%M" if then.date() == today.date() else "at %H:%M on %d %b")


def format_long(seconds: float) -> str:
    """Format a duration in words: `40 seconds`, `40 minutes`, `3 hours`."""
    size, unit = next(
        ((size, unit) for size, unit in ((3600, "hour"), (60, "minute")) if seconds >= 2 * size),
        (1, "second"),
    )
    count = max(1, round(seconds / size))
    return f"{count} {unit}{'' if count == 1 else 's'}"


def file_size(count: int) -> str:
    """Format a size: `512 B`, `31 kB`, `2.4 MB`."""
    if count < 1000:
        return f"{count} B"
    return f"{count / 1000:.0f} kB" if count < 999_500 else f"{count / 1_000_000:.1f} MB"


def format_cost(usage: Usage | None) -> str:
    """Format the cost of one turn, to a hundredth of a cent; empty if it is not known."""
    if usage is None or usage.cost_usd is None:
        return ""
    cost = f"${usage.cost_usd:.4f}" if usage.cost_usd < 1 else f"${usage.cost_usd:.2f}"
    return f"≈{cost}" if usage.estimated else cost


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


def beginning(text: str, limit: int) -> str:
    """Return the beginning of a Markdown text: whole paragraphs, and no half of a code block. Empty if none fits."""
    if len(text) <= limit:
        return text
    head = text[:limit].rpartition("\n\n")[0]
    return head.rpartition("```")[0].rstrip() if head.count("```") % 2 else head


def code_block(text: str, language: str = "") -> str:
    """Make a code block whose fence is longer than any in the text."""
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def ago(seconds: float) -> str:
    return f"{span(seconds)} ago"


def reveal_hidden(text: str) -> str:
    """Make hidden and blank characters visible, in every text that people approve, on every channel."""
    return _HIDDEN.sub(escape_char, clean_text(text).replace("\r\n", "\n"))


def escape_char(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
