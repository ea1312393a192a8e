"""What happened in a simulation: when each Workload was queued, admitted and ended, and what of the quota was used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from corral.core import conditions
from corral.core.meta import Obj, key_of, namespace_of, owner_references_of, spec_of, status_of, uid_of
from corral.core.quantity import milli
from corral.inspect.explain import named
from corral.kinds.kueue import names
from corral.workload import workload as wl

UsageColumn = tuple[str, str, str]
"""ClusterQueue, flavor, resource."""
Owner = tuple[str, str, str]
"""Namespace, kind, name."""

DELETED = "Deleted"


@dataclass(frozen=True, slots=True)
class Eviction:
    """When a Workload lost its quota, and why."""

    at: float
    reason: str
    message: str


@dataclass(slots=True)
class WorkloadRecord:
    """One Workload. Times are seconds since the start."""

    owners: tuple[Owner, ...]
    namespace: str
    queue: str
    queued: float
    admitted: float | None = None
    """When it was admitted for good: an eviction starts over."""
    reserved: float | None = None
    usage: dict[UsageColumn, int] = field(default_factory=dict)
    cluster: str = ""
    ended: float | None = None
    result: str = ""
    evictions: list[Eviction] = field(default_factory=list)
    message: str = ""

    @property
    def job(self) -> str:
        return "/".join(self.owners[0][1:]) if self.owners else ""

    @property
    def state(self) -> str:
        if self.ended is not None:
            return self.result
        return "Running" if self.admitted is not None else "Waiting"


@dataclass(slots=True)
class Used:
    """One share of the quota over time, in thousandths."""

    now: int = 0
    peak: int = 0
    total: float = 0.0
    """Thousandths times seconds."""


class Record:
    """Listens to the Workloads of the cluster that queues."""

    def __init__(self, now: Callable[[], float], cluster: str = "") -> None:
        self._now = now
        self._started = now()
        self._cluster = cluster
        self.busy = 0.0
        """Until when quota was used."""
        self._moved = 0.0
        self.entries: dict[str, WorkloadRecord] = {}
        self.used: dict[UsageColumn, Used] = {}
        self._by_owner: dict[Owner, list[WorkloadRecord]] = {}
        self._jobs: dict[str, str] = {}
        """What users call the jobs of Workloads, by the uids of these."""
        self.on_end: Callable[[WorkloadRecord], None] = lambda entry: None

    @property
    def seconds(self) -> float:
        """How long the simulation runs already."""
        return self._now() - self._started

    def changed(self, old: Obj | None, new: Obj | None) -> None:
        """A Workload came, changed or went."""
        known = new if new is not None else old
        if known is None:
            return
        self._moved = self.seconds
        entry = self.entries.get(str(key_of(known)))
        if entry is None:
            entry = self.entries[str(key_of(known))] = self._begun(known)
        if new is None:
            self._release(entry)
            if entry.ended is None:
                self._end(entry, DELETED)
            return
        if entry.result == DELETED:  # made anew
            entry.ended, entry.result, entry.admitted = None, "", None
        self._look(entry, new)

    def _begun(self, workload: Obj) -> WorkloadRecord:
        return WorkloadRecord((), namespace_of(workload), str(spec_of(workload).get("queueName") or ""), self.seconds)

    def _look(self, entry: WorkloadRecord, workload: Obj) -> None:
        self._own(entry, workload)
        if wl.is_finished(workload):
            if entry.ended is None:
                self._release(entry)
                finished = conditions.find(workload, names.FINISHED) or {}
                self._end(entry, str(finished.get("reason") or "Finished"))
            return
        if wl.has_quota(workload) and entry.reserved is None:
            self._reserve(entry, workload)
        elif not wl.has_quota(workload) and entry.reserved is not None:
            self._release(entry)
            entry.evictions.append(self._eviction(workload))
            entry.admitted, entry.cluster = None, ""
        if wl.is_admitted(workload) and entry.admitted is None:
            entry.admitted = self.seconds
        if entry.admitted is not None:
            entry.cluster = str(status_of(workload).get("clusterName") or self._cluster)
        entry.message = _why(workload)

    def _eviction(self, workload: Obj) -> Eviction:
        """What its conditions say; a Workload that preempts is called by its job."""
        last = conditions.find(workload, names.PREEMPTED) or conditions.find(workload, names.EVICTED) or {}
        return Eviction(self.seconds, str(last.get("reason") or ""), named(str(last.get("message") or ""), self._jobs))

    def _own(self, entry: WorkloadRecord, workload: Obj) -> None:
        for reference in owner_references_of(workload):
            self._jobs.setdefault(uid_of(workload), f"{reference['kind']} {reference['name']}")
            owner = (entry.namespace, str(reference["kind"]), str(reference["name"]))
            if owner not in entry.owners:
                entry.owners = (*entry.owners, owner)
                self._by_owner.setdefault(owner, []).append(entry)

    def _reserve(self, entry: WorkloadRecord, workload: Obj) -> None:
        entry.reserved = self.seconds
        queue = wl.cluster_queue_of(workload)
        for assignment in wl.admission_of(workload).get("podSetAssignments") or ():
            for resource, flavor in (assignment.get("flavors") or {}).items():
                share = (queue, str(flavor), resource)
                amount = milli((assignment.get("resourceUsage") or {}).get(resource, "0"))
                entry.usage[share] = entry.usage.get(share, 0) + amount
        for share, amount in entry.usage.items():
            used = self.used.setdefault(share, Used())
            used.now += amount
            used.peak = max(used.peak, used.now)

    def _release(self, entry: WorkloadRecord) -> None:
        if entry.reserved is None:
            return
        for share, amount in entry.usage.items():
            self.used[share].now -= amount
            self.used[share].total += amount * (self.seconds - entry.reserved)
        entry.reserved, entry.usage, self.busy = None, {}, self.seconds

    def _end(self, entry: WorkloadRecord, result: str) -> None:
        entry.ended, entry.result, entry.message = self.seconds, result, ""
        self.on_end(entry)

    def close(self) -> None:
        """The simulation is over: what is still held is counted up to now."""
        for entry in self.entries.values():
            state = entry.reserved
            self._release(entry)
            entry.reserved = state

    def stands_still(self, seconds: float) -> bool:
        """Whether nothing holds quota and nothing has happened to any Workload for so long: what waits now waits on."""
        return not any(used.now for used in self.used.values()) and self.seconds - self._moved >= seconds

    def has_ended(self, owner: Owner) -> bool:
        """Whether all Workloads of a job have ended, and not only by being deleted."""
        mine = self._by_owner.get(owner, ())
        return any(entry.result != DELETED for entry in mine) and all(entry.ended is not None for entry in mine)


def _why(workload: Obj) -> str:
    """Why a Workload has not been admitted."""
    if wl.is_admitted(workload):
        return ""
    if wl.has_quota(workload):
        messages = [str(state.get("message") or "") for state in wl.check_states_of(workload)]
        return next((text for text in messages if text), "")
    found = conditions.find(workload, names.QUOTA_RESERVED) or {}
    return str(found.get("message") or "")
