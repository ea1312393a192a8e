"""Jobs that are several Workloads: each replica of a LeaderWorkerSet is queued by itself, and all run on one cluster."""

from __future__ import annotations

from corral.core.meta import Obj, annotations_of, name_of, uid_of
from corral.jobs.leader_worker_set import kind as lws
from corral.kinds.kueue import names
from corral.workload.workload import workload_name

KIND = "LeaderWorkerSet"
MOST = 1000
"""Replicas that are queued: each is a Workload, and a manifest may ask for two billion."""


def component_workload(job: Obj, index: int) -> str:
    """The name of one component's Workload: the same on the cluster it was submitted to and where it runs."""
    identity = annotations_of(job).get(names.MULTIKUEUE_ORIGIN_UID) or uid_of(job)
    return workload_name(KIND, lws.GROUP, f"{name_of(job)}-{index}", identity)


def component_workloads(job: Obj) -> list[str]:
    """All Workloads of a job that has several, in order; none for other kinds."""
    if job.get("kind") != KIND:
        return []
    return [component_workload(job, index) for index in range(min(lws.replicas_of(job), MOST))]
