"""Words for tables of what may be stored of the Kueue kinds, and how a row of such a table is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from corral.configuration.queueing import QueueingConfig
from corral.controllers.queueing.setup import Queueing
from corral.core.errors import ApiError
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.kinds.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    MULTI_KUEUE_CLUSTERS,
    MULTI_KUEUE_CONFIGS,
    WORKLOADS,
)
from corral.kinds.kueue.gates import FeatureGates
from corral.runtime.virtual import run_virtual
from corral.testing.cluster import VirtualCluster

CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
IMMUTABLE = "field is immutable"
RESERVED = [
    {
        "type": kind,
        "status": "True",
        "reason": kind,
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    for kind in ("QuotaReserved", "Admitted")
]
ADMISSION = {
    "clusterQueue": "cq",
    "podSetAssignments": [{"name": "main", "count": 1, "flavors": {"cpu": "f"}, "resourceUsage": {"cpu": "1"}}],
}

Start = tuple[Resource, Obj]


def pod_set(name: str = "main", count: int = 1, **more: Any) -> Obj:
    return {"name": name, "count": count, "template": TEMPLATE, **more}


def workload(*, annotations: Obj | None = None, **spec: Any) -> Start:
    metadata = {"name": "x", "namespace": "default", **({"annotations": annotations} if annotations else {})}
    return WORKLOADS, {"metadata": metadata, "spec": {"podSets": [pod_set()], "queueName": "lq", **spec}}


def cohort(**spec: Any) -> Start:
    return COHORTS, {"metadata": {"name": "x"}, "spec": spec}


def cluster_queue(*groups: Obj, **spec: Any) -> Start:
    return CLUSTER_QUEUES, {"metadata": {"name": "x"}, "spec": {"resourceGroups": list(groups or (group(),)), **spec}}


def quota(name: str = "cpu", **amounts: Any) -> Obj:
    return {"name": name, "nominalQuota": "5", **amounts}


def flavor(name: str = "f", *quotas: Obj) -> Obj:
    return {"name": name, "resources": list(quotas or [quota()])}


def group(*flavors: Obj, covered: tuple[str, ...] = ("cpu",)) -> Obj:
    return {"coveredResources": list(covered), "flavors": list(flavors or [flavor()])}


def check(**spec: Any) -> Start:
    return ADMISSION_CHECKS, {"metadata": {"name": "x"}, "spec": spec}


def parameters(**values: Any) -> Obj:
    return {
        "controllerName": "c",
        "parameters": {"apiGroup": "ref.api.group", "kind": "RefKind", "name": "ref", **values},
    }


def cluster(**source: Any) -> Start:
    return MULTI_KUEUE_CLUSTERS, {"metadata": {"name": "x"}, "spec": {"clusterSource": source} if source else {}}


def config(*clusters: str) -> Start:
    return MULTI_KUEUE_CONFIGS, {"metadata": {"name": "x"}, "spec": {"clusters": list(clusters)}}


@dataclass
class Change:
    """A stored object, its status, a merge patch and the answer."""

    start: Start
    patch: Obj
    want: str = ""
    status: Obj = field(default_factory=dict)
    subresource: str = ""
    gates: Mapping[str, bool] = field(default_factory=dict)


def make_cluster(gates: Mapping[str, bool] | None = None) -> VirtualCluster:
    queueing = Queueing(QueueingConfig(gates=FeatureGates(gates)))
    return VirtualCluster(plugins=queueing.plugins, lifecycle=False)


def check_create(start: Start, want: str, gates: Mapping[str, bool] | None = None) -> None:
    """Creating the object is refused with a text that has `want` in it, or is not refused when `want` is empty."""
    resource, obj = start

    async def main() -> str:
        async with make_cluster(gates) as cluster_:
            try:
                await cluster_.client.create(resource, obj)
            except ApiError as error:
                return error.message
            return ""

    _compare(run_virtual(main), want)


def check_change(change: Change) -> None:
    """The same for a change of a stored object."""
    resource, obj = change.start

    async def main() -> str:
        async with make_cluster(change.gates) as cluster_:
            created = await cluster_.client.create(resource, obj)
            if change.status:
                await cluster_.client.update(resource, {**created, "status": change.status}, subresource="status")
            namespace = obj["metadata"].get("namespace", "")
            try:
                await cluster_.client.patch(resource, "x", namespace, change.patch, subresource=change.subresource)
            except ApiError as error:
                return error.message
            return ""

    _compare(run_virtual(main), change.want)


def _compare(message: str, want: str) -> None:
    assert want in message
    assert bool(want) == bool(message)
