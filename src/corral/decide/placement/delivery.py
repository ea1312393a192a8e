"""What a placement asks of its Works beside their manifests: to be left behind, to report back, to yield to the queue."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from corral.core.meta import Obj, annotations_of
from corral.core.timestamps import parse_duration
from corral.decide.member.queue import ANNOTATIONS
from corral.decide.placement.strategy import strategy_of

ABANDON: Final = "corral.dev/abandon"
"""On a Work: when it is deleted, what it placed stays on the member and belongs to nobody."""
PENDING_TIMEOUT: Final = "corral.dev/pending-timeout"
"""On a placement: how long its jobs may wait on a cluster before another one is tried."""
PASSED_ON: Final = (*ANNOTATIONS, ABANDON)
"""Annotations of Works that follow their placement."""
_TO_WORK: Final[Obj] = {"type": "Mirror", "destination": "WorkAPI"}


@dataclass(frozen=True, slots=True)
class Delivery:
    """Annotations and the reporting of every Work of a placement."""

    annotations: dict[str, str] = field(default_factory=dict)
    report_back: Obj | None = None


def pending_limit(placement: Obj, default: float | None) -> float | None:
    """Seconds that jobs may wait on one cluster; None when they may wait for ever. What cannot be read is no limit."""
    text = annotations_of(placement).get(PENDING_TIMEOUT)
    if text is None:
        return default
    try:
        return parse_duration(text) or None
    except ValueError:
        return None


def delivery_of(placement: Obj, default_limit: float | None) -> Delivery:
    """How a placement's Works are to be delivered. A limit on waiting needs to know about it, so it implies reports."""
    notes, strategy = annotations_of(placement), strategy_of(placement)
    passed: dict[str, str] = {name: notes[name] for name in ANNOTATIONS if name in notes}
    if strategy.abandons:
        passed[ABANDON] = "true"
    report = strategy.report_back
    if (report or {}).get("type") != "Mirror" and pending_limit(placement, default_limit) is not None:
        report = _TO_WORK
    return Delivery(passed, report or None)
