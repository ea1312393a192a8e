"""Jobs in simulations."""

from __future__ import annotations

from corral.core.meta import Obj
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.framework.simulated import RESTARTS, SimulatedKind, pod_template, queued_job


def batch_job(name: str, cpu: int, seconds: int) -> Obj:
    spec = {"suspend": True, "backoffLimit": RESTARTS, "template": pod_template(cpu, seconds, "Never")}
    return queued_job(name, spec)


SIMULATED = (SimulatedKind("batch/job", JOBS, batch_job, "Complete", "batch.kubernetes.io/job-name"),)
