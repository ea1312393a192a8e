"""Times and durations read and print as Go's do."""

from __future__ import annotations

import pytest

from corral.core import timestamps


@pytest.mark.parametrize(
    ("text", "seconds", "canonical"),
    [
        ("300s", 300, "5m0s"),
        ("1h", 3600, "1h0m0s"),
        ("1.5s", 1.5, "1.5s"),
        ("250ms", 0.25, "250ms"),
        ("0", 0, "0s"),
        ("-1m", -60, "-1m0s"),
        ("1h2m3s", 3723, "1h2m3s"),
    ],
)
def test_durations_are_gos(text: str, seconds: float, canonical: str) -> None:
    assert timestamps.parse_duration(text) == seconds
    assert timestamps.format_duration(seconds) == canonical


@pytest.mark.parametrize("text", ["", "5", "h", "5x", "1h-2m"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid duration"):
        timestamps.parse_duration(text)


def test_times_print_seconds_and_parse_offsets_and_fractions() -> None:
    assert (
        timestamps.format_time(timestamps.parse_time("2026-11-16T05:28:37.123456789+02:00")) == "2026-11-16T03:28:37Z"
    )
    assert timestamps.format_micro(1.5) == "1970-01-01T00:00:01.500000Z"
