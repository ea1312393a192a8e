"""A job as a row of the page: what it is, where, since when, what it needs, and why it waits.

What is cheap is said of every job, so that all can be sorted and counted; the rest only of those that are shown.
"""

from __future__ import annotations

from dataclasses import dataclass

from corral.core import conditions
from corral.core.meta import (
    Key,
    Obj,
    key_of,
    metadata_of,
    name_of,
    namespace_of,
    owner_references_of,
    spec_of,
    status_of,
)
from corral.core.quantity import QuantityError
from corral.dashboard.amounts import ByResource, added, shown
from corral.decide.queueing.model.amounts import format_amount
from corral.decide.queueing.model.requests import pod_requests
from corral.inspect.explain import Evidence, explain
from corral.kinds.kueue import names
from corral.workload import workload as wl

Positions = dict[Key, int]


@dataclass(frozen=True, slots=True)
class Known:
    """What was read of the cluster to explain its jobs with."""

    local_queues: dict[Key, Obj]
    queues: dict[str, Obj]
    workers: dict[str, Obj]
    positions: Positions
    jobs: dict[str, str]


def row(workload: Obj, known: Known) -> Obj:
    """A job but for why it waits and what it needs."""
    local = known.local_queues.get(wl.local_queue_key(workload))
    owner: Obj = next(iter(owner_references_of(workload)), {})
    return {
        "namespace": namespace_of(workload),
        "workload": name_of(workload),
        "kind": owner.get("kind", "Workload"),
        "name": owner.get("name", name_of(workload)),
        "queue": wl.queue_of(workload),
        "clusterQueue": str(spec_of(local).get("clusterQueue") or "") if local else "",
        "state": wl.phase(workload),
        "failed": (conditions.find(workload, names.FINISHED) or {}).get("reason") == "Failed",
        "stopped": not wl.is_active(workload),
        "cluster": str(status_of(workload).get("clusterName") or ""),
        "priority": spec_of(workload).get("priority", 0),
        "ahead": known.positions.get(key_of(workload)),
        **times(workload),
    }


def times(workload: Obj) -> dict[str, str]:
    """When it was queued, admitted and finished; nothing for what has not come, or is over again."""
    return {
        "created": str(metadata_of(workload).get("creationTimestamp") or ""),
        "started": _since(workload, names.ADMITTED),
        "ended": _since(workload, names.FINISHED),
    }


def finished_row(job: Obj, workload: Obj, known: Known) -> Obj:
    """A row with what takes long to find out."""
    target = job["clusterQueue"]
    unseen = {"metadata": {"name": target}} if not known.queues else None  # it may exist, but we may not read it
    evidence = Evidence(
        known.local_queues.get(wl.local_queue_key(workload)),
        known.queues.get(target, unseen),
        job["ahead"],
        queues=list(known.local_queues.values()),
        worker=known.workers.get(job["cluster"]),
        jobs=known.jobs,
    )
    explained = explain(workload, evidence)
    return {**job, "why": explained.headline, "advice": explained.advice, "needs": needs(workload)}


def used_by(workload: Obj) -> ByResource:
    """What its admission has given to a job; nothing without one."""
    total: ByResource = {}
    for assignment in wl.admission_of(workload).get("podSetAssignments") or ():
        added(total, assignment.get("resourceUsage") or {})
    return total


def needs(workload: Obj) -> dict[str, str]:
    """What all its pods have, or ask for, together; pods themselves are not worth a word."""
    if total := used_by(workload):
        return {resource: amount for resource, amount in shown(total).items() if resource != "pods"}
    asked: dict[str, int] = {}
    try:
        for one in wl.pod_sets_of(workload):
            for resource, amount in pod_requests((one.get("template") or {}).get("spec") or {}).items():
                asked[resource] = asked.get(resource, 0) + amount * int(one.get("count", 1))
    except QuantityError:
        return {}
    return {resource: format_amount(resource, amount) for resource, amount in sorted(asked.items())}


def _since(workload: Obj, condition: str) -> str:
    """When a condition became true; nothing where it is not."""
    found = conditions.find(workload, condition) or {}
    return str(found.get("lastTransitionTime") or "") if found.get("status") == "True" else ""
