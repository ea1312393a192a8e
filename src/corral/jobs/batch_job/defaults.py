"""Defaults of Jobs and CronJobs, and what the server writes into a Job when it is created."""

from __future__ import annotations

from corral.core.meta import Obj
from corral.kinds.kubernetes.pods.defaults import default_template

MAX_INT32 = 2**31 - 1
CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
JOB_NAME = "batch.kubernetes.io/job-name"
LEGACY_CONTROLLER_UID = "controller-uid"
LEGACY_JOB_NAME = "job-name"


def default_job_spec(spec: Obj) -> None:
    """Defaults of a JobSpec, in a Job or in the template of a CronJob."""
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", MAX_INT32 if spec.get("backoffLimitPerIndex") is not None else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    policy = spec.get("podFailurePolicy")
    for rule in (policy or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            if not pattern.get("status"):
                pattern["status"] = "True"
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed" if policy is None else "Failed")
    default_template(spec.setdefault("template", {}))


def default_job(job: Obj) -> None:
    """Defaults of a Job."""
    spec = job.setdefault("spec", {})
    default_job_spec(spec)
    spec.setdefault("manualSelector", False)
    if job["metadata"].get("uid"):
        _label_like_template(job)


def _label_like_template(job: Obj) -> None:
    """A Job without labels takes those of its template. A new one only after its own have been generated."""
    labels = job["spec"]["template"]["metadata"].get("labels")
    if labels and not job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels)


def default_cron_job(cron_job: Obj) -> None:
    """Defaults of a CronJob."""
    spec = cron_job.setdefault("spec", {})
    spec.setdefault("concurrencyPolicy", "Allow")
    spec.setdefault("suspend", False)
    spec.setdefault("successfulJobsHistoryLimit", 3)
    spec.setdefault("failedJobsHistoryLimit", 1)
    template = spec.setdefault("jobTemplate", {})
    template.setdefault("metadata", {})
    default_template(template.setdefault("spec", {}).setdefault("template", {}))


def prepare_job(job: Obj) -> None:
    """Give a new Job its generated selector and labels, unless it brings its own."""
    if not job["spec"].get("manualSelector"):
        _generate_selector(job)
    _label_like_template(job)


def _generate_selector(job: Obj) -> None:
    spec, metadata = job["spec"], job["metadata"]
    template = spec["template"].setdefault("metadata", {})
    generated = {
        CONTROLLER_UID: metadata["uid"],
        JOB_NAME: metadata.get("name", ""),
        LEGACY_CONTROLLER_UID: metadata["uid"],
        LEGACY_JOB_NAME: metadata.get("name", ""),
    }
    template["labels"] = dict(sorted({**generated, **(template.get("labels") or {})}.items()))
    selector = spec["selector"] = {**(spec.get("selector") or {})}
    selector["matchLabels"] = {CONTROLLER_UID: metadata["uid"], **(selector.get("matchLabels") or {})}
