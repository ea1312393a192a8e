"""A Job from a program: one pod, or as many as there are workers, each knowing its index."""

from __future__ import annotations

from corral.core.meta import Obj
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.framework.submission import Submission, metadata_of, template_of


def job(wanted: Submission) -> Obj:
    spec: Obj = {
        "backoffLimit": wanted.retries,
        "suspend": True,
        "template": template_of(wanted, "main", restartPolicy="Never"),
    }
    if wanted.workers > 1:
        spec |= {"parallelism": wanted.workers, "completions": wanted.workers, "completionMode": "Indexed"}
    return {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": metadata_of(wanted), "spec": spec}
