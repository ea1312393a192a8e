"""What the server itself writes into a pod: its first status and its quality-of-service class."""

from __future__ import annotations

from collections.abc import Iterator

from corral.core.meta import Obj, spec_of
from corral.core.quantity import Quantity

_COMPUTE = ("cpu", "memory")
_ZERO = Quantity.parse("0")


def qos_class(spec: Obj) -> str:
    """BestEffort without requests and limits, Guaranteed when every container limits what it requests, else Burstable."""
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    guaranteed = True
    for container in _containers(spec):
        resources = container.get("resources") or {}
        _add(requests, resources.get("requests"))
        limited = _add(limits, resources.get("limits"))
        guaranteed = guaranteed and limited == set(_COMPUTE)
    if not requests and not limits:
        return "BestEffort"
    same = all(limits.get(name) == amount for name, amount in requests.items())
    return "Guaranteed" if guaranteed and same and len(requests) == len(limits) else "Burstable"


def _containers(spec: Obj) -> Iterator[Obj]:
    for field in ("containers", "initContainers"):
        yield from spec.get(field) or ()


def _add(totals: dict[str, Quantity], amounts: Obj | None) -> set[str]:
    """Add the compute resources to the totals and tell which there were."""
    found = set()
    for name in _COMPUTE:
        amount = Quantity.parse((amounts or {}).get(name, "0"))
        if amount > _ZERO:
            found.add(name)
            totals[name] = totals.get(name, _ZERO) + amount
    return found


def prepare_pod(pod: Obj) -> None:
    """The status of a new pod."""
    status: Obj = {"phase": "Pending"}
    if spec_of(pod).get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": pod["metadata"].get("creationTimestamp"),
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    status["qosClass"] = qos_class(spec_of(pod))
    pod["status"] = status


def prepare_pod_status(pod: Obj, old: Obj) -> None:
    """A status write may leave out the quality-of-service class; it never changes."""
    before = (old.get("status") or {}).get("qosClass")
    status = pod.setdefault("status", {})
    if before and not status.get("qosClass"):
        status["qosClass"] = before
