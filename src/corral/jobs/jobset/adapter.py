"""JobSet: one pod set per replicated job; what has succeeded is free again."""

from __future__ import annotations

from typing import ClassVar

from corral.core import conditions
from corral.core.meta import Obj, name_of, spec_of, status_of
from corral.core.resource import Resource
from corral.jobs.batch_job.adapter import INDEX_LABEL
from corral.jobs.framework.adapter import JobOutcome, Slot, SuspendableJob
from corral.jobs.jobset.kind import JOB_SETS

NAME_LABEL = "jobset.sigs.k8s.io/jobset-name"
JOB_INDEX_LABEL = "jobset.sigs.k8s.io/job-index"


class JobSet(SuspendableJob):
    framework: ClassVar[str] = "jobset.x-k8s.io/jobset"
    resource: ClassVar[Resource] = JOB_SETS
    own_managers: ClassVar[tuple[str, ...]] = ("jobset.sigs.k8s.io/jobset-controller",)

    def pod_selector(self, job: Obj) -> str:
        return f"{NAME_LABEL}={name_of(job)}"

    def slots(self, job: Obj) -> list[Slot]:
        return [
            Slot(
                str(entry["name"]),
                ("spec", "replicatedJobs", position, "template", "spec", "template"),
                replicas_of(entry) * pods_per_job(entry),
                index_label=INDEX_LABEL,
                sub_group_label=JOB_INDEX_LABEL,
                sub_group_count=replicas_of(entry),
            )
            for position, entry in enumerate(spec_of(job).get("replicatedJobs") or ())
        ]

    def is_active(self, job: Obj) -> bool:
        return any(entry.get("active") for entry in status_of(job).get("replicatedJobsStatus") or ())

    def finished(self, job: Obj) -> JobOutcome | None:
        for entry in conditions.conditions_of(job):
            if entry.get("type") in ("Completed", "Failed") and entry.get("status") == "True":
                return JobOutcome(str(entry.get("message") or ""), entry["type"] == "Completed")
        return None

    def pods_ready(self, job: Obj) -> bool:
        total = sum(replicas_of(entry) for entry in spec_of(job).get("replicatedJobs") or ())
        counted = status_of(job).get("replicatedJobsStatus") or ()
        return sum(int(entry.get("ready") or 0) + int(entry.get("succeeded") or 0) for entry in counted) == total > 0

    def reclaimable_pods(self, job: Obj) -> dict[str, int]:
        counted = {entry["name"]: entry for entry in status_of(job).get("replicatedJobsStatus") or ()}
        found = {}
        for entry in spec_of(job).get("replicatedJobs") or ():
            succeeded = int((counted.get(entry["name"]) or {}).get("succeeded") or 0)
            if 0 < succeeded <= replicas_of(entry):
                found[str(entry["name"])] = succeeded * pods_per_job(entry)
        return found


def replicas_of(entry: Obj) -> int:
    replicas = entry.get("replicas")
    return 1 if replicas is None else int(replicas)


def pods_per_job(entry: Obj) -> int:
    """Pods of one Job of a replicated job that run at the same time."""
    spec = (entry.get("template") or {}).get("spec") or {}
    parallelism, completions = spec.get("parallelism"), spec.get("completions")
    count = 1 if parallelism is None else int(parallelism)
    return count if completions is None else min(count, int(completions))
