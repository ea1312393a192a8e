"""LeaderWorkerSets as dispatch sees them: copied to one worker as a whole, whichever replica got there first.

As with StatefulSets, a condition says that the status comes from a worker, and the manager's operator leaves it alone.
"""

from __future__ import annotations

from typing import ClassVar

from corral.core import conditions
from corral.core.meta import Obj, spec_of, status_of
from corral.core.resource import Resource
from corral.jobs.framework.paths import Path
from corral.jobs.leader_worker_set.kind import LEADER_WORKER_SETS
from corral.jobs.leader_worker_set.queued_set import FRAMEWORK, component_workloads
from corral.jobs.stateful_set.adapter import StatefulSetJob
from corral.kinds.kubernetes.apps.kinds import DISPATCHED


class LeaderWorkerSetJob(StatefulSetJob):
    """A LeaderWorkerSet that runs on another cluster."""

    framework: ClassVar[str] = FRAMEWORK
    resource: ClassVar[Resource] = LEADER_WORKER_SETS
    followed_fields: ClassVar[tuple[Path, ...]] = (("spec", "replicas"),)
    followed_templates: ClassVar[tuple[Path, ...]] = (
        ("spec", "leaderWorkerTemplate", "leaderTemplate"),
        ("spec", "leaderWorkerTemplate", "workerTemplate"),
    )

    def component_workloads(self, job: Obj) -> list[str]:
        return component_workloads(job)

    def sync_status(self, local: Obj, remote: Obj) -> Obj | None:
        since = str(remote["metadata"].get("creationTimestamp"))
        entry = conditions.condition(DISPATCHED, True, "MultiKueueAdapter", "The status comes from a worker")
        held = conditions.find(local, DISPATCHED)
        kept = [held] if held is not None else []
        marked = conditions.set_condition(kept, entry, since)
        status = {**status_of(remote), "conditions": [*conditions.conditions_of(remote), *marked]}
        return None if status == status_of(local) else {**local, "status": status}

    def pods_ready(self, job: Obj) -> bool:
        wanted = spec_of(job).get("replicas")
        return int(status_of(job).get("readyReplicas") or 0) >= (1 if wanted is None else int(wanted))

    def stopped_status(self, job: Obj, now: str) -> Obj:
        entries = conditions.without(conditions.conditions_of(job), DISPATCHED)
        return {"replicas": 0, "readyReplicas": 0, "conditions": entries}
