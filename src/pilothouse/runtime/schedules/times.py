"""Reads the times that people and agents write, and writes times in words. Every refusal says what to write instead."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice
from math import isfinite

from msgspec import Struct

from pilothouse.core.errors import ConfigError
from pilothouse.core.schedule import At, Cron, Every, Schedule, Timing
from pilothouse.core.text import long_span
from pilothouse.runtime.schedules.cron import find_zone
from pilothouse.runtime.schedules.slots import next_slot, slots_after

LEAST_EVERY_S = 60.0
LONGEST_EVERY_S = 366 * 86_400.0
FARTHEST_S = 10 * 366 * 86_400.0
IN_PAST_S = 60.0
"""A first run that is at most this old runs at once: it became past while somebody wrote it."""
_SPAN = re.compile(r"(\d{1,7})\s*(s|m|h|d|w|seconds?|minutes?|min|hours?|days?|weeks?)?", re.IGNORECASE)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_WAYS = "Give a time (`2026-12-24 18:00`, or `30m` from now), `every` (`15m`, `2h`, `1d`), or a cron like `0 9 * * 1-5`"


class When(Struct, frozen=True):
    """The timing and its first slot."""

    timing: Timing
    first_at: float
    zone: str


def zone_name(zone: tzinfo) -> str:
    return "UTC" if zone is UTC else str(zone)


def read_when(*, cron: str, every: str, at: str, zone: str, now: float) -> When:
    """Read the timing. With `cron` or `every`, `at` is the first run. Raises `ConfigError`."""
    here = find_zone(zone)
    if cron.strip() and every.strip():
        raise ConfigError(f"A task has either a cron or `every`, not both. {_WAYS}.")
    first_at = _read_instant(at, here, now) if at.strip() else None
    if cron.strip():
        timing: Timing = Cron(" ".join(cron.split()), zone)
        following = next_slot(timing, now)
        if following is None:
            raise ConfigError(f"The cron {cron[:60]!r} never fires. Check its day and its month.")
        return When(timing, following if first_at is None or first_at <= now else first_at, zone)
    if every.strip():
        every_s = read_span(every)
        start_at = now + every_s if first_at is None else first_at
        timing = Every(every_s, start_at)
        return When(timing, start_at if start_at > now else next_slot(timing, now) or start_at, zone)
    if first_at is None:
        raise ConfigError(f"This task has no time. {_WAYS}.")
    if first_at < now - IN_PAST_S:
        raise ConfigError(
            f"{at.strip()[:40]} is in the past: it is {describe_time(now, now, here)} now ({zone}). Give a later time."
        )
    return When(At(first_at), first_at, zone)


def read_span(text: str) -> float:
    """Read a distance such as `15m`, `2h` or `90` seconds. Raises `ConfigError`."""
    found = _SPAN.fullmatch(text.strip().removeprefix("every").strip())
    if found is None:
        raise ConfigError(f"{text.strip()[:40]!r} is not a time span. Write one like 15m, 2h, 1d or 1w.")
    seconds = float(int(found[1]) * _UNITS[(found[2] or "s")[0].lower()])
    if not LEAST_EVERY_S <= seconds <= LONGEST_EVERY_S:
        raise ConfigError(f"{text.strip()[:40]} is too short or too long: give 1 minute to 366 days.")
    return seconds


def _read_instant(text: str, zone: tzinfo, now: float) -> float:
    """Read an ISO 8601 time, in `zone` unless it names its own; or a span from now."""
    said = text.strip().removeprefix("in ").strip()
    if _SPAN.fullmatch(said) and not said.isdecimal():
        return now + read_span(said)
    try:
        then = datetime.fromisoformat(said.removesuffix("Z") + ("+00:00" if said.endswith("Z") else ""))
        at = (then if then.tzinfo else then.replace(tzinfo=zone)).timestamp()
    except (ValueError, OverflowError) as error:
        raise ConfigError(
            f"{text.strip()[:40]!r} is not a time. Write it like 2026-12-24 18:00, or 30m for in 30 minutes."
        ) from error
    if not isfinite(at) or at > now + FARTHEST_S:
        raise ConfigError(f"{text.strip()[:40]} is too far away: give a time in the next ten years.")
    return at


def describe_timing(timing: Timing) -> str:
    """Describe when it runs, as `once`, `every 2 hours` or `0 9 * * 1-5 (Europe/Berlin)`."""
    match timing:
        case At():
            return "once"
        case Every(every_s=every_s):
            return f"every {long_span(every_s)}".replace("every 1 ", "every ")
        case Cron(expression=expression, zone=zone):
            return f"{expression} ({zone})"


def describe_time(at: float, now: float, zone: tzinfo) -> str:
    """Write a time as `today at 09:00`, `tomorrow at 09:00` or `Fri 20 Nov at 09:00`."""
    then, today = (datetime.fromtimestamp(one, zone) for one in (at, now))
    days = {today.date(): "today", today.date() + timedelta(days=1): "tomorrow"}
    year = "" if abs(at - now) < 300 * 86_400 else then.strftime(" %Y")
    day = days.get(then.date()) or f"{then:%a} {then.day} {then:%b}{year}"
    return f"{day} at {then:%H:%M}"


def next_runs(schedule: Schedule, count: int = 3) -> list[float]:
    """Return the next slots of a schedule; none while it is paused."""
    if schedule.next_at is None or schedule.paused:
        return []
    return [schedule.next_at, *islice(slots_after(schedule.timing, schedule.next_at), count - 1)]


def describe_runs(schedule: Schedule, now: float) -> str:
    """Write the next three runs in words, in the task's zone."""
    zone = find_zone(schedule.zone)
    words = [describe_time(at, now, zone) for at in next_runs(schedule)]
    if not words:
        return "It is paused." if schedule.paused else "It has no further run."
    return f"Next: {_listed(words)} ({schedule.zone})."


def _listed(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
