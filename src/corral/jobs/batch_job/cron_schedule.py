"""Cron schedules: when a CronJob was last due and when it is due next.

Five fields (minute, hour, day of month, month, day of week) with lists, ranges, steps, names, `?`, and the usual
`@hourly` words. Days match when either day field matches, unless one of them is a star, as in cron. Times are searched
in the schedule's time zone, minute by minute inside a matching day, so that changes to and from summer time neither
repeat nor lose a day.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import islice, takewhile
from typing import NamedTuple

from corral.core.timestamps import parse_duration
from corral.core.whole_numbers import whole_number

_MONTHS = {
    name: number
    for number, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], 1
    )
}
_DAYS = {name: number for number, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}
_WORDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_HORIZON_DAYS = 366 * 8
_MOST_MISSED = 1000


class ScheduleError(ValueError):
    """The schedule or its time zone cannot be read."""


class Schedule(NamedTuple):
    """A parsed schedule. `every_s` is set for `@every` and then alone counts."""

    minutes: frozenset[int] = frozenset()
    hours: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    any_day: bool = True
    any_weekday: bool = True
    zone: tzinfo = UTC
    every_s: int = 0

    def matches_day(self, day: datetime) -> bool:
        if day.month not in self.months:
            return False
        by_date, by_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        if self.any_day or self.any_weekday:
            return by_date and by_week
        return by_date or by_week

    def next_after(self, moment: float) -> float | None:
        """The first time due after `moment`; None when there is none for years to come."""
        if self.every_s:
            return float(int(moment) + self.every_s)
        return next(self._due(moment), None)

    def last_between(self, earliest: float, now: float) -> float | None:
        """The last time due after `earliest` and not after `now`, found from its end; None when there is none."""
        day = self._day_of(now)
        for _ in range(_HORIZON_DAYS):
            time = next((time for time in reversed(self._times_of(day)) if time <= now), None)
            if time is not None:
                return time if time > earliest else None
            day -= timedelta(days=1)
        return None

    def _due(self, moment: float) -> Iterator[float]:
        day = self._day_of(moment)
        for _ in range(_HORIZON_DAYS):
            yield from (time for time in self._times_of(day) if time > moment)
            day += timedelta(days=1)

    def _day_of(self, moment: float) -> datetime:
        start = datetime.fromtimestamp(moment, self.zone)
        return start.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)

    def _times_of(self, day: datetime) -> list[float]:
        """When it is due on a day, in order."""
        if not self.matches_day(day):
            return []
        return sorted(
            {
                day.replace(hour=hour, minute=minute, tzinfo=self.zone).timestamp()
                for hour in self.hours
                for minute in self.minutes
            }
        )


@lru_cache(maxsize=512)
def parse_schedule(text: str, zone: str = "") -> Schedule:
    """Read a schedule; a `TZ=` or `CRON_TZ=` prefix or `zone` names its time zone. ScheduleError when it is none."""
    for prefix in ("TZ=", "CRON_TZ="):
        if text.startswith(prefix):
            zone, _, text = text.removeprefix(prefix).partition(" ")
    where = _zone(zone)
    text = _WORDS.get(text.strip(), text.strip())
    if text.startswith("@every "):
        return Schedule(zone=where, every_s=max(1, int(parse_duration(text.removeprefix("@every ").strip()))))
    fields = text.split()
    if len(fields) != 5:
        raise ScheduleError(f"expected exactly 5 fields, found {len(fields)}: {fields}")
    minute, hour, day, month, weekday = fields
    week = _field(weekday, 0, 7, _DAYS)
    return Schedule(
        _field(minute, 0, 59),
        _field(hour, 0, 23),
        _field(day, 1, 31),
        _field(month, 1, 12, _MONTHS),
        frozenset(number % 7 for number in week),
        day.startswith(("*", "?")),
        weekday.startswith(("*", "?")),
        where,
    )


def _zone(name: str) -> tzinfo:
    if not name or name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # large, and few schedules name a zone

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ScheduleError(f"unknown time zone {name}") from error


def _field(text: str, low: int, high: int, names: Mapping[str, int] | None = None) -> frozenset[int]:
    numbers: set[int] = set()
    for part in text.split(","):
        span, _, step_text = part.partition("/")
        step = _number(step_text, names) if step_text else 1
        if span in ("*", "?"):
            first, last = low, high
        else:
            first_text, dash, last_text = span.partition("-")
            first = _number(first_text, names)
            last = _number(last_text, names) if dash else (high if step_text else first)
        if step < 1 or first < low or last > high or first > last:
            raise ScheduleError(f"{part!r} is not between {low} and {high}")
        numbers.update(range(first, last + 1, step))
    return frozenset(numbers)


def _number(text: str, names: Mapping[str, int] | None) -> int:
    if names and text.lower() in names:
        return names[text.lower()]
    number = whole_number(text)
    if number is None:
        raise ScheduleError(f"failed to parse {text!r} as a number")
    return number


class Due(NamedTuple):
    """The latest time a schedule was due, and how many were missed before it."""

    time: float | None
    missed: int


def latest_due(schedule: Schedule, earliest: float, now: float) -> Due:
    """The latest due time after `earliest` and not after `now`; counts earlier ones up to a hundred."""
    if schedule.every_s:
        count = int((now - earliest) // schedule.every_s)
        return Due(earliest + count * schedule.every_s, count - 1) if count > 0 else Due(None, 0)
    latest = schedule.last_between(earliest, now)
    if latest is None:
        return Due(None, 0)
    # Who was away for long missed many: that there are so many is all that anybody wants to know.
    count = sum(1 for _ in islice(takewhile(lambda time: time <= now, schedule._due(earliest)), _MOST_MISSED + 1))
    return Due(latest, max(0, count - 1))
