"""Cron expressions and time zones.

Expressions are stepped by cronsim, with Debian's rules for hours that a clock skips or repeats: a job at a fixed hour
runs once every day, at the first instant after a skipped hour and in the first of two equal hours. A job that repeats
within the hour (`*/15`) keeps to real time.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from datetime import UTC, datetime, tzinfo
from functools import lru_cache
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo, available_timezones

from pilothouse.core.errors import ConfigError
from pilothouse.core.schedule import Cron

if TYPE_CHECKING:
    from cronsim import CronSim

NAMED: dict[str, str] = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


def cron_slots(cron: Cron, after: float) -> Iterator[float]:
    """Yield the slots strictly after `after`. Raises `ConfigError` for an invalid expression or zone."""
    zone = find_zone(cron.zone)
    try:
        steps = _steps(cron, datetime.fromtimestamp(after, UTC).astimezone(zone))
        # Inside a repeated hour cronsim first yields instants of the hour's first run, which are past.
        yield from (at for slot in steps if (at := slot.timestamp()) > after)
    except (OverflowError, ValueError):  # beyond the calendar
        return


@lru_cache(maxsize=64)
def find_zone(name: str) -> tzinfo:
    """Return a time zone by its name. Raises `ConfigError`, with the nearest known names."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        near = _near_zones(name)
        meant = f"did you mean {' or '.join(near)}?" if near else "write one like Europe/Berlin or UTC."
        raise ConfigError(f"There is an unknown time zone {name[:60]!r}; {meant}") from error


def _near_zones(name: str) -> list[str]:
    """Find names that are spelled alike, or that end in this city."""
    known = sorted(zone for zone in available_timezones() if "/" in zone)
    said = name.strip().replace(" ", "_").lower()[:60]
    cities = [zone for zone in known if said and zone.lower().rpartition("/")[2] == said]
    folded = {zone.lower(): zone for zone in known}
    return cities[:2] or [folded[found] for found in difflib.get_close_matches(said, folded, n=2)]


def _steps(cron: Cron, start: datetime) -> CronSim:
    from cronsim import CronSim, CronSimError

    expression = NAMED.get(cron.expression.strip().lower(), cron.expression)
    if len(expression.split()) != 5:
        raise ConfigError(
            f"{cron.expression[:60]!r} is not a cron expression: it needs five fields (minute, hour, day of the month, "
            f"month, day of the week), like '0 9 * * 1-5', or one of {', '.join(NAMED)}"
        )
    try:
        return CronSim(expression, start)
    except (CronSimError, ValueError) as error:
        raise ConfigError(
            f"{cron.expression[:60]!r} is not a cron expression: {str(error).lower()}"
        ) from error
