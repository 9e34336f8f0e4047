"""An oracle for cron: random expressions together with what they mean, and their slots by wall-clock arithmetic.

It shares nothing with cronsim: fields are made as sets and written as text, never parsed; slots are found day by day on
the wall clock and mapped to instants by zoneinfo.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from random import Random
from zoneinfo import ZoneInfo

from msgspec import Struct

ZONES = ("Europe/Berlin", "America/New_York", "Australia/Sydney", "UTC")
"""Clocks change in spring and autumn of both hemispheres, and never."""


class MeantCron(Struct, frozen=True):
    text: str
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: tuple[int, ...]
    months: tuple[int, ...]
    weekdays: tuple[int, ...]
    """0 is Sunday."""

    def names_day(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        fields = self.text.split()
        by_day, by_weekday = day.day in self.days, (day.weekday() + 1) % 7 in self.weekdays
        if fields[2].startswith("*") or fields[4].startswith("*"):
            return by_day and by_weekday
        return by_day or by_weekday

    @property
    def keeps_to_real_time(self) -> bool:
        return self.text.split()[0].startswith("*") or self.text.split()[1].startswith("*")


def random_cron(random: Random) -> MeantCron:
    """Make an expression; half of them name the hours in which clocks change."""
    minute = _field(random, 0, 59, (0.05, 0.25, 0.4, 0.2))
    hour = _field(random, 0, 23, (0.25, 0.15, 0.3, 0.3))
    if random.random() < 0.4:
        hour = random.choice([("2", (2,)), ("1,2", (1, 2)), ("0-3", (0, 1, 2, 3)), ("3", (3,))])
    day = _field(random, 1, 31, (0.7, 0.1, 0.1, 0.1))
    month = _field(random, 1, 12, (0.8, 0.05, 0.05, 0.1))
    weekday = _field(random, 0, 6, (0.7, 0.0, 0.15, 0.15))
    pairs = (minute, hour, day, month, weekday)
    return MeantCron(" ".join(text for text, _ in pairs), *(values for _, values in pairs))


def _field(
    random: Random, low: int, high: int, weights: tuple[float, float, float, float]
) -> tuple[str, tuple[int, ...]]:
    kind = random.choices(["all", "step", "one", "some"], weights)[0]
    if kind == "all":
        return "*", tuple(range(low, high + 1))
    if kind == "step":
        step = random.choice([2, 5, 7, 10, 15, 20])
        return f"*/{step}", tuple(range(low, high + 1, step))
    if kind == "one":
        value = random.randint(low, high)
        return str(value), (value,)
    if random.random() < 0.5:
        values = sorted(random.sample(range(low, high + 1), 3))
        return ",".join(map(str, values)), tuple(values)
    first = random.randint(low, high - 2)
    last = random.randint(first + 1, high)
    return f"{first}-{last}", tuple(range(first, last + 1))


def slots_of_year(cron: MeantCron, zone: str, year: int) -> list[float]:
    """Return every slot whose wall clock shows this year."""
    here, found, day = ZoneInfo(zone), set[float](), date(year, 1, 1)
    while day.year == year:
        if cron.names_day(day):
            for hour in cron.hours:
                for minute in cron.minutes:
                    wall = datetime(day.year, day.month, day.day, hour, minute)  # noqa: DTZ001 - a wall clock
                    found.update(_instants(wall, here, real_time=cron.keeps_to_real_time))
        day += timedelta(days=1)
    return sorted(found)


def _instants(wall: datetime, zone: ZoneInfo, *, real_time: bool) -> Iterable[float]:
    """Return when the wall clock shows this: never in a skipped hour, and twice in a repeated one.

    A job at a fixed hour runs once all the same: after the gap, or in the first of the two."""
    both = {wall.replace(tzinfo=zone, fold=fold).timestamp() for fold in (0, 1)}
    shown = sorted(at for at in both if datetime.fromtimestamp(at, zone).replace(tzinfo=None) == wall)
    if real_time:
        return shown
    return shown[:1] or [_end_of_gap(min(both), zone)]


def _end_of_gap(before: float, zone: ZoneInfo) -> float:
    """Return the first instant at which the clocks are changed, from shortly before it on."""
    at = datetime.fromtimestamp(before, UTC)
    offset = at.astimezone(zone).utcoffset()
    while at.astimezone(zone).utcoffset() == offset:
        at += timedelta(minutes=1)
    return at.timestamp()
