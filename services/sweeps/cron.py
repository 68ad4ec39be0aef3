"""Cron lines in UTC: when the next time is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from workloads.errors import BadUsage

_FIELDS = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 7))
_DAYS_AHEAD = 8 * 366
"""The longest gap between two 29ths of February is eight years (1896 to 1904)."""


@dataclass(frozen=True, slots=True)
class Cron:
    """A parsed line: the minutes, hours, days, months and weekdays (0 is Sunday) that fit.

    As in every cron: when both days and weekdays are restricted, a date fits that meets one of them.
    """

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_weekday: bool

    def fits(self, date: datetime) -> bool:
        """Whether something happens on this date."""
        if date.month not in self.months:
            return False
        day, weekday = date.day in self.days, date.isoweekday() % 7 in self.weekdays
        return (day and weekday) if self.any_day or self.any_weekday else (day or weekday)


def parse_cron(line: str) -> Cron:
    """`minute hour day month weekday`, each `*`, `5`, `1-5`, `*/10`, `8-18/2` or several of these with commas.

    Raises:
        BadUsage: names what is wrong.
    """
    parts = line.split()
    if len(parts) != len(_FIELDS):
        raise BadUsage(f"has five fields (minute hour day month weekday), not {len(parts)}", field="cron")
    sets = [_numbers(part, *bounds) for part, bounds in zip(parts, _FIELDS, strict=True)]
    minutes, hours, days, months, weekdays = sets
    weekdays = frozenset(number % 7 for number in weekdays)
    return Cron(minutes, hours, days, months, weekdays, parts[2].startswith("*"), parts[4].startswith("*"))


def next_time(line: str, after: datetime) -> datetime:
    """The first time strictly after `after`, in UTC.

    Raises:
        BadUsage: not a cron line, or a date that never comes.
    """
    cron = parse_cron(line)
    start = after.astimezone(UTC).replace(second=0, microsecond=0) + timedelta(minutes=1)
    date = start
    for _ in range(_DAYS_AHEAD):
        if cron.fits(date):
            for hour in sorted(cron.hours):
                for minute in sorted(cron.minutes):
                    moment = date.replace(hour=hour, minute=minute)
                    if moment >= start:
                        return moment
        date = (date + timedelta(days=1)).replace(hour=0, minute=0)
    raise BadUsage(f"'{line}' never comes", field="cron")


def _numbers(text: str, name: str, low: int, high: int) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, slash, step_text = part.partition("/")
        first, dash, last = span.partition("-")
        step = _number(step_text, name, 1, high) if slash else 1
        if span == "*":
            start, stop = low, high
        else:
            start = _number(first, name, low, high)
            stop = _number(last, name, low, high) if dash else (high if slash else start)
        if stop < start:
            raise BadUsage(f"{name} '{part}' runs backwards", field="cron")
        found.update(range(start, stop + 1, step))
    return frozenset(found)


def _number(text: str, name: str, low: int, high: int) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > 4 or not low <= int(text) <= high:
        raise BadUsage(f"{name} is from {low} to {high}, not '{text}'", field="cron")
    return int(text)
