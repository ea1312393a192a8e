"""A JobSet from a program: one replicated job whose pods know each other by name."""

from __future__ import annotations

from corral.core.meta import Obj
from corral.jobs.framework.submission import Submission, metadata_of, template_of
from corral.jobs.jobset.kind import JOB_SETS


def job_set(wanted: Submission) -> Obj:
    job = {
        "backoffLimit": 0,
        "parallelism": wanted.workers,
        "completions": wanted.workers,
        "template": template_of(wanted, "main", restartPolicy="Never"),
    }
    return {
        "apiVersion": JOB_SETS.api_version,
        "kind": JOB_SETS.kind,
        "metadata": metadata_of(wanted),
        "spec": {
            "suspend": True,
            "failurePolicy": {"maxRestarts": wanted.retries},
            "replicatedJobs": [{"name": "worker", "replicas": 1, "template": {"spec": job}}],
        },
    }
