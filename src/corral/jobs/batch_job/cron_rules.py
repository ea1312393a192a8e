"""Checks of a CronJob's schedule and time zone, in the words of the parser the real server uses."""

from __future__ import annotations

import re
from typing import NamedTuple

from corral.core.timestamps import parse_duration

_DESCRIPTORS = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_MONTHS = {
    name: number
    for number, name in enumerate(
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"], start=1
    )
}
_DAYS = {name: number for number, name in enumerate(["sun", "mon", "tue", "wed", "thu", "fri", "sat"])}


class _Bounds(NamedTuple):
    low: int
    high: int
    names: dict[str, int]


_FIELDS = (_Bounds(0, 59, {}), _Bounds(0, 23, {}), _Bounds(1, 31, {}), _Bounds(1, 12, _MONTHS), _Bounds(0, 6, _DAYS))
_ZONE = re.compile(r"^[A-Za-z.\-_0-9+]{1,14}$")


def schedule_error(schedule: str) -> str:
    """What is wrong with a cron schedule; empty when nothing is."""
    try:
        _check_schedule(schedule)
    except ValueError as error:
        return str(error)
    return ""


def _check_schedule(schedule: str) -> None:
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        zone, _, schedule = schedule.partition(" ")
        name = zone.partition("=")[2]
        if not is_zone(name):
            raise ValueError(f"provided bad location {name}: unknown time zone {name}")
        schedule = schedule.strip()
    if schedule.startswith("@"):
        _check_descriptor(schedule)
        return
    fields = schedule.split()
    if len(fields) != 5:
        raise ValueError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    for text, bounds in zip(fields, _FIELDS, strict=True):
        for part in text.split(","):
            if part:
                _check_range(part, bounds)


def _check_descriptor(descriptor: str) -> None:
    if descriptor in _DESCRIPTORS:
        return
    if not descriptor.startswith("@every "):
        raise ValueError(f"unrecognized descriptor: {descriptor}")
    length = descriptor.removeprefix("@every ")
    try:
        parse_duration(length)
    except ValueError:
        raise ValueError(f'failed to parse duration {descriptor}: time: invalid duration "{length}"') from None


def _check_range(text: str, bounds: _Bounds) -> None:
    span, *steps = text.split("/")
    ends = span.split("-")
    if ends[0] in ("*", "?"):
        start, end = bounds.low, bounds.high
    else:
        start = _number(ends[0], bounds)
        if len(ends) > 2:
            raise ValueError(f"too many hyphens: {text}")
        end = _number(ends[1], bounds) if len(ends) == 2 else start
    if len(steps) > 1:
        raise ValueError(f"too many slashes: {text}")
    step = _integer(steps[0]) if steps else 1
    if steps and len(ends) == 1:
        end = bounds.high
    if start < bounds.low:
        raise ValueError(f"beginning of range ({start}) below minimum ({bounds.low}): {text}")
    if end > bounds.high:
        raise ValueError(f"end of range ({end}) above maximum ({bounds.high}): {text}")
    if start > end:
        raise ValueError(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise ValueError(f"step of range should be a positive number: {text}")


def _number(text: str, bounds: _Bounds) -> int:
    named = bounds.names.get(text.lower())
    return named if named is not None else _integer(text)


def _integer(text: str) -> int:
    if not re.fullmatch(r"[+-]?\d+", text):
        raise ValueError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": invalid syntax')
    number = int(text)
    if number < 0:
        raise ValueError(f"negative number ({number}) not allowed: {text}")
    return number


def is_zone(name: str) -> bool:
    import zoneinfo  # large, and few schedules name a zone

    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def zone_errors(name: str) -> list[str]:
    """What is wrong with a time zone name."""
    if not name:
        return ["timeZone must be nil or non-empty string"]
    for part in name.split("/"):
        if part in (".", "..") or part.startswith("-") or not _ZONE.match(part):
            return [f"unknown time zone {name}"]
    if name.lower() == "local":
        errors = ["timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"]
        return errors if name == "Local" else [*errors, f"unknown time zone {name}"]
    return [] if is_zone(name) else [f"unknown time zone {name}"]
