"""What a cluster has now, for a simulation of what comes: its queues, what runs there and for how much longer, and what waits.

A job runs on for what its time leaves of it: what its pods say (corral.dev/run-seconds), the longest it may run, else what is
assumed; containers that run before it take a second. Volumes of claims are left out, for there are no disks in a simulation.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from corral.client.sync import SyncClient
from corral.core import conditions
from corral.core.errors import ApiError, NotFound
from corral.core.meta import (
    Obj,
    annotations_of,
    labels_of,
    name_of,
    namespace_of,
    owner_references_of,
    spec_of,
    status_of,
)
from corral.core.remote_pods import CLUSTER_LABEL
from corral.core.resource import Resource
from corral.core.timestamps import parse_time
from corral.inspect.lookup import find_resource
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.kinds.kubernetes.scheduling import PRIORITY_CLASSES
from corral.kinds.kueue import (
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    names,
)
from corral.node.node import NodeSpec
from corral.simulate.what_if.manifests import Manifests, Submission, submitted_kinds
from corral.submit.retrying import RETRY_OF, again, as_submitted
from corral.workload import workload as wl

RUN_SECONDS = "corral.dev/run-seconds"
STANDING = (
    NAMESPACES, PRIORITY_CLASSES, WORKLOAD_PRIORITY_CLASSES, TOPOLOGIES, RESOURCE_FLAVORS, COHORTS, CLUSTER_QUEUES, LOCAL_QUEUES,
)  # fmt: skip
BUILT_IN = ("system-cluster-critical", "system-node-critical")
WAITING_FROM_S = 1.0
"""What waits is submitted after what runs, which so has its quota again."""


@dataclass(frozen=True, slots=True)
class Live:
    """What was found. Jobs of `assumed` did not say how long they run; `left_out` could not be read."""

    manifests: Manifests
    running: int
    waiting: int
    assumed: int
    left_out: tuple[str, ...]


def read_live(client: SyncClient, now: float, assumed_s: float, workers: Collection[str] = ()) -> Live:
    """Everything a cluster queues, as if it were submitted now. What runs on one of the `workers` runs there in the simulation too."""
    manifests = Manifests(standing=[(_bare(resource, obj), "") for resource, obj in _standing(client)])
    running: list[tuple[float, Submission]] = []
    waiting: list[tuple[tuple[float, str], Submission]] = []
    assumed, left_out = 0, []
    for workload in client.list(WORKLOADS)["items"]:
        if wl.is_finished(workload) or not wl.is_active(workload):
            continue
        found = _job_of(client, workload)
        if isinstance(found, str):
            left_out.append(found)
            continue
        seconds = _expected(workload, found)
        assumed += seconds is None
        started = _started(workload)
        left = (assumed_s if seconds is None else seconds) - (now - started if started is not None else 0.0)
        cluster = str(status_of(workload).get("clusterName") or "")
        job = _lasting(found, max(1.0, left), cluster if started is not None and cluster in workers else "")
        if started is not None:
            running.append((started, Submission(job)))
        else:
            since = parse_time(str(workload["metadata"]["creationTimestamp"]))
            waiting.append(((since, name_of(workload)), Submission(job, WAITING_FROM_S)))
    running.sort(key=lambda one: one[0])
    waiting.sort(key=lambda one: one[0])
    manifests.jobs = [*(job for _, job in running), *(job for _, job in waiting)]
    return Live(manifests, len(running), len(waiting), assumed, tuple(left_out))


def node_of(node: Obj) -> NodeSpec:
    """A node as it would be simulated: what is wrong with it for a while is left out."""
    holds = status_of(node).get("allocatable") or status_of(node).get("capacity") or {}
    taints = [
        one for one in spec_of(node).get("taints") or () if not str(one.get("key")).startswith("node.kubernetes.io/")
    ]
    return NodeSpec(name_of(node), {name: str(value) for name, value in holds.items()}, labels_of(node), taints)


def _standing(client: SyncClient) -> Iterator[tuple[Resource, Obj]]:
    for resource in STANDING:
        try:
            found = client.list(resource)["items"]
        except NotFound:
            continue  # it has no objects of this kind
        yield from ((resource, obj) for obj in found if name_of(obj) not in BUILT_IN)


def _bare(resource: Resource, obj: Obj) -> Obj:
    """An object as somebody would write it. Checks of queues are left out: where jobs run is simulated, others say yes."""
    metadata = {key: obj["metadata"][key] for key in ("name", "namespace", "labels") if obj["metadata"].get(key)}
    spec = {
        key: value for key, value in spec_of(obj).items() if key not in ("admissionChecksStrategy", "admissionChecks")
    }
    rest = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata", "spec", "status")}
    bare = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **rest}
    return {**bare, "spec": spec} if "spec" in obj and resource.kind != "Namespace" else bare


def _job_of(client: SyncClient, workload: Obj) -> Obj | str:
    """The job of a Workload as it was submitted, or why it cannot be simulated."""
    owner: Obj = next(iter(owner_references_of(workload)), {})
    group = str(owner.get("apiVersion") or "").rpartition("/")[0]
    if (group, str(owner.get("kind"))) not in submitted_kinds():
        return f"Workload {name_of(workload)}: it has no job that can be simulated"
    try:
        resource = find_resource(client, f"{str(owner['kind']).lower()}.{group}" if group else str(owner["kind"]))
        if resource is None:
            return f"{owner['kind']} {owner['name']}: the cluster does not know its kind"
        job = client.get(resource, str(owner["name"]), namespace_of(workload))
    except ApiError as error:
        return f"{owner['kind']} {owner['name']}: {error}"
    typed = {**job, "apiVersion": str(owner["apiVersion"]), "kind": str(owner["kind"])}
    made = again(as_submitted(typed, workload), name_of(job))
    made["metadata"]["annotations"].pop(RETRY_OF, None)
    return made


def _started(workload: Obj) -> float | None:
    """When it was admitted, if it is."""
    if not wl.is_admitted(workload):
        return None
    return parse_time(str((conditions.find(workload, names.ADMITTED) or {})["lastTransitionTime"]))


def _expected(workload: Obj, job: Obj) -> float | None:
    """How long it runs in all, where that is known."""
    for _, metadata in _templates(job):
        text = annotations_of({"metadata": metadata}).get(RUN_SECONDS, "")
        if text.replace(".", "", 1).isdigit():
            return float(text)
    longest = spec_of(workload).get("maximumExecutionTimeSeconds") or spec_of(job).get("activeDeadlineSeconds")
    return float(longest) if longest else None


def _lasting(job: Obj, seconds: float, cluster: str = "") -> Obj:
    """The job with pods that run for so long, on nodes of that cluster."""
    body = copy.deepcopy(job)
    for spec, metadata in _templates(body):
        before = {f"{RUN_SECONDS}.{one['name']}": "1" for one in spec.get("initContainers") or ()}
        metadata["annotations"] = {**before, **(metadata.get("annotations") or {}), RUN_SECONDS: f"{seconds:g}"}
        if cluster:
            spec["nodeSelector"] = {**(spec.get("nodeSelector") or {}), CLUSTER_LABEL: cluster}
        for volume in spec.get("volumes") or ():
            if volume.pop("persistentVolumeClaim", None) is not None:
                volume["emptyDir"] = {}
    return body


def _templates(part: object) -> Iterator[tuple[Obj, Obj]]:
    """The specs of pods in a job, each with the metadata beside it; a Pod is its own."""
    if isinstance(part, dict):
        spec = part.get("spec")
        if isinstance(spec, dict) and isinstance(spec.get("containers"), list):
            yield spec, part.setdefault("metadata", {})
            return
        for value in part.values():
            yield from _templates(value)
    elif isinstance(part, list):
        for value in part:
            yield from _templates(value)
