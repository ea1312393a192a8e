"""Cron schedules: what they mean, when they are due, and what is refused."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from corral.core.timestamps import format_time, parse_time
from corral.jobs.batch_job.cron_schedule import Due, ScheduleError, latest_due, parse_schedule


@pytest.mark.parametrize(
    ("schedule", "after", "want"),
    [
        ("* * * * *", "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"),
        ("*/15 * * * *", "2026-01-01T00:07:30Z", "2026-01-01T00:15:00Z"),
        ("0 2 * * *", "2026-01-01T02:00:00Z", "2026-01-02T02:00:00Z"),
        ("30 6 1,15 * *", "2026-01-02T00:00:00Z", "2026-01-15T06:30:00Z"),
        ("0 0 * * mon", "2026-01-01T00:00:00Z", "2026-01-05T00:00:00Z"),
        ("0 0 * * 7", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
        ("0 0 13 * fri", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"),
        ("0 0 29 2 *", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"),
        ("5-10/5 8-9 * jan-feb ?", "2026-01-01T08:06:00Z", "2026-01-01T08:10:00Z"),
        ("@hourly", "2026-01-01T00:00:01Z", "2026-01-01T01:00:00Z"),
        ("@weekly", "2026-01-01T00:00:00Z", "2026-01-04T00:00:00Z"),
        ("@every 90s", "2026-01-01T00:00:00Z", "2026-01-01T00:01:30Z"),
        ("TZ=Europe/Berlin 0 9 * * *", "2026-01-01T00:00:00Z", "2026-01-01T08:00:00Z"),
    ],
)
def test_next_time(schedule: str, after: str, want: str) -> None:
    due = parse_schedule(schedule).next_after(parse_time(after))
    assert due is not None
    assert format_time(due) == want


def test_never_is_never() -> None:
    assert parse_schedule("0 0 31 2 *").next_after(0.0) is None


def test_time_zone_keeps_the_hour_across_summer_time() -> None:
    schedule = parse_schedule("0 9 * * *", "Europe/Berlin")
    moment = parse_time("2026-03-27T12:00:00Z")
    hours = []
    for _ in range(4):
        due = schedule.next_after(moment)
        assert due is not None
        hours.append(datetime.fromtimestamp(due, ZoneInfo("Europe/Berlin")).hour)
        moment = due
    assert hours == [9] * 4
    assert timedelta(seconds=moment - parse_time("2026-03-27T12:00:00Z")) < timedelta(days=4)


@pytest.mark.parametrize("text", ["", "* * * *", "60 * * * *", "* 24 * * *", "x * * * *", "5-1 * * * *", "*/0 * * * *"])
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(ScheduleError):
        parse_schedule(text)


def test_unknown_time_zone_is_refused() -> None:
    with pytest.raises(ScheduleError, match="unknown time zone"):
        parse_schedule("* * * * *", "Nowhere/City")


def test_latest_due_time_counts_what_was_missed() -> None:
    schedule = parse_schedule("*/10 * * * *")
    start = parse_time("2026-01-01T00:00:00Z")
    assert latest_due(schedule, start, start + 599) == Due(None, 0)
    assert latest_due(schedule, start, start + 600) == Due(start + 600, 0)
    assert latest_due(schedule, start, start + 3000) == Due(start + 3000, 4)
