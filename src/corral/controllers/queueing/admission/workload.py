"""Rules of Workloads beyond their schema: what may be in a pod set, and what may change in which phase."""

from __future__ import annotations

from collections.abc import Iterator

from corral.controllers.queueing.admission.flavor import validate_tolerations
from corral.controllers.queueing.admission.gated_by import validate_gates, validate_gates_update
from corral.core.errors import Cause
from corral.core.meta import Obj, annotations_of, labels_of, spec_of, status_of
from corral.core.quantity import Quantity
from corral.core.validation import (
    check_annotations,
    check_labels,
    child,
    forbidden,
    index,
    invalid,
    keyed,
    not_found,
    not_supported,
    required,
)
from corral.kinds.kueue import names
from corral.kinds.kueue.gates import FeatureGates
from corral.workload import workload as wl

IMMUTABLE = "field is immutable"
RESERVED_KEY = "the key is reserved for internal kueue use"


def workload_warnings(workload: Obj) -> Iterator[str]:
    """What is accepted in a Workload, but not for long any more."""
    for at, pod_set in enumerate(spec_of(workload).get("podSets") or ()):
        count = (pod_set.get("topologyRequest") or {}).get("subGroupCount")
        if count is not None and count < 0:
            path = f"spec.podSets[{at}].topologyRequest.subGroupCount"
            yield f"{path}: negative value {count} is deprecated and will be rejected in a future release"


def validate_workload(workload: Obj, old: Obj | None, gates: FeatureGates) -> list[Cause]:
    """What is wrong with a Workload as it is; `old` is its previous state, None for a new one."""
    causes: list[Cause] = []
    if old is None or spec_of(workload) != spec_of(old):
        causes += _pod_sets(workload, gates)
    if wl.has_quota(workload):
        causes += _admission(workload, old)
    causes += _reclaimable(workload, old)
    causes += _check_states(workload)
    if gates["AdmissionGatedBy"]:
        causes += validate_gates(workload) if old is None else validate_gates_update(workload, old)
    if gates["PriorityBoost"]:
        causes += _priority_boost(workload)
    return causes


def validate_workload_update(new: Obj, old: Obj, gates: FeatureGates) -> list[Cause]:
    """What is wrong with the change from `old` to `new`."""
    causes = validate_workload(new, old, gates)
    if wl.has_quota(old):
        causes += _immutable_pod_sets(new, old, gates)
        if wl.has_quota(new):
            causes += _reclaimable_update(new, old)
    causes += _admission_update(new, old)
    causes += _immutable_updates(new, old)
    causes += _cluster_name(new, old, gates)
    return causes


# Pod sets


def _pod_sets(workload: Obj, gates: FeatureGates) -> list[Cause]:
    causes: list[Cause] = []
    variable = 0
    for position, pod_set in enumerate(wl.pod_sets_of(workload)):
        causes += _pod_set(pod_set, index("spec.podSets", position), gates)
        variable += pod_set.get("minCount") is not None
    if variable > 1:
        causes.append(invalid("spec.podSets", variable, "at most one podSet can use minCount"))
    if variable and wl.is_elastic(workload) and gates["ElasticJobsViaWorkloadSlices"]:
        text = "partial admission and elastic job cannot be used together"
        causes.append(invalid("spec.podSets", variable, text))
    return causes


def _pod_set(pod_set: Obj, path: str, gates: FeatureGates) -> list[Cause]:
    template = pod_set.get("template") or {}
    spec = spec_of(template)
    spec_path = f"{path}.template.spec"
    causes: list[Cause] = []
    if gates["WorkloadValidationForPodSetMetadata"]:
        causes += check_labels(f"{path}.template.metadata.labels", labels_of(template))
        causes += check_annotations(f"{path}.template.metadata.annotations", annotations_of(template))
    for kind in ("initContainers", "containers"):
        for position, container in enumerate(spec.get(kind) or []):
            causes += _resources(container, index(f"{spec_path}.{kind}", position), gates)
    causes += _resources(spec, spec_path, gates)
    if gates["TASValidateWorkloadSliceSize"]:
        causes += _slices(pod_set.get("topologyRequest") or {}, f"{path}.topologyRequest")
    return causes


def _resources(part: Obj, path: str, gates: FeatureGates) -> list[Cause]:
    causes: list[Cause] = []
    for kind in ("requests", "limits"):
        for name, amount in ((part.get("resources") or {}).get(kind) or {}).items():
            where = keyed(f"{path}.resources.{kind}", name)
            if name == "pods":
                causes.append(invalid(where, "pods", RESERVED_KEY))
            quantity = Quantity.parse(amount)
            if quantity.nanos < 0 and gates["WorkloadValidateResourcesAreNonNegative"]:
                causes.append(invalid(where, str(quantity), "must be greater than or equal to 0"))
    return causes


def _slices(request: Obj, path: str) -> list[Cause]:
    causes: list[Cause] = []
    topology, size = request.get("podSetSliceRequiredTopology"), request.get("podSetSliceSize")
    where = child(path, "podSetSliceSize")
    if topology is not None:
        if size is None:
            causes.append(required(where, "must be set when podSetSliceRequiredTopology is specified"))
        elif size <= 0:
            causes.append(invalid(where, size, "must be greater than 0"))
    elif size is not None:
        causes.append(forbidden(where, "may not be set when podSetSliceRequiredTopology is not specified"))
    layers = child(path, "podsetSliceRequiredTopologyConstraints")
    for position, layer in enumerate(request.get("podsetSliceRequiredTopologyConstraints") or []):
        if layer.get("size", 0) <= 0:
            causes.append(invalid(child(index(layers, position), "size"), layer.get("size"), "must be greater than 0"))
    return causes


def _immutable_pod_sets(new: Obj, old: Obj, gates: FeatureGates) -> list[Cause]:
    after, before = wl.pod_sets_of(new), wl.pod_sets_of(old)
    if after == before:
        return []
    if len(after) != len(before):
        return [invalid("spec.podSets", after, IMMUTABLE)]
    causes = []
    for position, (pod_set, previous) in enumerate(zip(after, before, strict=True)):
        shrinks = gates["ElasticJobsViaWorkloadSlices"] and pod_set.get("count", 1) < previous.get("count", 1)
        compared = {**pod_set, "count": previous.get("count", 1)} if shrinks else pod_set
        if compared != previous:
            causes.append(invalid(f"spec.podSets.{position}", pod_set, IMMUTABLE))
    return causes


# Admission


def _reserves_nothing(workload: Obj | None) -> bool:
    return workload is not None and wl.has_quota(workload) and not status_of(workload).get("admission")


def _admission(workload: Obj, old: Obj | None) -> list[Cause]:
    if _reserves_nothing(workload):
        # An object that is in this state already must stay deletable.
        if _reserves_nothing(old):
            return []
        return [required("status.admission", "must be set while the QuotaReserved condition is true")]
    known = {pod_set.get("name", "main") for pod_set in wl.pod_sets_of(workload)}
    causes: list[Cause] = []
    for position, entry in enumerate(wl.admission_of(workload).get("podSetAssignments") or []):
        path = index("status.admission.podSetAssignments", position)
        if entry.get("name", "main") not in known:
            causes.append(not_found(child(path, "name"), entry.get("name")))
        count = int(entry.get("count") or 0)
        for name, amount in (entry.get("resourceUsage") or {}).items() if count > 0 else ():
            quantity = Quantity.parse(amount)
            total = quantity.milli if name == "cpu" else quantity.value
            if total % count:
                where = keyed(child(path, "resourceUsage"), name)
                causes.append(invalid(where, str(quantity), f"is not a multiple of {count}"))
    return causes


def _admission_update(new: Obj, old: Obj) -> list[Cause]:
    after, before = status_of(new).get("admission"), status_of(old).get("admission")
    if not after or not before or after == before or _frozen(after) == _frozen(before):
        return []
    return [invalid("status.admission", after, IMMUTABLE)]


def _frozen(admission: Obj) -> tuple[str, list[Obj]]:
    """What of an admission may not change while it is set."""
    free = ("topologyAssignment", "delayedTopologyRequest")
    entries = admission.get("podSetAssignments") or []
    return str(admission.get("clusterQueue")), [
        {name: value for name, value in entry.items() if name not in free} for entry in entries
    ]


def _cluster_name(new: Obj, old: Obj, gates: FeatureGates) -> list[Cause]:
    replaces = names.WORKLOAD_SLICE_REPLACEMENT_FOR in annotations_of(new)
    if gates["ElasticJobsViaWorkloadSlices"] and replaces:
        return []
    name = status_of(new).get("clusterName")
    if name is None or status_of(old).get("clusterName") is not None:
        return []
    if name in (status_of(old).get("nominatedClusterNames") or []):
        return []
    text = "when setting clusterName it must be one of the nominatedClusterNames"
    return [invalid("status.clusterName", name, text)]


# Reclaimable pods


def _counts(workload: Obj) -> dict[str, int]:
    return {entry["name"]: int(entry["count"]) for entry in status_of(workload).get("reclaimablePods") or []}


def _reclaimable(workload: Obj, old: Obj | None) -> list[Cause]:
    counts = _counts(workload)
    if not counts:
        return []
    sizes = {pod_set.get("name", "main"): int(pod_set.get("count", 1)) for pod_set in wl.pod_sets_of(workload)}
    before = _counts(old) if old is not None else {}
    causes: list[Cause] = []
    for name, count in counts.items():
        path = keyed("status.reclaimablePods", name)
        if name not in sizes:
            causes.append(not_supported(child(path, "name"), name, list(sizes)))
        elif count > sizes[name] and not (wl.is_elastic(workload) and before.get(name) == count):
            causes.append(invalid(child(path, "count"), count, f"should be less or equal to {sizes[name]}"))
    return causes


def _reclaimable_update(new: Obj, old: Obj) -> list[Cause]:
    """While quota is held the counts only grow, except where an elastic workload was scaled down."""
    after, before = _counts(new), _counts(old)
    if after == before:
        return []
    free = wl.scaled_down(new)
    causes: list[Cause] = []
    for name, count in before.items():
        path = keyed("status.reclaimablePods", name)
        if name in free:
            continue
        if name not in after:
            causes.append(required(path, "cannot be removed"))
        elif after[name] < count:
            causes.append(invalid(child(path, "count"), after[name], f"cannot be less than {count}"))
    return causes


# Admission checks


def _check_states(workload: Obj) -> list[Cause]:
    if not any(state.get("podSetUpdates") for state in wl.check_states_of(workload)):
        return []
    known = {pod_set.get("name", "main") for pod_set in wl.pod_sets_of(workload)}
    causes: list[Cause] = []
    for position, state in enumerate(wl.check_states_of(workload)):
        path = child(index("status.admissionChecks", position), "podSetUpdates")
        for place, update in enumerate(state.get("podSetUpdates") or []):
            where = index(path, place)
            if update["name"] not in known:
                causes.append(not_supported(child(where, "name"), update["name"], sorted(known)))
            causes += check_labels(child(where, "labels"), update.get("labels"))
            causes += check_annotations(child(where, "annotations"), update.get("annotations"))
            causes += check_labels(child(where, "nodeSelector"), update.get("nodeSelector"))
            causes += validate_tolerations(child(where, "tolerations"), update.get("tolerations") or [])
    return causes


def _immutable_updates(new: Obj, old: Obj) -> list[Cause]:
    before = {state["name"]: state for state in wl.check_states_of(old)}
    causes: list[Cause] = []
    for position, state in enumerate(wl.check_states_of(new)):
        previous = before.get(state["name"])
        if previous is None or state.get("state") != names.READY or previous.get("state") != names.READY:
            continue
        if (state.get("podSetUpdates") or []) != (previous.get("podSetUpdates") or []):
            path = child(index("status.admissionChecks", position), "podSetUpdates")
            causes.append(invalid(path, state.get("podSetUpdates"), IMMUTABLE))
    return causes


def _priority_boost(workload: Obj) -> list[Cause]:
    value = annotations_of(workload).get(names.PRIORITY_BOOST)
    path = keyed("metadata.annotations", names.PRIORITY_BOOST)
    if value == "":
        text = 'must be a valid signed integer; use "0" explicitly, empty string is not allowed'
        return [invalid(path, value, text)]
    if value is None:
        return []
    try:
        int(value)
    except ValueError:
        return [invalid(path, value, "must be a valid signed integer")]
    return []
