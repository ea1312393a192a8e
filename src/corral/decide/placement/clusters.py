"""Member clusters as the scheduler sees them: labels, taints, properties, and whether they can be scheduled to at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from corral.core.conditions import find
from corral.core.meta import Obj, is_deleting, labels_of, name_of, spec_of, status_of
from corral.core.quantity import Quantity, QuantityError
from corral.core.timestamps import parse_time
from corral.kinds.fleet.names import RESOURCE_PROPERTY

HEARTBEAT_TIMEOUT_S: Final = 300.0
UNHEALTHY_TIMEOUT_S: Final = 300.0
NOT_CONNECTED: Final = "cluster is not connected to the fleet: "
_NANO: Final = 10**9
_USAGE: Final = {"total": "capacity", "allocatable": "allocatable", "available": "available"}


class SchedulingError(ValueError):
    """A cycle cannot be decided: a policy or a member says something that is not a number."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """One member, decoded once per change."""

    name: str
    labels: dict[str, str]
    taints: tuple[Obj, ...]
    properties: dict[str, str]
    usage: dict[str, dict[str, str]]
    leaving: bool
    agent: Obj | None
    namespaces: dict[str, str] | None
    """Namespaces the member has; None when it does not report them."""
    _read: dict[str, Quantity | None] = field(default_factory=dict, init=False, compare=False, repr=False)
    """Properties that were asked for before: every placement asks every member."""
    _numbers: dict[str, float | None] = field(default_factory=dict, init=False, compare=False, repr=False)
    _fit_until: list[float] = field(default_factory=list, init=False, compare=False, repr=False)
    """Until when the member's last word makes it eligible, once that was found out."""
    _scores: dict[str, int] = field(default_factory=dict, init=False, compare=False, repr=False)
    """The score that was worked out last: placements that come together mostly prefer the same."""

    def property(self, name: str) -> Quantity | None:
        """A property's value, or None when the member does not have it."""
        if name not in self._read:
            self._read[name] = self._property(name)
        return self._read[name]

    def number(self, name: str) -> float | None:
        """A property's value as a number to compute with."""
        numbers = self._numbers
        if name not in numbers:
            value = self.property(name)
            numbers[name] = None if value is None else value.number
        return numbers[name]

    def score(self, mark: str, work_out: Callable[[Cluster], int]) -> int:
        """What `work_out` makes of this cluster; asked for the same `mark` again, what it made of it before."""
        scores = self._scores
        if mark not in scores:
            scores.clear()
            scores[mark] = work_out(self)
        return scores[mark]

    def heartbeat(self) -> float:
        """When the member was last heard of, 0 if never."""
        seen = (self.agent or {}).get("lastReceivedHeartbeat")
        return parse_time(seen) if seen else 0.0

    def _property(self, name: str) -> Quantity | None:
        if name.startswith(RESOURCE_PROPERTY):
            kind, _, resource = name.removeprefix(RESOURCE_PROPERTY).partition("-")
            if kind not in _USAGE or not resource:
                raise SchedulingError(f"invalid resource property name: {name}")
            text = self.usage.get(_USAGE[kind], {}).get(resource)
        else:
            text = self.properties.get(name)
        return None if text is None else quantity(str(text))

    def ineligible(self, now: float) -> str:
        """Why nothing can be scheduled here; empty when something can."""
        if self._fit_until and now <= self._fit_until[0]:
            return ""
        reason = self._ineligible(now)
        if not reason and self.agent is not None and self._is_healthy():
            self._fit_until[:] = [parse_time(self.agent["lastReceivedHeartbeat"]) + HEARTBEAT_TIMEOUT_S]
        return reason

    def _is_healthy(self) -> bool:
        return (find((self.agent or {}).get("conditions") or [], "Healthy") or {}).get("status") == "True"

    def _ineligible(self, now: float) -> str:
        if self.leaving:
            return "cluster has left the fleet"
        if self.agent is None or not self.agent.get("lastReceivedHeartbeat"):
            return NOT_CONNECTED + "member agent not online yet"
        silent = now - parse_time(self.agent["lastReceivedHeartbeat"])
        if silent > HEARTBEAT_TIMEOUT_S:
            return NOT_CONNECTED + f"no recent heartbeat signals (last received {silent / 60:.2f} minutes ago)"
        conditions = self.agent.get("conditions") or []
        joined, healthy = find(conditions, "Joined"), find(conditions, "Healthy")
        if joined is None or joined.get("status") != "True":
            return NOT_CONNECTED + "member agent not joined yet"
        if healthy is None:
            return NOT_CONNECTED + "health condition from member agent is not available"
        if healthy.get("status") != "True":
            since = now - parse_time(healthy["lastTransitionTime"])
            if since > UNHEALTHY_TIMEOUT_S:
                return NOT_CONNECTED + (
                    f"unhealthy for a prolonged period of time (last transitioned {since / 60:.2f} minutes ago)"
                )
        return ""


def quantity(text: str) -> Quantity:
    try:
        return Quantity.parse(text)
    except QuantityError as error:
        raise SchedulingError(f"{text!r} is not a quantity: {error}") from error


def cluster_of(member: Obj) -> Cluster:
    """A MemberCluster, decoded."""
    status = status_of(member)
    agents = status.get("agentStatus") or []
    collected = find(member, "NamespaceCollectionSucceeded") is not None
    return Cluster(
        name=name_of(member),
        labels=labels_of(member),
        taints=tuple(spec_of(member).get("taints") or ()),
        properties={name: value.get("value", "") for name, value in (status.get("properties") or {}).items()},
        usage=status.get("resourceUsage") or {},
        leaving=is_deleting(member),
        agent=next((agent for agent in agents if agent.get("type") == "MemberAgent"), None),
        namespaces=(status.get("namespaces") or {}) if collected else None,
    )


def concerns_scheduling(old: Obj, new: Obj, now: float) -> bool:
    """Whether a change of a member may let more placements choose it."""
    if labels_of(old) != labels_of(new):
        return True
    before, after = cluster_of(old), cluster_of(new)
    if any(taint not in after.taints for taint in before.taints):
        return True
    if before.properties != after.properties or before.namespaces != after.namespaces:
        return True
    if any(before.usage.get(part) != after.usage.get(part) for part in _USAGE.values()):
        return True
    return bool(before.ineligible(now)) and not after.ineligible(now)
