"""JobSets in simulations."""

from __future__ import annotations

from corral.core.meta import Obj
from corral.jobs.framework.simulated import RESTARTS, SimulatedKind, pod_template, queued_job
from corral.jobs.jobset.adapter import NAME_LABEL
from corral.jobs.jobset.kind import JOB_SETS


def job_set(name: str, cpu: int, seconds: int) -> Obj:
    inner = {"backoffLimit": RESTARTS, "template": pod_template(cpu, seconds, "Never")}
    replicated = [{"name": "main", "replicas": 1, "template": {"spec": inner}}]
    spec = {"suspend": True, "failurePolicy": {"maxRestarts": RESTARTS}, "replicatedJobs": replicated}
    return queued_job(name, spec)


SIMULATED = (SimulatedKind("jobset.x-k8s.io/jobset", JOB_SETS, job_set, "Completed", NAME_LABEL),)
