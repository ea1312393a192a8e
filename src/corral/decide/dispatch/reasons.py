"""Why workers do not take a Workload: as values for whoever explains it, and in one line for its status."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from corral.core import conditions
from corral.core.meta import Obj, key_of, uid_of
from corral.kinds.kueue import names

REFUSED: Final = "Refused"
"""Its API does not accept the Workload or its job, and will not until somebody changes something."""
TOO_LARGE: Final = "TooLarge"
"""It could not take the Workload if it were empty."""


class WorkerAnswer(msgspec.Struct, frozen=True):
    """Why one worker does not take a Workload."""

    worker: str
    """Empty for a reason that is no worker's."""
    why: str
    """Empty while it has not said anything."""
    detail: str = ""
    """`Refused` or `TooLarge` where waiting does not help."""
    fields: tuple[str, ...] = ()
    """The fields of the job that the worker does not accept."""


def grouped_reasons(reasons: Mapping[str, str]) -> str:
    """`worker1, worker2: why; worker3: another`; the empty name is for a reason that is no worker's."""
    workers: dict[str, list[str]] = {}
    for cluster in sorted(reasons):
        workers.setdefault(reasons[cluster], []).append(cluster)
    return "; ".join(f"{', '.join(who)}: {why}" if any(who) else why for why, who in workers.items())


def eviction_on_worker(cluster: str, copy: Obj, others: Iterable[Obj]) -> str:
    """Why a worker took a Workload's quota back, for an event on the manager; empty when its copy does not say.

    A worker calls a preemptor by the uid that Workload has there, which means nothing here: it is named besides, if it is one
    of ours (`others`).
    """
    evicted = conditions.find(copy, names.EVICTED) or {}
    why = str(evicted.get("message") or "")
    if evicted.get("status") != "True" or not why:
        return ""
    by = next((key_of(other) for other in others if uid_of(other) and uid_of(other) in why), None)
    named = f"; the preemptor is Workload {by}" if by is not None and by != key_of(copy) else ""
    return f"Evicted on cluster {cluster} ({evicted.get('reason')}): {why}{named}"
