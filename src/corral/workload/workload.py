"""Workloads: their names, how one is made from a job, and how far it has come.

Pure functions shared by queueing, which moves a Workload through its life, and dispatch, which mirrors it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha1

from corral.core import conditions
from corral.core.meta import (
    Key,
    Obj,
    annotations_of,
    controller_of,
    labels_of,
    name_of,
    namespace_of,
    owner_ref,
    spec_of,
    status_of,
    uid_of,
)
from corral.core.names import check_label_value
from corral.kinds.kueue import names
from corral.workload.podsets import PodSet

MAX_NAME = 253
MAX_CONDITION_MESSAGE = 32768
_HASH_LENGTH = 5


def workload_name(kind: str, group: str, owner: str, uid: str, *extra: str, limit: int = MAX_NAME) -> str:
    """The name of the Workload of an owner: readable, and unique through a hash of what identifies the owner."""
    text = "\n".join((kind, group, owner, uid, *extra))
    digest = sha1(text.encode(), usedforsecurity=False).hexdigest()[:_HASH_LENGTH]
    prefix = f"{kind.lower()}-{owner}"[: limit - _HASH_LENGTH - 1]
    return f"{prefix}-{digest}"


def new_workload(
    job: Obj,
    name: str,
    pod_sets: Sequence[PodSet],
    *,
    queue: str,
    priority: int,
    priority_ref: Obj | None = None,
    max_execution_time: int | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Obj:
    """The Workload to create for `job`."""
    uid = uid_of(job)
    own_labels = {names.JOB_UID: uid} if uid and not check_label_value(uid) else {}
    metadata: Obj = {
        "name": name,
        "namespace": namespace_of(job),
        "labels": {**(labels or {}), **own_labels},
        "finalizers": [names.RESOURCE_IN_USE],
        "ownerReferences": [owner_ref(job)],
    }
    if annotations:
        metadata["annotations"] = dict(annotations)
    spec: Obj = {
        "podSets": [pod_set.to_obj() for pod_set in pod_sets],
        "queueName": queue,
        "priority": priority,
        "active": True,
    }
    if not queue:
        del spec["queueName"]
    if priority_ref is not None:
        spec["priorityClassRef"] = priority_ref
    if max_execution_time is not None:
        spec["maximumExecutionTimeSeconds"] = max_execution_time
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": metadata, "spec": spec}


def copied_annotations(job: Obj, keys: Iterable[str] = ()) -> dict[str, str]:
    """Annotations of a job that its Workload carries too: those that mean something to queueing, and `keys`."""
    wanted = (names.ADMISSION_GATED_BY, *keys)
    return {
        name: value
        for name, value in annotations_of(job).items()
        if name in wanted or name.startswith(names.PROVISIONING_ANNOTATION_PREFIX)
    }


def copied_labels(job: Obj, keys: Iterable[str]) -> dict[str, str]:
    held = labels_of(job)
    return {key: held[key] for key in keys if key in held}


# How far a Workload has come


def has_quota(workload: Obj) -> bool:
    return conditions.is_true(workload, names.QUOTA_RESERVED)


def is_admitted(workload: Obj) -> bool:
    return conditions.is_true(workload, names.ADMITTED)


def is_finished(workload: Obj) -> bool:
    return conditions.is_true(workload, names.FINISHED)


def is_evicted(workload: Obj) -> bool:
    return conditions.is_true(workload, names.EVICTED)


def is_active(workload: Obj) -> bool:
    return spec_of(workload).get("active") is not False


def phase(workload: Obj) -> str:
    """finished, admitted, quotaReserved or pending."""
    if is_finished(workload):
        return "finished"
    if is_admitted(workload):
        return "admitted"
    return "quotaReserved" if has_quota(workload) else "pending"


def queue_of(workload: Obj) -> str:
    return str(spec_of(workload).get("queueName") or "")


def local_queue_key(workload: Obj) -> Key:
    return Key(namespace_of(workload), queue_of(workload))


def admission_of(workload: Obj) -> Obj:
    return status_of(workload).get("admission") or {}


def cluster_queue_of(workload: Obj) -> str:
    """The ClusterQueue that holds its reservation, or empty."""
    return str(admission_of(workload).get("clusterQueue") or "")


def pod_sets_of(workload: Obj) -> list[Obj]:
    return spec_of(workload).get("podSets") or []


def check_states_of(workload: Obj) -> list[Obj]:
    return status_of(workload).get("admissionChecks") or []


def is_elastic(obj: Obj) -> bool:
    return annotations_of(obj).get(names.ELASTIC_JOB) == "true"


def slice_name(workload: Obj) -> str:
    """The name of the first of the slices an elastic job has had: its pods go by it, whichever slice they run under."""
    return annotations_of(workload).get(names.WORKLOAD_SLICE_NAME) or name_of(workload)


def scaled_down(workload: Obj) -> frozenset[str]:
    """The pod sets of an elastic workload that are smaller now than what they were admitted with."""
    if not is_elastic(workload):
        return frozenset()
    sizes = {entry.get("name", "main"): int(entry.get("count", 1)) for entry in pod_sets_of(workload)}
    assigned = admission_of(workload).get("podSetAssignments") or []
    granted = {entry.get("name", "main"): int(entry.get("count") or 0) for entry in assigned}
    return frozenset(name for name, count in granted.items() if count > sizes.get(name, 0))


def is_single_pod(workload: Obj) -> bool:
    """Whether a plain Pod owns it, which cannot be run a second time."""
    reference = controller_of(workload)
    is_pod = reference is not None and reference.get("kind") == "Pod" and reference.get("apiVersion") == "v1"
    return is_pod and names.IS_GROUP_WORKLOAD not in annotations_of(workload)


def truncated(message: str, limit: int = MAX_CONDITION_MESSAGE) -> str:
    """`message` cut to what the API accepts."""
    return message if len(message) <= limit else message[: limit - 4] + " ..."
