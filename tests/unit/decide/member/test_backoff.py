"""When a Work is looked at again: by default as upstream does it, and as configured."""

from __future__ import annotations

from corral.configuration.member import member_settings
from corral.decide.member.backoff import BackoffSettings, Pace, next_pace


def delays(settings: BackoffSettings, looks: int, *, settled: bool) -> list[float]:
    found: list[float] = []
    pace: Pace | None = None
    for _ in range(looks):
        pace = next_pace(pace, 1, [("applied", "available")], settled, settings)
        found.append(round(pace.delay, 2))
    return found


def test_what_is_not_settled_is_looked_at_slowly_less_often() -> None:
    assert delays(BackoffSettings(), 5, settled=False) == [5, 2, 2.4, 2.88, 3.46]
    assert delays(BackoffSettings(), 60, settled=False)[-1] == 900


def test_what_is_settled_skips_the_slow_part_unless_it_is_not_to() -> None:
    assert delays(BackoffSettings(), 4, settled=True) == [5, 2, 3, 4.5]
    assert delays(BackoffSettings(skip_settled=False), 4, settled=True) == [5, 2, 2.4, 2.88]


def test_every_number_can_be_configured_under_the_name_of_its_flag() -> None:
    limits = {
        "attemptsWithFixedDelay": 2,
        "fixedDelaySeconds": 1,
        "initialSlowBackoffDelaySeconds": 3,
        "exponentialBaseForSlowBackoff": 2,
        "maxSlowBackoffDelaySeconds": 6,
        "exponentialBaseForFastBackoff": 3,
        "maxFastBackoffDelaySeconds": 20,
        "skipToFastBackoffForAvailableOrDiffReportedWorkObjs": False,
    }
    settings = member_settings({"member": {"workApplierRequeueRateLimiter": limits}}).backoff
    assert delays(settings, 7, settled=True) == [1, 1, 3, 6, 18, 20, 20]
    assert member_settings({}).backoff == BackoffSettings()
