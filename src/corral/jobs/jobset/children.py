"""What a JobSet is made of: its child Jobs, the service under which they find each other, and the volumes they share."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from itertools import takewhile
from typing import Any

from corral.core.meta import (
    Obj,
    metadata_of,
    name_of,
    namespace_of,
    owner_ref,
    spec_of,
    status_of,
    uid_of,
)
from corral.jobs.framework.exclusive_placement import exclusive
from corral.jobs.jobset.kind import coordinator_endpoint, subdomain_of

PREFIX = "jobset.sigs.k8s.io"
ALPHA = "alpha.jobset.sigs.k8s.io"
JOB_SET_NAME = f"{PREFIX}/jobset-name"
REPLICATED_JOB = f"{PREFIX}/replicatedjob-name"
ATTEMPT = f"{PREFIX}/restart-attempt"


def is_suspended(job_set: Obj) -> bool:
    return bool(spec_of(job_set).get("suspend"))


def replicated_jobs(job_set: Obj) -> list[Obj]:
    return list(spec_of(job_set).get("replicatedJobs") or [])


def replicas_of(replicated: Obj) -> int:
    value = replicated.get("replicas")
    return 1 if value is None else int(value)


def job_name(job_set: Obj, replicated: Obj, index: int) -> str:
    return f"{name_of(job_set)}-{replicated['name']}-{index}"


def _ranks(job_set: Obj, replicated: Obj) -> Mapping[str, int]:
    """Where a replicated job's Jobs stand among all Jobs and among its group's."""
    jobs = replicated_jobs(job_set)
    group = replicated.get("groupName") or "default"
    members = [entry for entry in jobs if (entry.get("groupName") or "default") == group]
    return {
        "first": _replicas_before(replicated, jobs),
        "total": sum(map(replicas_of, jobs)),
        "group_first": _replicas_before(replicated, members),
        "group_total": sum(map(replicas_of, members)),
    }


def _replicas_before(replicated: Obj, jobs: list[Obj]) -> int:
    others = takewhile(lambda entry: entry["name"] != replicated["name"], jobs)
    return sum(map(replicas_of, others))


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
    policies = spec_of(job_set).get("volumeClaimPolicies") or ()
    names = [name for policy in policies for name, _ in _claim_templates(policy)]
    return [
        {"name": name, "persistentVolumeClaim": {"claimName": f"{name}-{name_of(job_set)}"}}
        for name in names
        if name in mounted
    ]


def _claim_templates(policy: Obj) -> list[tuple[str, Obj]]:
    """The templates of a policy, by name; the schema takes anything for one, and what has no name is none."""
    found = [template for template in policy.get("templates") or () if isinstance(template, dict)]
    return [(str(name), each) for each in found if (name := (each.get("metadata") or {}).get("name"))]


def claims_of(job_set: Obj) -> list[Obj]:
    """The volume claims a JobSet shares among its Jobs; retained ones are owned by nobody."""
    result = []
    for policy in spec_of(job_set).get("volumeClaimPolicies") or ():
        retained = (policy.get("retentionPolicy") or {}).get("whenDeleted") == "Retain"
        for name, template in _claim_templates(policy):
            metadata = {
                **(template.get("metadata") or {}),
                "name": f"{name}-{name_of(job_set)}",
                "namespace": namespace_of(job_set),
            }
            metadata["labels"] = {**(metadata.get("labels") or {}), JOB_SET_NAME: name_of(job_set)}
            if not retained:
                metadata["ownerReferences"] = [owner_ref(job_set)]
            body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
            result.append({**body, "spec": template.get("spec") or {}})
    return result
