"""Conversion between v1beta1 (served, deprecated) and v1beta2 (stored) of the kinds whose fields differ.

Every function takes an object and the wanted version and returns a new object; fields without a counterpart are dropped,
as upstream's conversion does. Kinds not named here differ in their apiVersion only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from corral.kinds.kueue.names import GROUP, POD_PRIORITY_CLASS_GROUP, WORKLOAD_PRIORITY_CLASS_GROUP
from corral.kinds.kueue.topology_assignment import Domain, assignment_of, domains_of

Obj = dict[str, Any]
Part = Callable[[Obj], Obj]

_PRIORITY_SOURCES = {
    "kueue.x-k8s.io/workloadpriorityclass": (WORKLOAD_PRIORITY_CLASS_GROUP, "WorkloadPriorityClass"),
    "scheduling.k8s.io/priorityclass": (POD_PRIORITY_CLASS_GROUP, "PriorityClass"),
}
_PRIORITY_SOURCE_OF = {reference: source for source, reference in _PRIORITY_SOURCES.items()}


def _converter(up: dict[str, Part], down: dict[str, Part]) -> Callable[[Obj, str], Obj]:
    """A `KindDef.convert` from functions over the parts (spec, status) of an object."""

    def convert(obj: Obj, version: str) -> Obj:
        parts = down if version == "v1beta1" else up
        changed = {name: part(obj[name]) for name, part in parts.items() if isinstance(obj.get(name), dict)}
        return {**obj, **changed, "apiVersion": f"{GROUP}/{version}"}

    return convert


def _renamed(part: Obj, old: str, new: str) -> Obj:
    return {(new if name == old else name): value for name, value in part.items()}


def _without(part: Obj, *names: str) -> Obj:
    return {name: value for name, value in part.items() if name not in names}


# ClusterQueue


def _cluster_queue_spec_up(spec: Obj) -> Obj:
    result = _without(_renamed(spec, "cohort", "cohortName"), "admissionChecks")
    names = spec.get("admissionChecks")
    if names:
        result["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in names]}
    fungibility = spec.get("flavorFungibility")
    if fungibility:
        result["flavorFungibility"] = {
            name: "MayStopSearch" if value in ("Borrow", "Preempt") else value for name, value in fungibility.items()
        }
    return result


def _cluster_queue_spec_down(spec: Obj) -> Obj:
    return _without(_renamed(spec, "cohortName", "cohort"), "concurrentAdmissionPolicy")


convert_cluster_queue = _converter(
    {"spec": _cluster_queue_spec_up, "status": lambda status: _without(status, "pendingWorkloadsStatus")},
    {"spec": _cluster_queue_spec_down},
)


# LocalQueue

convert_local_queue = _converter(
    {"status": lambda status: _without(_renamed(status, "flavorUsage", "flavorsUsage"), "flavors")},
    {"status": lambda status: _renamed(status, "flavorsUsage", "flavorUsage")},
)


# AdmissionCheck

convert_admission_check = _converter({"spec": lambda spec: _without(spec, "retryDelayMinutes")}, {})


# MultiKueueConfig and MultiKueueCluster

convert_multi_kueue_config = _converter({}, {"spec": lambda spec: _without(spec, "quotaManagement")})


def _cluster_spec_up(spec: Obj) -> Obj:
    source = {name: spec[name] for name in ("kubeConfig", "clusterProfileRef") if spec.get(name) is not None}
    if source.get("kubeConfig") == {"location": "", "locationType": "Secret"} and "clusterProfileRef" in source:
        del source["kubeConfig"]
    return {**_without(spec, "kubeConfig", "clusterProfileRef"), "clusterSource": source}


def _cluster_spec_down(spec: Obj) -> Obj:
    return {**_without(spec, "clusterSource"), **(spec.get("clusterSource") or {})}


convert_multi_kueue_cluster = _converter({"spec": _cluster_spec_up}, {"spec": _cluster_spec_down})


# Workload


def _workload_spec_up(spec: Obj) -> Obj:
    result = _without(spec, "priorityClassName", "priorityClassSource")
    reference = _PRIORITY_SOURCES.get(spec.get("priorityClassSource", ""))
    if reference is not None:
        group, kind = reference
        result["priorityClassRef"] = {"group": group, "kind": kind, "name": spec.get("priorityClassName", "")}
    return result


def _workload_spec_down(spec: Obj) -> Obj:
    result = _without(spec, "priorityClassRef", "preemptionGates")
    reference = spec.get("priorityClassRef")
    if reference:
        source = _PRIORITY_SOURCE_OF.get((reference.get("group", ""), reference.get("kind", "")))
        if source is not None:
            result["priorityClassSource"] = source
            result["priorityClassName"] = reference.get("name", "")
    pod_sets = spec.get("podSets")
    if pod_sets and any("topologyRequest" in pod_set for pod_set in pod_sets):
        result["podSets"] = [_pod_set_down(pod_set) for pod_set in pod_sets]
    return result


def _pod_set_down(pod_set: Obj) -> Obj:
    request = pod_set.get("topologyRequest")
    if not request:
        return pod_set
    return {**pod_set, "topologyRequest": _without(request, "podsetSliceRequiredTopologyConstraints")}


def _workload_status_up(status: Obj) -> Obj:
    result = _renamed(status, "accumulatedPastExexcutionTimeSeconds", "accumulatedPastExecutionTimeSeconds")
    return _with_topologies(result, _topology_up)


def _workload_status_down(status: Obj) -> Obj:
    result = _renamed(status, "accumulatedPastExecutionTimeSeconds", "accumulatedPastExexcutionTimeSeconds")
    return _with_topologies(_without(result, "preemptionGates"), _topology_down)


def _with_topologies(status: Obj, change: Part) -> Obj:
    admission: Obj = status.get("admission") or {}
    assignments = admission.get("podSetAssignments") or []
    if not any(entry.get("topologyAssignment") for entry in assignments):
        return status
    changed = [
        {**entry, "topologyAssignment": change(entry["topologyAssignment"])}
        if entry.get("topologyAssignment")
        else entry
        for entry in assignments
    ]
    return {**status, "admission": {**admission, "podSetAssignments": changed}}


def _topology_up(assignment: Obj) -> Obj:
    domains = [Domain(tuple(entry["values"]), int(entry["count"])) for entry in assignment.get("domains") or []]
    return assignment_of(assignment.get("levels") or [], domains)


def _topology_down(assignment: Obj) -> Obj:
    domains = [{"values": list(domain.values), "count": domain.pods} for domain in domains_of(assignment)]
    return {"levels": assignment.get("levels") or [], "domains": domains}


convert_workload = _converter(
    {"spec": _workload_spec_up, "status": _workload_status_up},
    {"spec": _workload_spec_down, "status": _workload_status_down},
)
