"""Dispatchers: which workers to ask for a Workload.

AllAtOnce asks every connected worker. Incremental asks the next few of the config, then more when a round has passed
without an answer; where it stands is kept on the Workload, so a restart loses nothing. External leaves the naming to
somebody else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from corral.core.meta import Key, Obj, annotations_of, key_of, metadata_of, status_of
from corral.core.timestamps import parse_time

ROUND_ANNOTATION = "corral.dev/dispatch-round-started"
DEFAULT_STEP = 3
ROUND_S = 300.0


class Nomination(NamedTuple):
    """The workers to ask now, and when to think again."""

    clusters: tuple[str, ...]
    again_after: float | None = None
    new_round: bool = False


def age(workload: Obj) -> tuple[str, Key]:
    """Orders Workloads, the oldest first."""
    return str(metadata_of(workload).get("creationTimestamp")), key_of(workload)


def nominated(workload: Obj) -> tuple[str, ...]:
    return tuple(status_of(workload).get("nominatedClusterNames") or ())


def all_at_once(workload: Obj, connected: Sequence[str]) -> Nomination:
    """Every connected worker; the list on the Workload stays as it is when it names the same ones."""
    current = nominated(workload)
    return Nomination(current if set(current) == set(connected) else tuple(connected))


def incremental(
    workload: Obj, configured: Sequence[str], now: float, *, step: int = DEFAULT_STEP, round_s: float = ROUND_S
) -> Nomination:
    """The workers asked so far, and the next `step` of the config when a new round begins."""
    current = nominated(workload)
    left = [name for name in configured if name not in current]
    started = round_started(workload)
    if current and started is not None and now - started <= round_s:
        return Nomination(current, again_after=max(started + round_s - now, 0.0) + 0.001 if left else None)
    if not left:
        return Nomination(current)
    chosen = (*current, *left[:step])
    return Nomination(chosen, again_after=round_s + 0.001 if len(left) > step else None, new_round=True)


def round_started(workload: Obj) -> float | None:
    text = annotations_of(workload).get(ROUND_ANNOTATION)
    try:
        return parse_time(text) if text else None
    except ValueError:
        return None
