"""The PodGroup that starts all pods of a TrainJob together."""

from __future__ import annotations

from corral.core.meta import Obj, spec_of
from corral.jobs.framework import gang
from corral.jobs.trainjob.templates import pod_template_of, with_pod_template
from corral.jobs.trainjob.view import Training


def group_scheduler(training: Training) -> str:
    """Whose PodGroup the runtime asks for; empty for none."""
    policy = _policy(training)
    if policy.get("volcano") is not None:
        return gang.VOLCANO
    return "coscheduling" if policy.get("coscheduling") is not None else ""


def grouped(training: Training, job: Obj, scheduler: str) -> Obj:
    """The pods of a replicated job marked as members; which scheduler runs them is the runtime's to say."""
    pod = pod_template_of(job)
    marked = gang.marked(pod, scheduler, training.name)
    return with_pod_template(job, {**pod, "metadata": marked["metadata"]})


def pod_group(training: Training, job_set: Obj, scheduler: str) -> Obj:
    members = [
        gang.Member(pod_template_of(job), int(spec_of(job.get("template") or {}).get("parallelism", 1)))
        for job in job_set["spec"]["replicatedJobs"]
    ]
    total = sum(member.count for member in members)
    spec: Obj = {"minMember": total, "minResources": gang.least_resources(members, total, lambda name: 0)}
    if scheduler == gang.VOLCANO:
        spec["queue"] = (job_set["metadata"].get("annotations") or {}).get(gang.QUEUE_NAME)
        named = [member.priority_class for member in members if member.priority_class]
        spec["priorityClassName"] = named[-1] if named else ""
        spec["networkTopology"] = (_policy(training)["volcano"] or {}).get("networkTopology")
    else:
        spec["scheduleTimeoutSeconds"] = (_policy(training)["coscheduling"] or {}).get("scheduleTimeoutSeconds", 60)
    return gang.pod_group(training.job, scheduler, spec)


def _policy(training: Training) -> Obj:
    return spec_of(training.runtime).get("podGroupPolicy") or {}
