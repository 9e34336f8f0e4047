"""Cron expressions, stepped by cronsim: Debian's rules for the hours that a clock skips or repeats.

A job at a fixed hour runs once on every day: at the first instant after a gap if its hour was skipped, and in the
first of two equal hours. A job that repeats within the hour (`*/15`) keeps to real time.
"""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

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


def cron_steps(cron: Cron, after: float) -> float | None:
    """The first instant strictly after `after`; None if there is none. Raises `ConfigError` for a bad schedule."""
    zone = _zone(cron)
    try:
        start = datetime.fromtimestamp(after, UTC).astimezone(zone)
        # From within a repeated hour, cronsim first names instants of the hour's first run: they are over.
        return next((at for slot in _steps(cron, start) if (at := slot.timestamp()) > after), None)
    except (OverflowError, ValueError):  # beyond the calendar
        return None


def _zone(cron: Cron) -> tzinfo:
    try:
        return ZoneInfo(cron.zone)
    except (KeyError, ValueError, OSError) as error:
        raise ConfigError(
            f"no time zone is called {cron.zone!r}; use a name like Europe/Berlin, America/New_York or UTC"
        ) from error


def _steps(cron: Cron, start: datetime) -> CronSim:
    from cronsim import CronSim, CronSimError

    expression = NAMED.get(cron.expression.strip().lower(), cron.expression)
    if len(expression.split()) != 5:
        raise ConfigError(
            f"{cron.expression!r} is no cron expression: it needs five fields (minute, hour, day of the month, "
            f"month, day of the week), like '0 9 * * 1-5', or one of {', '.join(NAMED)}"
        )
    try:
        return CronSim(expression, start)
    except (CronSimError, ValueError) as error:
        raise ConfigError(f"{cron.expression!r} is no cron expression: {str(error).lower()}") from error
