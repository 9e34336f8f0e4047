"""The subscription's limits, as the CLI tells them: how much is used, and when it begins anew."""

from __future__ import annotations

from datetime import UTC, datetime

from msgspec import Struct, field

NAMES = {
    "five_hour": "five-hour limit",
    "seven_day": "weekly limit",
    "seven_day_opus": "weekly Opus limit",
    "seven_day_sonnet": "weekly Sonnet limit",
    "overage": "extra usage",
}


class RateLimit(Struct, frozen=True):
    """`status` is `allowed`, `allowed_warning` or `rejected`; `utilization` goes from 0 to 1."""

    status: str = ""
    resets_at: float | None = field(default=None, name="resetsAt")
    kind: str | None = field(default=None, name="rateLimitType")
    utilization: float | None = None


def describe_limit(limit: RateLimit) -> str:
    """One sentence for people; empty where there is nothing to say."""
    name = NAMES.get(limit.kind or "", "usage limit")
    when = f"; it resets {_when(limit.resets_at)}" if limit.resets_at else ""
    if limit.status == "rejected":
        return f"Claude's {name} is reached{when}."
    if limit.status == "allowed_warning":
        used = "Most" if limit.utilization is None else f"{limit.utilization:.0%}"
        return f"{used} of Claude's {name} is used{when}."
    return ""


def _when(at: float) -> str:
    try:
        return datetime.fromtimestamp(at, UTC).strftime("at %H:%M UTC on %d %b")
    except (ValueError, OverflowError, OSError):
        return "later"
