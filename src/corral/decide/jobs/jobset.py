"""A JobSet's next step: which Jobs to make, restart, suspend or delete, and what its status says.

The order of questions matters and is fixed: ended? old attempts? all ready? failed? succeeded? then what is missing is
made and suspension is carried to the Jobs. Restarting is a counter: Jobs of an earlier attempt are deleted and made
again under the same names.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from corral.core import conditions
from corral.core.meta import (
    Obj,
    is_deleting,
    labels_of,
    metadata_of,
    name_of,
    namespace_of,
    owner_ref,
    spec_of,
    status_of,
    uid_of,
)
from corral.core.timestamps import format_time, parse_time
from corral.decide.jobs.exclusive import exclusive
from corral.decide.jobs.inplace import restart_in_place, restarts_in_place
from corral.decide.jobs.job import finish_of
from corral.kinds.jobset import CONTROLLER, coordinator_endpoint, subdomain_of

PREFIX = "jobset.sigs.k8s.io"
ALPHA = "alpha.jobset.sigs.k8s.io"
JOB_SET_NAME = f"{PREFIX}/jobset-name"
REPLICATED_JOB = f"{PREFIX}/replicatedjob-name"
ATTEMPT = f"{PREFIX}/restart-attempt"
COUNTS = ("ready", "succeeded", "failed", "active", "suspended")
_SYNCED_POD_FIELDS = ("nodeSelector", "tolerations", "schedulingGates")

Event = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class JobSetPlan:
    """Everything one look decides. Status first says what happened, then children follow."""

    status: Obj
    delete: tuple[Obj, ...] = ()
    create: tuple[Obj, ...] = ()
    suspend: tuple[Obj, ...] = ()
    """Child Jobs to suspend."""
    resume: tuple[Obj, ...] = ()
    """Child Jobs as they should be once resumed; their start time is cleared first."""
    service: Obj | None = None
    claims: tuple[Obj, ...] = ()
    expire: bool = False
    """The JobSet itself is to be deleted now."""
    wait_s: float | None = None
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class _Children:
    """The Jobs of a JobSet sorted by what they are."""

    active: list[Obj] = field(default_factory=list)
    succeeded: list[Obj] = field(default_factory=list)
    failed: list[Obj] = field(default_factory=list)
    outdated: list[Obj] = field(default_factory=list)


def is_ours(job_set: Obj) -> bool:
    return spec_of(job_set).get("managedBy") in (None, CONTROLLER)


def is_suspended(job_set: Obj) -> bool:
    return bool(spec_of(job_set).get("suspend"))


def replicated_jobs(job_set: Obj) -> list[Obj]:
    return list(spec_of(job_set).get("replicatedJobs") or [])


def replicas_of(replicated: Obj) -> int:
    value = replicated.get("replicas")
    return 1 if value is None else int(value)


def finished(job_set: Obj) -> Obj | None:
    """The condition that ended the JobSet, if any."""
    for kind in ("Completed", "Failed"):
        if conditions.is_true(job_set, kind):
            return conditions.find(job_set, kind)
    return None


def job_name(job_set: Obj, replicated: Obj, index: int) -> str:
    return f"{name_of(job_set)}-{replicated['name']}-{index}"


def plan_job_set(job_set: Obj, jobs: Sequence[Obj], now: float, pods: Sequence[Obj] = ()) -> JobSetPlan:
    """The next step of a JobSet that owns `jobs`; `pods` are looked at only where containers restart in place."""
    children = _sort(job_set, jobs)
    status = _counted(job_set, children)
    end = finished(job_set)
    if end is not None:
        return _ended(job_set, children, status, end, now)
    status = _with_readiness(job_set, status, now)
    if children.failed:
        return _after_failure(job_set, children, status, now)
    done = _success(job_set, children)
    if done:
        entry = _condition("Completed", True, "AllJobsCompleted", "jobset completed successfully")
        status = _put(status, entry, now)
        status["terminalState"] = "Completed"
        event = ("Normal", "AllJobsCompleted", "jobset completed successfully")
        return JobSetPlan(status, delete=tuple(_live(children.outdated)), events=(event,))
    plan = _converge(job_set, children, status, now)
    if not restarts_in_place(job_set):
        return plan
    return replace(plan, status=restart_in_place(job_set, plan.status, pods, now))


def _live(jobs: Sequence[Obj]) -> list[Obj]:
    return [job for job in jobs if not is_deleting(job)]


def attempt_of(job: Obj) -> int:
    text = labels_of(job).get(ATTEMPT, "")
    return int(text) if text.isdigit() else -1


def _sort(job_set: Obj, jobs: Sequence[Obj]) -> _Children:
    children = _Children()
    restarts = int(status_of(job_set).get("restarts") or 0)
    for job in jobs:
        if attempt_of(job) < restarts or is_deleting(job):
            children.outdated.append(job)
            continue
        end = finish_of(job)
        if end is None:
            children.active.append(job)
        else:
            (children.succeeded if end["type"] == "Complete" else children.failed).append(job)
    return children


# Status


def _counted(job_set: Obj, children: _Children) -> Obj:
    """The old status with the replicated jobs counted anew."""
    counts = {entry["name"]: dict.fromkeys(COUNTS, 0) for entry in replicated_jobs(job_set)}
    for kind, members in (("succeeded", children.succeeded), ("failed", children.failed)):
        for job in members:
            if (name := labels_of(job).get(REPLICATED_JOB, "")) in counts:
                counts[name][kind] += 1
    for job in children.active:
        name = labels_of(job).get(REPLICATED_JOB, "")
        if name in counts:
            for kind, applies in _states(job).items():
                counts[name][kind] += applies
    old = status_of(job_set)
    status = {**old, "restarts": int(old.get("restarts") or 0)}
    status["replicatedJobsStatus"] = [{"name": name, **numbers} for name, numbers in counts.items()]
    return status


def _states(job: Obj) -> dict[str, bool]:
    spec, status = spec_of(job), status_of(job)
    parallelism = int(spec.get("parallelism", 1))
    needed = min(parallelism, int(spec.get("completions") or parallelism))
    return {
        "ready": int(status.get("succeeded") or 0) + int(status.get("ready") or 0) >= needed,
        "active": int(status.get("active") or 0) > 0,
        "suspended": bool(spec.get("suspend")),
    }


def _numbers(status: Obj, name: str) -> Obj:
    return next((entry for entry in status.get("replicatedJobsStatus") or () if entry["name"] == name), {})


def _started(replicated: Obj, status: Obj) -> bool:
    numbers = _numbers(status, replicated["name"])
    total = sum(int(numbers.get(kind) or 0) for kind in ("failed", "ready", "succeeded"))
    return total >= replicas_of(replicated)


def _condition(kind: str, value: bool, reason: str, message: str) -> Obj:
    return conditions.condition(kind, value, reason, message)


def _put(status: Obj, entry: Obj, now: float) -> Obj:
    """The status with one condition set; a negative condition is not added afresh."""
    entries = status.get("conditions") or []
    if entry["status"] == "False" and conditions.find(entries, entry["type"]) is None:
        return status
    return {**status, "conditions": conditions.set_condition(entries, entry, format_time(now))}


def _with_readiness(job_set: Obj, status: Obj, now: float) -> Obj:
    """A restart is over once every Job is ready or done."""
    entries = status.get("conditions") or []
    if not conditions.is_true(entries, "RestartingJobSet"):
        return status
    for replicated in replicated_jobs(job_set):
        numbers = _numbers(status, replicated["name"])
        if int(numbers["ready"]) + int(numbers["succeeded"]) < replicas_of(replicated):
            return status
    return _put(status, _condition("RestartingJobSet", False, "JobsReady", "all jobs are ready"), now)


def _ended(job_set: Obj, children: _Children, status: Obj, end: Obj, now: float) -> JobSetPlan:
    leftovers = tuple(_live([*children.active, *children.outdated]))
    ttl = spec_of(job_set).get("ttlSecondsAfterFinished")
    if ttl is None:
        return JobSetPlan(status, delete=leftovers)
    left = parse_time(end["lastTransitionTime"]) + float(ttl) - now
    return JobSetPlan(status, delete=leftovers, expire=left <= 0, wait_s=max(left, 0.0) or None)


# Failure and success


def _failed_at(job: Obj) -> tuple[str, str]:
    end = finish_of(job)
    return (str(end["lastTransitionTime"]) if end else "", name_of(job))


def _after_failure(job_set: Obj, children: _Children, status: Obj, now: float) -> JobSetPlan:
    policy = spec_of(job_set).get("failurePolicy")
    failed = sorted(children.failed, key=_failed_at)
    first = failed[0]
    if policy is None:
        text = f"jobset failed due to one or more job failures (first failed job: {name_of(first)})"
        return _fail(job_set, children, status, "FailedJobs", text, now)
    rule = next((entry for entry in policy.get("rules") or () if _applies(entry, first)), None)
    action = str(rule["action"]) if rule else "RestartJobSet"
    if action == "FailJobSet":
        text = f"jobset failed due to FailJobSet failure policy action (first failed job: {name_of(first)})"
        return _fail(job_set, children, status, "FailJobSetFailurePolicyAction", text, now)
    counts = not action.endswith("IgnoreMaxRestarts")
    used = int(status.get("restartsCountTowardsMax") or 0)
    if counts and used >= int(policy.get("maxRestarts") or 0):
        text = f"jobset failed due to reaching max number of restarts (first failed job: {name_of(first)})"
        return _fail(job_set, children, status, "ReachedMaxRestarts", text, now)
    if counts:
        status["restartsCountTowardsMax"] = used + 1
    if action.startswith("RestartJobSet"):
        return _restart(children, status, rule, action, first, now)
    # Only the failed Jobs are made anew; the others keep running.
    event = (
        "Warning",
        f"{action}FailurePolicyAction",
        f"restarting job {name_of(first)} due to {action} failure policy action",
    )
    return JobSetPlan(status, delete=(first, *_live(children.outdated)), events=(event,))


def _restart(children: _Children, status: Obj, rule: Obj | None, action: str, first: Obj, now: float) -> JobSetPlan:
    status["restarts"] = int(status.get("restarts") or 0) + 1
    reason = f"FailurePolicy_{rule['name']}" if rule else "DefaultFailurePolicy"
    text = f"restarting jobset due to {action} failure policy action (first failed job: {name_of(first)})"
    status = _put(status, _condition("RestartingJobSet", True, reason, text), now)
    everything = (*children.active, *children.succeeded, *children.failed, *_live(children.outdated))
    return JobSetPlan(status, delete=everything, events=(("Warning", f"{action}FailurePolicyAction", text),))


def _fail(job_set: Obj, children: _Children, status: Obj, reason: str, text: str, now: float) -> JobSetPlan:
    status = _put(status, _condition("RestartingJobSet", False, "JobSetFailed", "jobset failed"), now)
    status = _put(status, _condition("Failed", True, reason, text), now)
    status["terminalState"] = "Failed"
    return JobSetPlan(status, delete=tuple(_live(children.outdated)), events=(("Warning", reason, text),))


def _applies(rule: Obj, job: Obj) -> bool:
    """Whether a failure rule speaks about this failed Job: its target, its reason and its message."""
    end = finish_of(job) or {}
    targets = rule.get("targetReplicatedJobs") or ()
    reasons = rule.get("onJobFailureReasons") or ()
    patterns = rule.get("onJobFailureMessagePatterns") or ()
    return (
        (not targets or labels_of(job).get(REPLICATED_JOB) in targets)
        and (not reasons or end.get("reason") in reasons)
        and (not patterns or any(re.search(pattern, str(end.get("message") or "")) for pattern in patterns))
    )


def _success(job_set: Obj, children: _Children) -> bool:
    policy = spec_of(job_set).get("successPolicy") or {}
    targets = policy.get("targetReplicatedJobs") or [entry["name"] for entry in replicated_jobs(job_set)]
    done = sum(labels_of(job).get(REPLICATED_JOB) in targets for job in children.succeeded)
    if policy.get("operator") == "Any":
        return done > 0
    total = sum(replicas_of(entry) for entry in replicated_jobs(job_set) if entry["name"] in targets)
    return total > 0 and done >= total


# Convergence


def _converge(job_set: Obj, children: _Children, status: Obj, now: float) -> JobSetPlan:
    status, events = _with_suspension(job_set, status, now)
    create, status = _missing(job_set, children, status, now)
    suspend, resume = _suspension(job_set, children, status)
    return JobSetPlan(
        status,
        delete=tuple(_live(children.outdated)),
        create=tuple(create),
        suspend=tuple(suspend),
        resume=tuple(resume),
        service=headless_service(job_set),
        claims=tuple(claims_of(job_set)),
        events=events,
    )


def _with_suspension(job_set: Obj, status: Obj, now: float) -> tuple[Obj, tuple[Event, ...]]:
    if is_suspended(job_set):
        entry = _condition("Suspended", True, "SuspendedJobs", "jobset is suspended")
    else:
        entry = _condition("Suspended", False, "ResumeJobs", "jobset is resumed")
    old = conditions.find(status.get("conditions") or [], "Suspended")
    changed = _put(status, entry, now)
    if changed is status or (old is not None and old["status"] == entry["status"]):
        return status, ()
    return changed, (("Normal", entry["reason"], entry["message"]),)


def _is_in_order(job_set: Obj) -> bool:
    return (spec_of(job_set).get("startupPolicy") or {}).get("startupPolicyOrder") == "InOrder"


def _missing(job_set: Obj, children: _Children, status: Obj, now: float) -> tuple[list[Obj], Obj]:
    """The Jobs to make now, as far as order, dependencies and restarts allow."""
    blocking = (spec_of(job_set).get("failurePolicy") or {}).get("restartStrategy") == "BlockingRecreate"
    if blocking and children.outdated:
        return [], status
    held = {name_of(job) for job in (*children.active, *children.succeeded, *children.failed, *children.outdated)}
    in_order = _is_in_order(job_set) and not is_suspended(job_set)
    create: list[Obj] = []
    for replicated in replicated_jobs(job_set):
        if not _dependencies_met(job_set, replicated, status):
            continue
        for index in range(replicas_of(replicated)):
            if job_name(job_set, replicated, index) not in held:
                create.append(build_job(job_set, replicated, index))
        if in_order and not _started(replicated, status):
            entry = _condition(
                "StartupPolicyInProgress",
                True,
                "InOrderStartupPolicyInProgress",
                "in order startup policy is in progress",
            )
            return create, _put(status, entry, now)
    if in_order:
        entries = conditions.without(status.get("conditions") or [], "StartupPolicyInProgress")
        entry = _condition(
            "StartupPolicyCompleted", True, "InOrderStartupPolicyCompleted", "in order startup policy has completed"
        )
        status = _put({**status, "conditions": entries}, entry, now)
    return create, status


def _dependencies_met(job_set: Obj, replicated: Obj, status: Obj) -> bool:
    by_name = {entry["name"]: entry for entry in replicated_jobs(job_set)}
    for dependency in replicated.get("dependsOn") or ():
        other = by_name.get(dependency["name"])
        if other is None:
            return False
        if dependency.get("status") == "Complete":
            if int(_numbers(status, other["name"]).get("succeeded") or 0) < replicas_of(other):
                return False
        elif not _started(other, status):
            return False
    return True


def _suspension(job_set: Obj, children: _Children, status: Obj) -> tuple[list[Obj], list[Obj]]:
    """Child Jobs whose suspension differs from the JobSet's."""
    if is_suspended(job_set):
        return [job for job in children.active if not spec_of(job).get("suspend")], []
    resume: list[Obj] = []
    for replicated in replicated_jobs(job_set):
        mine = [job for job in children.active if labels_of(job).get(REPLICATED_JOB) == replicated["name"]]
        resume += [_resumed(job, replicated) for job in mine if spec_of(job).get("suspend")]
        if _is_in_order(job_set) and not _started(replicated, status):
            break
    return [], resume


def _resumed(job: Obj, replicated: Obj) -> Obj:
    """The Job as it runs on: what was injected into the JobSet's template replaces what an earlier admission left.

    The JobSet's own labels and annotations on the pods, and the Job API's, stay.
    """
    wanted = ((replicated.get("template") or {}).get("spec") or {}).get("template") or {}
    template = spec_of(job).get("template") or {}
    metadata = dict(template.get("metadata") or {})
    for name in ("labels", "annotations"):
        kept = {key: value for key, value in (metadata.get(name) or {}).items() if _is_own(key)}
        merged = {**((wanted.get("metadata") or {}).get(name) or {}), **kept}
        metadata.pop(name, None)
        if merged:
            metadata[name] = merged
    pod = {key: value for key, value in (template.get("spec") or {}).items() if key not in _SYNCED_POD_FIELDS}
    pod.update({key: value for key, value in (wanted.get("spec") or {}).items() if key in _SYNCED_POD_FIELDS})
    spec = {**spec_of(job), "suspend": False, "template": {**template, "metadata": metadata, "spec": pod}}
    return {**job, "spec": spec}


def _is_own(key: str) -> bool:
    return key.startswith((f"{PREFIX}/", "batch.kubernetes.io/", "alpha.jobset.sigs.k8s.io/")) or key in (
        "controller-uid",
        "job-name",
    )


# Children


def _ranks(job_set: Obj, replicated: Obj) -> Mapping[str, int]:
    """Where a replicated job's Jobs stand among all Jobs and among its group's."""
    jobs = replicated_jobs(job_set)
    position = next(i for i, entry in enumerate(jobs) if entry["name"] == replicated["name"])
    group = replicated.get("groupName") or "default"
    members = [entry for entry in jobs if (entry.get("groupName") or "default") == group]
    before = members[: next(i for i, entry in enumerate(members) if entry["name"] == replicated["name"])]
    return {
        "first": sum(map(replicas_of, jobs[:position])),
        "total": sum(map(replicas_of, jobs)),
        "group_first": sum(map(replicas_of, before)),
        "group_total": sum(map(replicas_of, members)),
    }


def job_labels(job_set: Obj, replicated: Obj, index: int) -> dict[str, str]:
    """The labels, and annotations, by which Jobs and pods know their place."""
    ranks = _ranks(job_set, replicated)
    key = f"{namespace_of(job_set)}/{job_name(job_set, replicated, index)}"
    labels = {
        "jobset-name": name_of(job_set),
        "jobset-uid": uid_of(job_set),
        "replicatedjob-name": replicated["name"],
        "replicatedjob-replicas": str(replicas_of(replicated)),
        "restart-attempt": str(int(status_of(job_set).get("restarts") or 0)),
        "global-replicas": str(ranks["total"]),
        "job-index": str(index),
        "job-key": hashlib.sha1(key.encode(), usedforsecurity=False).hexdigest(),
        "job-global-index": str(ranks["first"] + index),
        "group-name": replicated.get("groupName") or "default",
        "group-replicas": str(ranks["group_total"]),
        "job-group-index": str(ranks["group_first"] + index),
    }
    endpoint = coordinator_endpoint(job_set)
    if endpoint:
        labels["coordinator"] = endpoint
    return {f"{PREFIX}/{name}": value for name, value in labels.items()}


def build_job(job_set: Obj, replicated: Obj, index: int) -> Obj:
    """One child Job of the current attempt."""
    template = replicated.get("template") or {}
    metadata, spec = template.get("metadata") or {}, dict(template.get("spec") or {})
    labels = job_labels(job_set, replicated, index)
    pod = spec.get("template") or {}
    pod_metadata = pod.get("metadata") or {}
    pod_spec = dict(pod.get("spec") or {})
    if (spec_of(job_set).get("network") or {}).get("enableDNSHostnames", True):
        pod_spec["subdomain"] = subdomain_of(job_set)
    volumes = _shared_volumes(job_set, pod_spec)
    if volumes:
        pod_spec["volumes"] = [*(pod_spec.get("volumes") or ()), *volumes]
    extra = _topology(job_set, replicated)
    if f"{ALPHA}/node-selector" not in extra:
        key = labels[f"{PREFIX}/job-key"]
        pod_spec = exclusive(pod_spec, f"{PREFIX}/job-key", key, extra.get(f"{ALPHA}/exclusive-topology"))
    spec["template"] = {
        **pod,
        "metadata": {
            **pod_metadata,
            "labels": {**(pod_metadata.get("labels") or {}), **labels},
            "annotations": {**(pod_metadata.get("annotations") or {}), **labels, **extra},
        },
        "spec": pod_spec,
    }
    spec["suspend"] = is_suspended(job_set)
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name(job_set, replicated, index),
            "namespace": namespace_of(job_set),
            "labels": {**(metadata.get("labels") or {}), **labels},
            "annotations": {**(metadata.get("annotations") or {}), **labels, **extra},
            "ownerReferences": [owner_ref(job_set)],
        },
        "spec": spec,
    }


def _topology(job_set: Obj, replicated: Obj) -> dict[str, str]:
    """Exclusive placement, asked for on the JobSet or on one replicated job, is passed on."""
    names = (f"{ALPHA}/exclusive-topology", f"{ALPHA}/node-selector")
    sources: list[Mapping[str, Any]] = [
        metadata_of(job_set).get("annotations") or {},
        ((replicated.get("template") or {}).get("metadata") or {}).get("annotations") or {},
    ]
    return {name: source[name] for source in sources for name in names if name in source}


def headless_service(job_set: Obj) -> Obj | None:
    """The service under which pods find each other by name."""
    network = spec_of(job_set).get("network") or {}
    if not network.get("enableDNSHostnames", True):
        return None
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": subdomain_of(job_set),
            "namespace": namespace_of(job_set),
            "ownerReferences": [owner_ref(job_set)],
        },
        "spec": {
            "clusterIP": "None",
            "selector": {JOB_SET_NAME: name_of(job_set)},
            "publishNotReadyAddresses": bool(network.get("publishNotReadyAddresses", True)),
        },
    }


def _shared_volumes(job_set: Obj, pod_spec: Obj) -> list[Obj]:
    """The JobSet's claims that a container of these pods mounts."""
    containers = [*(pod_spec.get("initContainers") or ()), *(pod_spec.get("containers") or ())]
    mounted = {mount.get("name") for container in containers for mount in container.get("volumeMounts") or ()}
    names = [
        template["metadata"]["name"]
        for policy in spec_of(job_set).get("volumeClaimPolicies") or ()
        for template in policy.get("templates") or ()
    ]
    return [
        {"name": name, "persistentVolumeClaim": {"claimName": f"{name}-{name_of(job_set)}"}}
        for name in names
        if name in mounted
    ]


def claims_of(job_set: Obj) -> list[Obj]:
    """The volume claims a JobSet shares among its Jobs; retained ones are owned by nobody."""
    result = []
    for policy in spec_of(job_set).get("volumeClaimPolicies") or ():
        retained = (policy.get("retentionPolicy") or {}).get("whenDeleted") == "Retain"
        for template in policy.get("templates") or ():
            metadata = {
                **(template.get("metadata") or {}),
                "name": f"{template['metadata']['name']}-{name_of(job_set)}",
                "namespace": namespace_of(job_set),
            }
            metadata["labels"] = {**(metadata.get("labels") or {}), JOB_SET_NAME: name_of(job_set)}
            if not retained:
                metadata["ownerReferences"] = [owner_ref(job_set)]
            body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
            result.append({**body, "spec": template.get("spec") or {}})
    return result
