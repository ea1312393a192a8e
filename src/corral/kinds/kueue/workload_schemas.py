"""The schema of Workload: what was asked for, in pod sets, and how far admission has come."""

from __future__ import annotations

from typing import Any

from corral.kinds.kueue.shapes import (
    MAX_CLUSTERS,
    atomic,
    cel,
    choice,
    conditions,
    keyed,
    pod_set_name,
    subdomain,
    tolerations,
)
from corral.kinds.machinery import schemas as s
from corral.kinds.machinery.definition import Schema

POD_SETS_LIMIT = 18

_RESERVED = "status.conditions.exists(c, c.type == 'QuotaReserved' && c.status == 'True')"
_ADMITTED = "status.conditions.exists(c, c.type == 'Admitted' && c.status == 'True')"


def workload(version: str, pod_template: Schema) -> Schema:
    """The schema of Workload in `version`; `pod_template` is the schema of a Kubernetes pod template."""
    old = version == "v1beta1"
    return s.root(spec=_spec(old, pod_template), status=_status(old), rules=cel(*_workload_rules(old)))


def _holds(side: str, expression: str) -> str:
    """CEL: `side` has a status with conditions for which `expression` holds."""
    return f"has({side}.status) && has({side}.status.conditions) && {side}.{expression}"


def _workload_rules(old: bool) -> list[tuple[str, str]]:
    reserved_before = _holds("oldSelf", _RESERVED)
    stays_reserved = f"{reserved_before} && {_holds('self', _RESERVED)}"
    stays_admitted = f"{_holds('oldSelf', _ADMITTED)} && {_holds('self', _ADMITTED)}"
    queue_kept = (
        "has(self.spec.queueName) ? has(oldSelf.spec.queueName) && self.spec.queueName == oldSelf.spec.queueName"
        " : !has(oldSelf.spec.queueName)"
    )
    limit = "has({0}.spec.maximumExecutionTimeSeconds) ? {0}.spec.maximumExecutionTimeSeconds : 0"
    limit_kept = f"({limit.format('oldSelf')}) == ({limit.format('self')})"
    return [
        (
            "podSetAssignments must have the same number of podSets as the spec",
            "!has(self.status) || !has(self.status.admission) || "
            "size(self.spec.podSets) == size(self.status.admission.podSetAssignments) || "
            f"!({_holds('self', _RESERVED)})",
        ),
        *(_old_priority_rules(reserved_before) if old else _priority_rules(reserved_before)),
        ("queueName is immutable while workload quota reserved", f"({queue_kept}) || !({stays_reserved})"),
        (
            "maximumExecutionTimeSeconds is immutable while workload quota reserved",
            f"{limit_kept} || !({stays_admitted})",
        ),
    ]


def _priority_rules(reserved: str) -> list[tuple[str, str]]:
    # What is cheap and nearly always true comes first: conditions are searched only when something did change.
    absent = "!has(oldSelf.spec.priorityClassRef) || !has(self.spec.priorityClassRef)"
    same = "oldSelf.spec.priorityClassRef.{0} == self.spec.priorityClassRef.{0}"
    is_pod_class = (
        "self.spec.priorityClassRef.group == 'scheduling.k8s.io' && self.spec.priorityClassRef.kind == 'PriorityClass'"
    )
    return [
        (
            "priorityClassRef is immutable while workload quota reserved",
            f"has(oldSelf.spec.priorityClassRef) == has(self.spec.priorityClassRef) || !({reserved})",
        ),
        (
            "priorityClassRef.group is immutable while workload quota reserved",
            f"{absent} || {same.format('group')} || !({reserved})",
        ),
        (
            "priorityClassRef.kind is immutable while workload quota reserved",
            f"{absent} || {same.format('kind')} || !({reserved})",
        ),
        (
            "priorityClassRef.name is immutable for scheduling.k8s.io/priorityclass while workload quota reserved",
            f"{absent} || {same.format('name')} || !({is_pod_class}) || !({reserved})",
        ),
    ]


def _old_priority_rules(reserved: str) -> list[tuple[str, str]]:
    both = f"{reserved} && has(oldSelf.spec.priorityClassSource) && has(self.spec.priorityClassSource)"
    named = (
        f"{both} && self.spec.priorityClassSource != 'kueue.x-k8s.io/workloadpriorityclass'"
        " && has(oldSelf.spec.priorityClassName) && has(self.spec.priorityClassName)"
    )
    return [
        (
            "priorityClassSource is immutable while workload quota reserved",
            f"!({both}) || oldSelf.spec.priorityClassSource == self.spec.priorityClassSource",
        ),
        (
            "priorityClassName is immutable while workload quota reserved and priorityClassSource is not equal to "
            "kueue.x-k8s.io/workloadpriorityclass",
            f"!({named}) || oldSelf.spec.priorityClassName == self.spec.priorityClassName",
        ),
    ]


def _spec(old: bool, pod_template: Schema) -> Schema:
    fields: dict[str, Schema] = {
        "active": s.boolean(default=True),
        "maximumExecutionTimeSeconds": s.integer(minimum=1),
        "podSets": keyed(_pod_set(old, pod_template), "name", min_items=1, max_items=POD_SETS_LIMIT),
        "priority": s.integer(),
        "queueName": subdomain(),
    }
    if old:
        fields["priorityClassName"] = subdomain()
        fields["priorityClassSource"] = choice(
            "kueue.x-k8s.io/workloadpriorityclass", "scheduling.k8s.io/priorityclass", "", default=""
        )
        needs = ("priority should not be nil when priorityClassName is set", "!has(self.priorityClassName)")
    else:
        gate = s.obj({"name": s.string(max_length=63, min_length=1)}, required=("name",))
        fields["preemptionGates"] = keyed(gate, "name", max_items=8)
        fields["priorityClassRef"] = _priority_class_ref()
        needs = ("priority should not be nil when priorityClassRef is set", "!has(self.priorityClassRef)")
    checks = cel((needs[0], f"{needs[1]} || has(self.priority)"))
    return s.obj(fields, required=("podSets",) if old else (), rules=checks)


def _priority_class_ref() -> Schema:
    checks = cel(
        (
            "only the PriorityClass kind is allowed for the scheduling.k8s.io group",
            "self.group != 'scheduling.k8s.io' || self.kind == 'PriorityClass'",
        ),
        (
            "only the WorkloadPriorityClass kind is allowed for the kueue.x-k8s.io group",
            "self.group != 'kueue.x-k8s.io' || self.kind == 'WorkloadPriorityClass'",
        ),
    )
    return s.obj(
        {
            "group": choice("kueue.x-k8s.io", "scheduling.k8s.io"),
            "kind": choice("WorkloadPriorityClass", "PriorityClass"),
            "name": subdomain(min_length=1),
        },
        required=("group", "kind", "name"),
        rules=checks,
    )


def _pod_set(old: bool, pod_template: Schema) -> Schema:
    checks = cel(
        (
            "minCount should be positive and less or equal to count",
            "!has(self.minCount) || self.minCount <= self.count",
        )
    )
    return s.obj(
        {
            "count": s.integer(default=1, minimum=0),
            "minCount": s.integer(minimum=1),
            "name": pod_set_name(default="main"),
            "template": pod_template,
            "topologyRequest": _topology_request(old),
        },
        required=("count", "template") if old else ("template",),
        rules=checks,
    )


def _topology_request(old: bool) -> Schema:
    def limited(limit: int) -> Schema:
        return s.string() if old else s.string(max_length=limit)

    fields: dict[str, Schema] = {
        "podIndexLabel": limited(317),
        "podSetGroupName": limited(256),
        "podSetSliceRequiredTopology": limited(63),
        "podSetSliceSize": s.integer(minimum=1),
        "preferred": limited(63),
        "required": limited(63),
        "subGroupCount": s.integer(),
        "subGroupIndexLabel": limited(317),
        "unconstrained": s.boolean(),
    }
    if not old:
        constraint = s.obj(
            {"size": s.integer(minimum=1), "topology": s.string(max_length=63, min_length=1)},
            required=("size", "topology"),
        )
        fields["podsetSliceRequiredTopologyConstraints"] = atomic(constraint, max_items=3)
    return s.obj(fields)


def _status(old: bool) -> Schema:
    past = "accumulatedPastExexcutionTimeSeconds" if old else "accumulatedPastExecutionTimeSeconds"
    checks = cel(
        (
            "clusterName is immutable once set",
            "!has(oldSelf.clusterName) || !has(self.clusterName) || oldSelf.clusterName == self.clusterName",
        ),
        (
            "clusterName and nominatedClusterNames are mutually exclusive",
            "!has(self.clusterName) || !has(self.nominatedClusterNames) || size(self.nominatedClusterNames) == 0",
        ),
    )
    cluster_name: dict[str, Any] = {} if old else {"max_length": 256}
    fields = {
        past: s.integer(),
        "admission": _admission(old),
        "admissionChecks": keyed(_admission_check_state(old), "name", max_items=8),
        "clusterName": s.string(**cluster_name),
        "conditions": conditions(old),
        "nominatedClusterNames": atomic(s.string(**cluster_name), max_items=MAX_CLUSTERS),
        **({} if old else {"preemptionGates": _gate_states()}),
        "reclaimablePods": keyed(
            s.obj({"count": s.integer(minimum=0), "name": pod_set_name()}, required=("count", "name")),
            "name",
            max_items=POD_SETS_LIMIT,
        ),
        "requeueState": s.obj({"count": s.integer(minimum=0), "requeueAt": s.time()}),
        "resourceRequests": keyed(
            s.obj({"name": pod_set_name(), "resources": s.resource_list()}, required=("name",)),
            "name",
            max_items=POD_SETS_LIMIT,
        ),
        "schedulingStats": _scheduling_stats(old),
        "unhealthyNodes": _unhealthy_nodes(old),
    }
    return s.obj(fields, rules=checks)


def _gate_states() -> Schema:
    gate = s.obj(
        {
            "lastTransitionTime": s.time(),
            "name": s.string(max_length=63, min_length=1),
            "position": choice("Closed", "Open"),
        },
        required=("lastTransitionTime", "name", "position"),
    )
    return keyed(gate, "name", max_items=8)


def _scheduling_stats(old: bool) -> Schema:
    eviction = s.obj(
        {
            "count": s.integer(minimum=0),
            "reason": s.string(max_length=316),
            "underlyingCause": s.string(max_length=316),
        },
        required=("count", "reason", "underlyingCause"),
    )
    bounded = {} if old else {"max_items": 256}
    return s.obj({"evictions": keyed(eviction, "reason", "underlyingCause", **bounded)})


def _unhealthy_nodes(old: bool) -> Schema:
    if old:
        return s.array(s.obj({"name": s.string()}, required=("name",)))
    return keyed(s.obj({"name": s.string(max_length=63)}, required=("name",)), "name", max_items=8)


def _admission(old: bool) -> Schema:
    delayed = s.string() if old else choice("Pending", "Ready", max_length=7)
    assignment = s.obj(
        {
            "count": s.integer(minimum=0),
            "delayedTopologyRequest": delayed,
            "flavors": s.mapping(subdomain()),
            "name": pod_set_name(default="main"),
            "resourceUsage": s.resource_list(),
            "topologyAssignment": _old_topology_assignment() if old else _topology_assignment(),
        },
        required=("name",) if old else (),
    )
    return s.obj(
        {
            "clusterQueue": subdomain(),
            "podSetAssignments": keyed(assignment, "name", max_items=POD_SETS_LIMIT),
        },
        required=("clusterQueue", "podSetAssignments") if old else (),
    )


def _old_topology_assignment() -> Schema:
    domain = s.obj(
        {"count": s.integer(minimum=1), "values": atomic(s.string(), min_items=1, max_items=16)},
        required=("count", "values"),
    )
    levels = atomic(s.string(), min_items=1, max_items=16)
    return s.obj({"domains": s.array(domain), "levels": levels}, required=("domains", "levels"))


def _topology_assignment() -> Schema:
    exactly_one = cel(
        (
            "exactly one of the fields in [universal individual] must be set",
            "has(self.universal) != has(self.individual)",
        )
    )
    individual_values = s.obj(
        {
            "prefix": s.string(max_length=63),
            "roots": atomic(s.string(max_length=63), min_items=1, max_items=100000),
            "suffix": s.string(max_length=63),
        },
        required=("roots",),
    )
    values = s.obj(
        {"individual": individual_values, "universal": s.string(max_length=63)},
        rules=exactly_one,
    )
    pod_counts = s.obj(
        {
            "individual": atomic(s.integer(minimum=1), min_items=1, max_items=100000),
            "universal": s.integer(minimum=1),
        },
        rules=exactly_one,
    )
    sizes = cel(
        (
            "podCounts.individual must have length equal to domainCount",
            "!has(self.podCounts.individual) || self.domainCount == size(self.podCounts.individual)",
        ),
        (
            "valuesPerLevel.individual, if set, must have roots of length equal to domainCount of this "
            "TopologyAssignmentSlice",
            "self.valuesPerLevel.all(v, !has(v.individual) || self.domainCount == size(v.individual.roots))",
        ),
    )
    piece = s.obj(
        {
            "domainCount": s.integer(minimum=1),
            "podCounts": pod_counts,
            "valuesPerLevel": atomic(values, min_items=1, max_items=16),
        },
        required=("domainCount", "podCounts", "valuesPerLevel"),
        rules=sizes,
    )
    depth = cel(
        (
            "valuesPerLevel must have the same length as the number of levels in this TopologyAssignment",
            "self.slices.all(s, size(self.levels) == size(s.valuesPerLevel))",
        )
    )
    return s.obj(
        {
            "levels": atomic(s.string(max_length=317), min_items=1, max_items=16),
            "slices": atomic(piece, max_items=1000),
        },
        required=("levels", "slices"),
        rules=depth,
    )


def _admission_check_state(old: bool) -> Schema:
    filled = {} if old else {"min_length": 1}
    update = s.obj(
        {
            "annotations": s.mapping(s.string()),
            "labels": s.mapping(s.string()),
            "name": pod_set_name(),
            "nodeSelector": s.mapping(s.string()),
            "tolerations": tolerations(list_type=None if old else "atomic"),
        },
        required=("name",),
    )
    return s.obj(
        {
            "lastTransitionTime": s.time(),
            "message": s.string(max_length=32768),
            "name": s.string(max_length=316, **filled),
            "podSetUpdates": atomic(update, max_items=POD_SETS_LIMIT),
            "requeueAfterSeconds": s.integer(minimum=0),
            "retryCount": s.integer(minimum=0),
            "state": choice("Pending", "Ready", "Retry", "Rejected"),
        },
        required=("lastTransitionTime", "message", "name", "state"),
    )
