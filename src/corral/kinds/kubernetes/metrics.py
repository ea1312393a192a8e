"""metrics.k8s.io/v1beta1: usage of nodes and pods, read-only and computed by whoever serves it."""

from __future__ import annotations

from corral.kinds.machinery import schemas as s
from corral.kinds.machinery.definition import KindDef, VersionDef

GROUP = "metrics.k8s.io"
_READ = ("get", "list")


def _usage() -> s.Schema:
    return {"timestamp": s.time(), "window": s.duration(), "usage": s.resource_list()}


def _node_schema() -> s.Schema:
    return s.root(more=_usage())


def _pod_schema() -> s.Schema:
    container = s.obj({"name": s.string(), "usage": s.resource_list()})
    return s.root(more={"timestamp": s.time(), "window": s.duration(), "containers": s.array(container)})


NODE_METRICS = KindDef(
    group=GROUP,
    kind="NodeMetrics",
    plural="nodes",
    singular="",
    namespaced=False,
    verbs=_READ,
    has_generation=False,
    versions=(VersionDef("v1beta1", schema=_node_schema),),
)
POD_METRICS = KindDef(
    group=GROUP,
    kind="PodMetrics",
    plural="pods",
    singular="",
    verbs=_READ,
    has_generation=False,
    versions=(VersionDef("v1beta1", schema=_pod_schema),),
)

KINDS = (NODE_METRICS, POD_METRICS)
