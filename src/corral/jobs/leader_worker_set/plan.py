"""A LeaderWorkerSet's objects: a StatefulSet of leaders, and for each leader a StatefulSet of its workers.

A group is one leader and its workers; it is made anew as a whole when one of its pods restarts. Pods learn their place
when they are created: `placed` is what upstream's webhook does to them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from corral.core import conditions
from corral.core.meta import (
    Obj,
    annotations_of,
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
from corral.core.whole_numbers import whole_number
from corral.decide.apps.revision import template_hash
from corral.decide.pods.facts import is_ready, restarts
from corral.jobs.framework.exclusive_placement import exclusive
from corral.jobs.leader_worker_set.kind import (
    EXCLUSIVE,
    GROUP_INDEX,
    GROUP_KEY,
    LEADER_NAME,
    NAME,
    REPLICAS,
    REVISION,
    SIZE,
    SUBDOMAIN_POLICY,
    SUBGROUP_EXCLUSIVE,
    SUBGROUP_INDEX,
    SUBGROUP_KEY,
    SUBGROUP_SIZE,
    SUBGROUP_TYPE,
    WORKER_INDEX,
    leader_template,
    replicas_of,
    service_name,
    size_of,
    subgroup_policy,
    worker_template,
)
from corral.jobs.leader_worker_set.rollout import Groups, GroupState, RolloutStep


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """What to do about the groups."""

    worker_sets: tuple[Obj, ...] = ()
    """Worker StatefulSets that should exist, for leaders that have none."""
    recreate: tuple[Obj, ...] = ()
    """Leader pods to delete, with their workers, so that their group starts anew."""
    status: Obj | None = None


def versioned(lws: Obj) -> Obj:
    """The part of a LeaderWorkerSet that makes a revision."""
    template = spec_of(lws).get("leaderWorkerTemplate") or {}
    return {name: template[name] for name in ("leaderTemplate", "workerTemplate", "size") if template.get(name)}


def revision_of(lws: Obj) -> str:
    return template_hash(versioned(lws))


def as_of(lws: Obj, leader: Obj, revisions: Mapping[str, Obj]) -> Obj:
    """The LeaderWorkerSet as it was in the revision its leader is of: a group below the partition stays what it was."""
    held = revisions.get(labels_of(leader).get(REVISION, ""))
    if held is None:
        return lws
    template = spec_of(lws).get("leaderWorkerTemplate") or {}
    kept = {name: value for name, value in template.items() if name not in ("leaderTemplate", "workerTemplate", "size")}
    return {**lws, "spec": {**spec_of(lws), "leaderWorkerTemplate": {**kept, **held}}}


def services(lws: Obj, groups: int) -> Iterator[Obj]:
    """The headless services under which pods find each other: one, or one for each of the `groups`."""
    if (spec_of(lws).get("networkConfig") or {}).get("subdomainPolicy") != "UniquePerReplica":
        yield _service(lws, name_of(lws), {NAME: name_of(lws)})
        return
    for group in range(groups):
        yield _service(lws, service_name(lws, group), {NAME: name_of(lws), GROUP_INDEX: str(group)})


def _service(lws: Obj, name: str, selector: Obj) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name,
            "namespace": namespace_of(lws),
            "ownerReferences": [owner_ref(lws)],
        },
        "spec": {"clusterIP": "None", "selector": selector, "publishNotReadyAddresses": True},
    }


def _place_annotations(lws: Obj) -> dict[str, str]:
    """What a pod needs to know to find its place."""
    result = {SIZE: str(size_of(lws))}
    policy = subgroup_policy(lws)
    if policy is not None:
        result[SUBGROUP_SIZE] = str(policy["subGroupSize"])
        result[SUBGROUP_TYPE] = str(policy.get("subGroupPolicyType") or "LeaderWorker")
    for name in (EXCLUSIVE, SUBGROUP_EXCLUSIVE):
        if name in annotations_of(lws):
            result[name] = annotations_of(lws)[name]
    if (spec_of(lws).get("networkConfig") or {}).get("subdomainPolicy") == "UniquePerReplica":
        result[SUBDOMAIN_POLICY] = "UniquePerReplica"
    return result


def leader_set(lws: Obj, step: RolloutStep) -> Obj:
    """The StatefulSet whose pods are the leaders, at one step of a rollout."""
    template = leader_template(lws)
    metadata = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), NAME: name_of(lws), WORKER_INDEX: "0", REVISION: revision_of(lws)}
    annotations = {**(metadata.get("annotations") or {}), **_place_annotations(lws)}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": name_of(lws),
            "namespace": namespace_of(lws),
            "labels": {NAME: name_of(lws), REVISION: revision_of(lws)},
            "annotations": {REPLICAS: str(replicas_of(lws))},
            "ownerReferences": [owner_ref(lws)],
        },
        "spec": {
            "replicas": step.replicas,
            "serviceName": name_of(lws),
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {NAME: name_of(lws), WORKER_INDEX: "0"}},
            "updateStrategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"partition": step.partition},
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
    # What pods are labelled with says nothing of the set: a queue on them must not make the set one that is queued.
    place = {
        NAME: name_of(lws),
        GROUP_INDEX: str(group),
        GROUP_KEY: labels_of(leader).get(GROUP_KEY) or group_key(leader),
        REVISION: labels_of(leader).get(REVISION, ""),
    }
    labels = {**(metadata.get("labels") or {}), **place}
    annotations = {
        **(metadata.get("annotations") or {}),
        **_place_annotations(lws),
        LEADER_NAME: name_of(leader),
    }
    selector = {NAME: name_of(lws), GROUP_INDEX: str(group), GROUP_KEY: labels[GROUP_KEY]}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {
            "name": name_of(leader),
            "namespace": namespace_of(lws),
            "labels": place,
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
    return whole_number(name_of(leader).rpartition("-")[2]) or 0


def group_key(leader: Obj) -> str:
    return _key(namespace_of(leader), name_of(leader))


def plan_groups(
    lws: Obj,
    leaders: Sequence[Obj],
    workers: Mapping[str, Sequence[Obj]],
    sets: Mapping[str, Obj],
    now: float,
    revisions: Mapping[str, Obj],
) -> GroupPlan:
    """What to do about the groups.

    `workers` are pods by leader, `sets` worker StatefulSets by leader, `revisions` older templates by their hash.
    """
    waits = spec_of(lws).get("startupPolicy") == "LeaderReady"
    missing, recreate = [], []
    for leader in leaders:
        if is_deleting(leader):
            continue
        if size_of(lws) > 1 and name_of(leader) not in sets and (is_ready(leader) or not waits):
            missing.append(worker_set(as_of(lws, leader, revisions), leader))
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


def group_states(lws: Obj, leaders: Sequence[Obj], sets: Mapping[str, Obj], groups: int) -> Groups:
    """Every group by its number, as a rollout sees it."""
    wanted = revision_of(lws)
    states: dict[int, GroupState] = {}
    for leader in leaders:
        workers = sets.get(name_of(leader))
        if size_of(lws) > 1 and workers is None:
            continue
        members = [leader, *([workers] if workers is not None else [])]
        updated = all(labels_of(member).get(REVISION) == wanted for member in members)
        states[group_of(leader)] = GroupState(is_group_ready(lws, leader, sets), updated)
    return Groups(groups, states)


_SAID = {
    "Available": ("AllGroupsReady", "All replicas are ready"),
    "Progressing": ("GroupsProgressing", "Replicas are progressing"),
    "UpdateInProgress": ("GroupsUpdating", "Rolling Upgrade is in progress"),
}
"""Reason and message of each condition; upstream leaves them as they are when one becomes false."""


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
        wanted = {"Available": True, "Progressing": False, "UpdateInProgress": False}
    else:
        wanted = {"Progressing": True, "Available": False} | ({"UpdateInProgress": True} if outdated else {})
    for kind, value in wanted.items():
        if value or conditions.find(entries, kind) is not None:
            said = conditions.condition(kind, value, *_SAID[kind], observed_generation=generation_of(lws))
            entries = conditions.set_condition(entries, said, format_time(now))
    return {**status, "conditions": list(entries)}


def placed(pod: Obj, name: str) -> Obj:
    """A pod of a LeaderWorkerSet with its place among the others: labels, neighbours and environment.

    `name` is its final name.
    """
    labels, marks = dict(labels_of(pod)), annotations_of(pod)
    spec = dict(pod["spec"])
    if labels.get(WORKER_INDEX) == "0":
        labels.setdefault(GROUP_INDEX, name.rpartition("-")[2])
        labels.setdefault(GROUP_KEY, _key(namespace_of(pod), name))
        if marks.get(SUBDOMAIN_POLICY) == "UniquePerReplica":
            spec["subdomain"] = name
        subgroup = None if marks.get(SUBGROUP_TYPE) == "LeaderExcluded" else "0"
        leader = name
    else:
        labels[WORKER_INDEX] = name.rpartition("-")[2]
        subgroup = _subgroup(marks, int(labels[WORKER_INDEX]))
        leader = marks.get(LEADER_NAME, "")
    spec = exclusive(spec, GROUP_KEY, labels[GROUP_KEY], marks.get(EXCLUSIVE))
    if SUBGROUP_SIZE in marks and subgroup is not None:
        labels.setdefault(SUBGROUP_INDEX, subgroup)
        labels.setdefault(SUBGROUP_KEY, _key(leader, labels[SUBGROUP_INDEX]))
        spec = exclusive(spec, SUBGROUP_KEY, labels[SUBGROUP_KEY], marks.get(SUBGROUP_EXCLUSIVE))
    placed_pod = {**pod, "metadata": {**pod["metadata"], "labels": labels}, "spec": spec}
    return _with_variables(placed_pod)


def _key(*parts: str) -> str:
    return hashlib.sha1("/".join(parts).encode(), usedforsecurity=False).hexdigest()


def _subgroup(marks: Mapping[str, str], worker: int) -> str | None:
    """Which subgroup a worker is in; a leader that makes the numbers uneven is an extra in the first."""
    if SUBGROUP_SIZE not in marks:
        return None
    size, part = int(marks.get(SIZE, "1")), int(marks[SUBGROUP_SIZE])
    extra = (size - 1) % part == 0 and size % part != 0
    return str((worker - 1) // part if extra else worker // part)


def _with_variables(pod: Obj) -> Obj:
    labels, spec = labels_of(pod), dict(pod["spec"])
    lws = labels[NAME]
    leader = f"{lws}-{labels[GROUP_INDEX]}.{spec.get('subdomain') or lws}.{namespace_of(pod)}"
    values = {
        "LWS_LEADER_ADDRESS": leader,
        "LWS_GROUP_SIZE": str(annotations_of(pod).get(SIZE, "1")),
        "LWS_WORKER_INDEX": labels[WORKER_INDEX],
    }
    env = [{"name": key, "value": value} for key, value in values.items()]
    for field in ("containers", "initContainers"):
        if spec.get(field):
            spec[field] = [
                {**container, "env": [*env, *(e for e in container.get("env") or () if e["name"] not in values)]}
                for container in spec[field]
            ]
    return {**pod, "spec": spec}
