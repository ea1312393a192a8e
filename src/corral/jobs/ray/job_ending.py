"""What is left of a finished RayJob, and for how long."""

from __future__ import annotations

from corral.core.meta import Obj, spec_of, status_of
from corral.core.timestamps import parse_time
from corral.jobs.ray.job_plan_values import RayJobPlan

IMPACT = ("DeleteSelf", "DeleteCluster", "DeleteWorkers")
"""Of several deletions that are due the first of these is carried out."""


def _deletions(job: Obj) -> list[tuple[str, float]]:
    """What is to be deleted after this end of the job, and how long after it."""
    strategy, status = spec_of(job).get("deletionStrategy") or {}, status_of(job)
    if strategy.get("deletionRules"):
        found = []
        for rule in strategy["deletionRules"]:
            condition = rule.get("condition") or {}
            wanted = [(name, condition[name]) for name in ("jobStatus", "jobDeploymentStatus") if condition.get(name)]
            if wanted and all(status.get(name) == value for name, value in wanted):
                found.append((str(rule.get("policy")), float(condition.get("ttlSeconds") or 0)))
        return found
    place = {"SUCCEEDED": "onSuccess", "FAILED": "onFailure"}.get(str(status.get("jobStatus")), "")
    policy = (strategy.get(place) or {}).get("policy")
    return [(str(policy), float(spec_of(job).get("ttlSecondsAfterFinished") or 0))] if policy else []


def _clean_up(job: Obj, cluster: Obj | None, now: float) -> RayJobPlan:
    """Carry out a deletion strategy: the deletion that is due and goes furthest, then wait for the next."""
    status = status_of(job)
    end = parse_time(status["endTime"]) if status.get("endTime") else now
    due = [policy for policy, after in _deletions(job) if end + after <= now]
    waits = [end + after - now for _, after in _deletions(job) if end + after > now]
    worst = next((policy for policy in IMPACT if policy in due), "")
    groups = spec_of(cluster).get("workerGroupSpecs") or () if cluster is not None else ()
    return RayJobPlan(
        status,
        delete_job=worst == "DeleteSelf",
        delete_cluster=worst == "DeleteCluster" and cluster is not None,
        suspend_workers=worst == "DeleteWorkers" and any(not group.get("suspend") for group in groups),
        wait_s=min(waits, default=None),
    )


def clean_up_after(job: Obj, cluster: Obj | None, now: float) -> RayJobPlan:
    """A finished job gives its cluster back after a while, if it was asked to."""
    spec, status = spec_of(job), status_of(job)
    if spec.get("deletionStrategy") and not spec.get("clusterSelector"):
        return _clean_up(job, cluster, now)
    if not spec.get("shutdownAfterJobFinishes") or cluster is None or spec.get("clusterSelector"):
        return RayJobPlan(status)
    end = status.get("endTime")
    left = parse_time(end) + float(spec.get("ttlSecondsAfterFinished") or 0) - now if end else 0.0
    if left > 0:
        return RayJobPlan(status, wait_s=left)
    return RayJobPlan(status, delete_cluster=True)
