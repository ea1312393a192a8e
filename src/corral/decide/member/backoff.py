"""When to look at a Work again: soon after a change, then ever less often."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class BackoffSettings:
    """Delays in seconds. The slow factor is used until `slow_limit`, the fast one from there to `limit`."""

    fixed_attempts: int = 1
    fixed: float = 5.0
    first: float = 2.0
    slow_factor: float = 1.2
    slow_limit: float = 15.0
    fast_factor: float = 1.5
    limit: float = 900.0
    skip_settled: bool = True
    """Whether what is settled goes on with the fast factor at once."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How often a Work has been looked at since something changed, and the delay chosen last."""

    generation: int
    results: tuple[tuple[str, str], ...]
    attempts: int
    delay: float


def next_pace(
    before: Pace | None,
    generation: int,
    results: Sequence[tuple[str, str]],
    settled: bool,
    settings: BackoffSettings,
) -> Pace:
    """The pace after a look with these (apply, availability) results; `settled` Works need fewer looks.

    A new generation or another result starts over."""
    seen = tuple(results)
    if before is None or before.generation != generation or before.results != seen:
        return Pace(generation, seen, 1, settings.fixed)
    if before.attempts < settings.fixed_attempts:
        delay = settings.fixed
    elif before.attempts == settings.fixed_attempts:
        delay = settings.first
    elif not (settled and settings.skip_settled) and before.delay * settings.slow_factor <= settings.slow_limit:
        delay = before.delay * settings.slow_factor
    else:
        delay = min(before.delay * settings.fast_factor, settings.limit)
    return Pace(generation, seen, before.attempts + 1, delay)
