"""A LeaderWorkerSet's objects: a StatefulSet of leaders, and for each leader a StatefulSet of its workers.

A group is one leader and its workers; it is made anew as a whole when one of its pods restarts. Pods learn their place
when they are created: `placed` is what upstream's webhook does to them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from corral.core import conditions
from corral.core.meta import (
    Obj,
    generation_of,
    is_deleting,
    labels_of,
    name_of,
    namespace_of,
    owner_ref,
    spec_of,
    status_of,
)
from corral.core.timestamps import format_time
from corral.decide.apps.revision import template_hash
from corral.decide.jobs.pods import is_ready, restarts
from corral.kinds.lws import (
    GROUP_INDEX,
    GROUP_KEY,
    LEADER_NAME,
    NAME,
    REVISION,
    SIZE,
    WORKER_INDEX,
    leader_template,
    replicas_of,
    service_name,
    size_of,
    worker_template,
)


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """What to do about the groups."""

    worker_sets: tuple[Obj, ...] = ()
    """Worker StatefulSets that should exist, for leaders that have none."""
    recreate: tuple[Obj, ...] = ()
    """Leader pods to delete, with their workers, so that their group starts anew."""
    status: Obj | None = None


def revision_of(lws: Obj) -> str:
    template = spec_of(lws).get("leaderWorkerTemplate") or {}
    parts = {name: template.get(name) for name in ("leaderTemplate", "workerTemplate", "size")}
    return template_hash(parts)


def services(lws: Obj) -> list[Obj]:
    """The headless services under which pods find each other."""
    names = dict.fromkeys(service_name(lws, group) for group in range(replicas_of(lws)))
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {
                "name": name,
                "namespace": namespace_of(lws),
                "ownerReferences": [owner_ref(lws)],
            },
            "spec": {
                "clusterIP": "None",
                "selector": {NAME: name_of(lws)},
                "publishNotReadyAddresses": True,
            },
        }
        for name in names or {name_of(lws): None}
    ]


def leader_set(lws: Obj) -> Obj:
    """The StatefulSet whose pods are the leaders."""
    template = leader_template(lws)
    metadata = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), NAME: name_of(lws), WORKER_INDEX: "0", REVISION: revision_of(lws)}
    annotations = {**(metadata.get("annotations") or {}), SIZE: str(size_of(lws))}
    rolling = (spec_of(lws).get("rolloutStrategy") or {}).get("rollingUpdateConfiguration") or {}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": name_of(lws),
            "namespace": namespace_of(lws),
            "labels": {NAME: name_of(lws), REVISION: revision_of(lws)},
            "annotations": {f"{NAME.rpartition('/')[0]}/replicas": str(replicas_of(lws))},
            "ownerReferences": [owner_ref(lws)],
        },
        "spec": {
            "replicas": replicas_of(lws),
            "serviceName": name_of(lws),
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {NAME: name_of(lws), WORKER_INDEX: "0"}},
            "updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"partition": int(rolling.get("partition") or 0)},
            },
            "template": {
                **template,
                "metadata": {**metadata, "labels": labels, "annotations": annotations},
            },
            **_claims(lws),
        },
    }


def _claims(lws: Obj) -> Obj:
    template = spec_of(lws).get("leaderWorkerTemplate") or {}
    names = ("volumeClaimTemplates", "persistentVolumeClaimRetentionPolicy")
    return {name: template[name] for name in names if template.get(name)}


def worker_set(lws: Obj, leader: Obj) -> Obj:
    """The StatefulSet of one leader's workers; it lives and dies with the leader's pod."""
    group = group_of(leader)
    template = worker_template(lws)
    metadata = template.get("metadata") or {}
    labels = {
        **(metadata.get("labels") or {}),
        NAME: name_of(lws),
        GROUP_INDEX: str(group),
        GROUP_KEY: labels_of(leader).get(GROUP_KEY) or group_key(leader),
        REVISION: labels_of(leader).get(REVISION, ""),
    }
    annotations = {
        **(metadata.get("annotations") or {}),
        SIZE: str(size_of(lws)),
        LEADER_NAME: name_of(leader),
    }
    selector = {NAME: name_of(lws), GROUP_INDEX: str(group), GROUP_KEY: labels[GROUP_KEY]}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": name_of(leader),
            "namespace": namespace_of(lws),
            "labels": labels,
            "ownerReferences": [owner_ref({"apiVersion": "v1", "kind": "Pod", **leader})],
        },
        "spec": {
            "replicas": size_of(lws) - 1,
            "serviceName": service_name(lws, group),
            "podManagementPolicy": "Parallel",
            "ordinals": {"start": 1},
            "selector": {"matchLabels": selector},
            "template": {**template, "metadata": {**metadata, "labels": labels, "annotations": annotations}},
            **_claims(lws),
        },
    }


def group_of(leader: Obj) -> int:
    text = name_of(leader).rpartition("-")[2]
    return int(text) if text.isdigit() else 0


def group_key(leader: Obj) -> str:
    subject = f"{namespace_of(leader)}/{name_of(leader)}"
    return hashlib.sha1(subject.encode(), usedforsecurity=False).hexdigest()


def plan_groups(
    lws: Obj, leaders: Sequence[Obj], workers: Mapping[str, Sequence[Obj]], sets: Mapping[str, Obj], now: float
) -> GroupPlan:
    """What to do about the groups: `workers` are pods by leader, `sets` worker StatefulSets by leader."""
    waits = spec_of(lws).get("startupPolicy") == "LeaderReady"
    missing, recreate = [], []
    for leader in leaders:
        if is_deleting(leader):
            continue
        if size_of(lws) > 1 and name_of(leader) not in sets and (is_ready(leader) or not waits):
            missing.append(worker_set(lws, leader))
        if _must_restart(lws, leader, workers.get(name_of(leader), ())):
            recreate.append(leader)
    return GroupPlan(tuple(missing), tuple(recreate), lws_status(lws, leaders, sets, now))


def _must_restart(lws: Obj, leader: Obj, workers: Sequence[Obj]) -> bool:
    """A group starts anew when one of its pods restarted or is going; after its start, if so chosen."""
    policy = (spec_of(lws).get("leaderWorkerTemplate") or {}).get("restartPolicy")
    if policy not in ("RecreateGroupOnPodRestart", "RecreateGroupAfterStart"):
        return False
    if policy == "RecreateGroupAfterStart" and not all(is_ready(pod) or restarts(pod) for pod in (leader, *workers)):
        return False
    return any(restarts(pod) > 0 for pod in (leader, *workers)) or any(is_deleting(pod) for pod in workers)


def is_group_ready(lws: Obj, leader: Obj, sets: Mapping[str, Obj]) -> bool:
    if not is_ready(leader) or is_deleting(leader):
        return False
    if size_of(lws) == 1:
        return True
    workers = sets.get(name_of(leader))
    return workers is not None and int(status_of(workers).get("readyReplicas") or 0) >= size_of(lws) - 1


def lws_status(lws: Obj, leaders: Sequence[Obj], sets: Mapping[str, Obj], now: float) -> Obj:
    ready = sum(is_group_ready(lws, leader, sets) for leader in leaders)
    updated = sum(labels_of(leader).get(REVISION) == revision_of(lws) for leader in leaders)
    status: Obj = {
        **status_of(lws),
        "replicas": len(leaders),
        "readyReplicas": ready,
        "updatedReplicas": updated,
        "hpaPodSelector": f"{NAME}={name_of(lws)},{WORKER_INDEX}=0",
        "observedGeneration": generation_of(lws),
    }
    entries: Sequence[Obj] = status.get("conditions") or []
    outdated = bool(leaders) and updated < len(leaders)
    if ready >= replicas_of(lws) and not outdated:
        wanted = [("Available", True, "AllGroupsReady", "All replicas are ready")]
        wanted += [("Progressing", False, "AllGroupsReady", ""), ("UpdateInProgress", False, "AllGroupsReady", "")]
    else:
        wanted = [("Progressing", True, "GroupsProgressing", "Replicas are progressing")]
        wanted += [("Available", False, "GroupsProgressing", "")]
        if outdated:
            wanted.append(("UpdateInProgress", True, "GroupsUpdating", "Rolling Upgrade is in progress"))
    for kind, value, reason, text in wanted:
        if not value and conditions.find(entries, kind) is None:
            continue
        entries = conditions.set_condition(entries, conditions.condition(kind, value, reason, text), format_time(now))
    return {**status, "conditions": list(entries)}


def placed(pod: Obj, name: str) -> Obj:
    """A pod of a LeaderWorkerSet with its place among the others: labels and environment. `name` is its final name."""
    labels = dict(labels_of(pod))
    lws = labels[NAME]
    size = str((pod["metadata"].get("annotations") or {}).get(SIZE, "1"))
    if labels.get(WORKER_INDEX) == "0":
        labels.setdefault(GROUP_INDEX, name.rpartition("-")[2])
        subject = f"{namespace_of(pod)}/{name}"
        labels.setdefault(GROUP_KEY, hashlib.sha1(subject.encode(), usedforsecurity=False).hexdigest())
    else:
        labels[WORKER_INDEX] = name.rpartition("-")[2]
    spec = dict(pod["spec"])
    service = spec.get("subdomain") or lws
    leader = f"{lws}-{labels[GROUP_INDEX]}.{service}.{namespace_of(pod)}"
    values = {"LWS_LEADER_ADDRESS": leader, "LWS_GROUP_SIZE": size, "LWS_WORKER_INDEX": labels[WORKER_INDEX]}
    env = [{"name": key, "value": value} for key, value in values.items()]
    for field in ("containers", "initContainers"):
        if spec.get(field):
            spec[field] = [
                {**container, "env": [*env, *(e for e in container.get("env") or () if e["name"] not in values)]}
                for container in spec[field]
            ]
    return {**pod, "metadata": {**pod["metadata"], "labels": labels}, "spec": spec}
