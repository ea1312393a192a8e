"""Schemas of what quota is made of: ClusterQueue, LocalQueue, Cohort, ResourceFlavor and Topology."""

from __future__ import annotations

from corral.kinds.kueue.shapes import (
    QUALIFIED_NAME_PATTERN,
    admission_fair_sharing_status,
    atomic,
    cel,
    choice,
    conditions,
    fair_sharing,
    flavor_usage,
    keyed,
    resource_groups,
    subdomain,
    taints,
    tolerations,
)
from corral.kinds.machinery import schemas as s
from corral.kinds.machinery.definition import Schema

FLAVORS_LIMIT = 256


def cluster_queue(version: str) -> Schema:
    """The schema of ClusterQueue in `version`."""
    old = version == "v1beta1"
    cohort = "cohort" if old else "cohortName"
    no_limit_without_cohort = cel(
        (
            "borrowingLimit must be nil when cohort is empty",
            f"has(self.{cohort}) || !has(self.resourceGroups) || self.resourceGroups.all(g, "
            "g.flavors.all(f, f.resources.all(r, !has(r.borrowingLimit))))",
        )
    )
    spec = {
        **({"admissionChecks": s.array(s.string(max_length=316))} if old else {}),
        "admissionChecksStrategy": _admission_checks_strategy(old),
        "admissionScope": s.obj({"admissionMode": _admission_mode(old)}, required=("admissionMode",)),
        cohort: subdomain(),
        **({} if old else {"concurrentAdmissionPolicy": _concurrent_admission_policy()}),
        "fairSharing": fair_sharing(),
        "flavorFungibility": _flavor_fungibility(old),
        "namespaceSelector": s.label_selector(),
        "preemption": _preemption(),
        "queueingStrategy": choice("StrictFIFO", "BestEffortFIFO", default="BestEffortFIFO"),
        "resourceGroups": resource_groups(version=version),
        "stopPolicy": stop_policy(),
    }
    return s.root(spec=s.obj(spec, rules=no_limit_without_cohort), status=_cluster_queue_status(old))


def stop_policy() -> Schema:
    """What happens to the workloads of a queue that is being stopped."""
    return choice("None", "Hold", "HoldAndDrain", default="None")


def _admission_mode(old: bool) -> Schema:
    return s.string() if old else choice("UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing")


def _admission_checks_strategy(old: bool) -> Schema:
    if old:
        rule = s.obj({"name": s.string(max_length=316), "onFlavors": s.array(subdomain())}, required=("name",))
        return s.obj({"admissionChecks": s.array(rule)})
    rule = s.obj(
        {
            "name": s.string(max_length=316, min_length=1),
            "onFlavors": s.array(subdomain(), list_type="set", max_items=64),
        },
        required=("name",),
    )
    return s.obj(
        {"admissionChecks": keyed(rule, "name", min_items=1, max_items=64)},
        required=("admissionChecks",),
    )


def _concurrent_admission_policy() -> Schema:
    migration = s.obj(
        {
            "constraints": s.obj({"lastAcceptableFlavorName": subdomain()}),
            "mode": choice("TryPreferredFlavors", "RetainFirstAdmission", max_length=253),
        },
        required=("mode",),
    )
    return s.obj({"migration": migration}, required=("migration",))


def _flavor_fungibility(old: bool) -> Schema:
    borrow = ("MayStopSearch", "TryNextFlavor", *(("Borrow",) if old else ()))
    preempt = ("MayStopSearch", "TryNextFlavor", *(("Preempt",) if old else ()))
    preference_needs_search = cel(
        (
            "preference can only be set when both whenCanBorrow and whenCanPreempt are TryNextFlavor",
            "!has(self.preference) || [self.whenCanBorrow, self.whenCanPreempt].all(w, w == 'TryNextFlavor')",
        )
    )
    return s.obj(
        {
            "preference": choice("BorrowingOverPreemption", "PreemptionOverBorrowing"),
            "whenCanBorrow": choice(*borrow, default="MayStopSearch"),
            "whenCanPreempt": choice(*preempt, default="TryNextFlavor"),
        },
        default={},
        rules=preference_needs_search,
    )


def _preemption() -> Schema:
    borrow = s.obj(
        {"maxPriorityThreshold": s.integer(), "policy": choice("Never", "LowerPriority", default="Never")},
        default={},
    )
    borrowing_needs_reclaim = cel(
        (
            "reclaimWithinCohort=Never and borrowWithinCohort.Policy!=Never",
            "self.reclaimWithinCohort != 'Never' || !has(self.borrowWithinCohort) || "
            "self.borrowWithinCohort.policy == 'Never'",
        )
    )
    return s.obj(
        {
            "borrowWithinCohort": borrow,
            "reclaimWithinCohort": choice("Never", "LowerPriority", "Any", default="Never"),
            "withinClusterQueue": choice("Never", "LowerPriority", "LowerOrNewerEqualPriority", default="Never"),
        },
        default={},
        rules=borrowing_needs_reclaim,
    )


def _cluster_queue_status(old: bool) -> Schema:
    fields = {
        "admittedWorkloads": s.integer(),
        "conditions": conditions(old),
        "fairSharing": _share_status(remembered=old),
        "flavorsReservation": flavor_usage(borrowed=True, limit=FLAVORS_LIMIT),
        "flavorsUsage": flavor_usage(borrowed=True, limit=FLAVORS_LIMIT),
        "pendingWorkloads": s.integer(),
        "reservingWorkloads": s.integer(),
    }
    if old:
        pending = s.obj({"name": s.string(), "namespace": s.string()}, required=("name", "namespace"))
        fields["pendingWorkloadsStatus"] = s.obj(
            {
                "clusterQueuePendingWorkload": atomic(pending),
                "lastChangeTime": s.time(),
            },
            required=("lastChangeTime",),
        )
    return s.obj(fields)


def _share_status(*, remembered: bool) -> Schema:
    usage = {"admissionFairSharingStatus": admission_fair_sharing_status()} if remembered else {}
    return s.obj({**usage, "weightedShare": s.integer("int64")}, required=("weightedShare",))


def local_queue(version: str) -> Schema:
    """The schema of LocalQueue in `version`."""
    old = version == "v1beta1"
    immutable = cel(("field is immutable", "self == oldSelf"))
    spec = s.obj(
        {
            "clusterQueue": subdomain(rules=immutable),
            "fairSharing": fair_sharing(),
            "stopPolicy": stop_policy(),
        }
    )
    status = {
        "admittedWorkloads": s.integer(),
        "conditions": conditions(old),
        "fairSharing": _share_status(remembered=True),
        ("flavorUsage" if old else "flavorsUsage"): flavor_usage(borrowed=False, limit=FLAVORS_LIMIT),
        **({"flavors": _flavor_descriptions()} if old else {}),
        "flavorsReservation": flavor_usage(borrowed=False, limit=FLAVORS_LIMIT),
        "pendingWorkloads": s.integer(),
        "reservingWorkloads": s.integer(),
    }
    return s.root(spec=spec, status=s.obj(status))


def _flavor_descriptions() -> Schema:
    taint = s.obj(
        {"effect": s.string(), "key": s.string(), "timeAdded": s.time(), "value": s.string()},
        required=("effect", "key"),
    )
    topology = s.obj(
        {"levels": atomic(s.string(), min_items=1, max_items=16), "name": subdomain()},
        required=("levels", "name"),
    )
    flavor = s.obj(
        {
            "name": subdomain(),
            "nodeLabels": s.mapping(s.string(), max_properties=8, map_type="atomic"),
            "nodeTaints": atomic(taint, max_items=8),
            "resources": s.array(s.string(), list_type="set", max_items=64),
            "topology": topology,
        },
        required=("name",),
    )
    return keyed(flavor, "name", max_items=FLAVORS_LIMIT)


def cohort(version: str) -> Schema:
    """The schema of Cohort in `version`."""
    spec = s.obj(
        {
            "fairSharing": fair_sharing(),
            "parentName": subdomain(),
            "resourceGroups": resource_groups(version=version),
        }
    )
    return s.root(spec=spec, status=s.obj({"fairSharing": _share_status(remembered=version == "v1beta1")}))


def resource_flavor(version: str) -> Schema:
    """The schema of ResourceFlavor; both versions agree."""
    checks = cel(
        (
            "at least one nodeLabel is required when topology is set",
            "!has(self.topologyName) || size(self.nodeLabels) > 0",
        ),
        (
            "topologyName is immutable when topologyName is set",
            "!has(oldSelf.topologyName) || (has(self.topologyName) && self.topologyName == oldSelf.topologyName)",
        ),
    )
    spec = s.obj(
        {
            "nodeLabels": s.mapping(s.string(), max_properties=8, map_type="atomic"),
            "nodeTaints": taints(),
            "tolerations": tolerations(),
            "topologyName": subdomain(),
        },
        rules=checks,
    )
    return s.root(spec=spec)


def topology(version: str) -> Schema:
    """The schema of Topology; both versions agree."""
    level = s.obj(
        {"nodeLabel": s.string(max_length=316, min_length=1, pattern=QUALIFIED_NAME_PATTERN)},
        required=("nodeLabel",),
    )
    checks = cel(
        ("field is immutable", "self == oldSelf"),
        ("must be unique", "self.all(a, self.exists_one(b, a == b))"),
        (
            "the kubernetes.io/hostname label can only be used at the lowest level of topology",
            "!self.exists(l, l.nodeLabel == 'kubernetes.io/hostname') || "
            "self[size(self) - 1].nodeLabel == 'kubernetes.io/hostname'",
        ),
    )
    levels = atomic(level, min_items=1, max_items=16, rules=checks)
    return s.root(spec=s.obj({"levels": levels}, required=("levels",)))
