"""StatefulSets as dispatch sees them: the whole set is copied to the worker, and its counts come back.

Queueing handles the pods of a set by itself; this adapter is only for sending a set to another cluster. While its status
comes from there, a condition says so, and the manager's own operator leaves the status alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from corral.core import conditions
from corral.core.errors import Cause
from corral.core.meta import Obj, spec_of, status_of, uid_of, with_annotations
from corral.core.resource import Resource
from corral.jobs.framework.adapter import JobFacts, JobOutcome, Lookup, StopWrite
from corral.jobs.framework.paths import Path
from corral.jobs.framework.remote_copy import bare_copy
from corral.kinds.kubernetes.apps.kinds import DISPATCHED, STATEFUL_SETS
from corral.kinds.kueue import names
from corral.workload.podsets import PodSet, PodSetInfo

COUNTS = ("replicas", "readyReplicas", "availableReplicas", "currentReplicas", "updatedReplicas")


class StatefulSetJob(JobFacts):
    """A StatefulSet that runs on another cluster."""

    framework: ClassVar[str] = "statefulset"
    resource: ClassVar[Resource] = STATEFUL_SETS
    ends: ClassVar[bool] = False
    followed_fields: ClassVar[tuple[Path, ...]] = (("spec", "replicas"), ("spec", "minReadySeconds"))
    followed_templates: ClassVar[tuple[Path, ...]] = (("spec", "template"),)
    found_by_labels: ClassVar[bool] = True

    def pod_sets(self, job: Obj, lookup: Lookup) -> list[PodSet]:
        return []

    def is_suspended(self, job: Obj) -> bool:
        """Its pods here wait behind their gates, always."""
        return True

    def suspend(self, job: Obj) -> Obj:
        return job

    def run(self, job: Obj, infos: Sequence[PodSetInfo]) -> Obj:
        return job

    def stop(self, job: Obj, infos: Sequence[PodSetInfo]) -> StopWrite | None:
        return None

    def is_active(self, job: Obj) -> bool:
        return conditions.is_true(job, DISPATCHED)

    def finished(self, job: Obj) -> JobOutcome | None:
        return None

    def pods_ready(self, job: Obj) -> bool:
        wanted = spec_of(job).get("replicas")
        return int(status_of(job).get("readyReplicas") or 0) >= (1 if wanted is None else int(wanted))

    def reclaimable_pods(self, job: Obj) -> dict[str, int]:
        return {}

    def priority_class(self, job: Obj, pod_sets: Sequence[PodSet]) -> str:
        return ""

    def validate(self, job: Obj, old: Obj | None) -> list[Cause]:
        return []

    def remote_object(self, job: Obj, workload_name: str, origin: str) -> Obj:
        """The set, with the uid it has here, from which the worker works out the name of the same Workload."""
        copy = bare_copy(job, workload_name, origin)
        return with_annotations(copy, {names.MULTIKUEUE_ORIGIN_UID: uid_of(job)})

    def sync_status(self, local: Obj, remote: Obj) -> Obj | None:
        counts = {name: status_of(remote)[name] for name in COUNTS if name in status_of(remote)}
        kept = {name: value for name, value in status_of(local).items() if name not in COUNTS}
        held = conditions.conditions_of(local)
        since = str(remote["metadata"].get("creationTimestamp"))
        entry = conditions.condition(DISPATCHED, True, "MultiKueueAdapter", "The counts come from a worker")
        status = {"replicas": 0, **kept, **counts, "conditions": conditions.set_condition(held, entry, since)}
        return None if status == status_of(local) else {**local, "status": status}

    def stopped_status(self, job: Obj, now: str) -> Obj:
        kept = {name: value for name, value in status_of(job).items() if name not in COUNTS}
        entries = conditions.without(conditions.conditions_of(job), DISPATCHED)
        return {**kept, "replicas": 0, "conditions": entries}
