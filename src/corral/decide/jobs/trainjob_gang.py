"""The PodGroup that starts all pods of a TrainJob together."""

from __future__ import annotations

from corral.core.meta import Obj, name_of, spec_of
from corral.decide.jobs import gang


def group_scheduler(runtime: Obj) -> str:
    """Whose PodGroup the runtime asks for; empty for none."""
    policy = spec_of(runtime).get("podGroupPolicy") or {}
    if policy.get("volcano") is not None:
        return gang.VOLCANO
    return "coscheduling" if policy.get("coscheduling") is not None else ""


def grouped(train_job: Obj, job: Obj, scheduler: str) -> Obj:
    """The pods of a replicated job marked as members; which scheduler runs them is the runtime's to say."""
    template = job.get("template") or {}
    job_spec = template.get("spec") or {}
    pod = job_spec.get("template") or {}
    marked = gang.marked(pod, scheduler, name_of(train_job))
    pod = {**pod, "metadata": marked["metadata"]}
    return {**job, "template": {**template, "spec": {**job_spec, "template": pod}}}


def pod_group(train_job: Obj, runtime: Obj, job_set: Obj, scheduler: str) -> Obj:
    members = [
        gang.Member(
            ((entry.get("template") or {}).get("spec") or {}).get("template") or {},
            int(((entry.get("template") or {}).get("spec") or {}).get("parallelism", 1)),
        )
        for entry in job_set["spec"]["replicatedJobs"]
    ]
    total = sum(member.count for member in members)
    spec: Obj = {"minMember": total, "minResources": gang.least_resources(members, total, lambda name: 0)}
    policy = spec_of(runtime).get("podGroupPolicy") or {}
    if scheduler == gang.VOLCANO:
        spec["queue"] = (job_set["metadata"].get("annotations") or {}).get(gang.QUEUE_NAME)
        named = [member.priority_class for member in members if member.priority_class]
        spec["priorityClassName"] = named[-1] if named else ""
        spec["networkTopology"] = (policy["volcano"] or {}).get("networkTopology")
    else:
        spec["scheduleTimeoutSeconds"] = (policy["coscheduling"] or {}).get("scheduleTimeoutSeconds", 60)
    return gang.pod_group(train_job, scheduler, spec)
