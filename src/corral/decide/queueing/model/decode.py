"""From API objects to the values queueing decides on.

Reads v1beta2 objects (and tolerates v1beta1 spellings where a field only moved). Missing fields take the API's
defaults, so an object that skipped defaulting means the same as one that did not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from corral.core import conditions
from corral.core.meta import (
    Obj,
    is_deleting,
    key_of,
    labels_of,
    metadata_of,
    name_of,
    resource_version_of,
    spec_of,
    status_of,
)
from corral.core.quantity import Quantity
from corral.core.selectors import from_label_selector
from corral.core.timestamps import parse_time
from corral.decide.queueing.model.amounts import parse_amount
from corral.decide.queueing.model.values import (
    AdmissionCheckSpec,
    CheckRule,
    ClusterQueueSpec,
    CohortSpec,
    FlavorResource,
    FlavorSpec,
    Fungibility,
    LocalQueueSpec,
    NodeSpec,
    PreemptionPolicy,
    ResourceGroup,
    ResourceQuota,
    Taint,
    Toleration,
    TopologySpec,
)


def cluster_queue_from(obj: Obj) -> ClusterQueueSpec:
    spec = spec_of(obj)
    groups, quotas = _groups_from(spec.get("resourceGroups") or ())
    fungibility = spec.get("flavorFungibility") or {}
    selector = spec.get("namespaceSelector")
    concurrent = (spec.get("concurrentAdmissionPolicy") or {}).get("migration") or {}
    return ClusterQueueSpec(
        name=name_of(obj),
        cohort=spec.get("cohortName") or spec.get("cohort") or "",
        groups=groups,
        quotas=quotas,
        strict_fifo=spec.get("queueingStrategy") == "StrictFIFO",
        namespace_selector=None if selector is None else from_label_selector(selector),
        fungibility=Fungibility(
            when_can_borrow=_stop_search(fungibility.get("whenCanBorrow"), "MayStopSearch"),
            when_can_preempt=_stop_search(fungibility.get("whenCanPreempt"), "TryNextFlavor"),
            preference=fungibility.get("preference"),
        ),
        preemption=_preemption_from(spec.get("preemption") or {}),
        checks=_checks_from(spec),
        stop_policy=spec.get("stopPolicy") or "None",
        weight=_weight_from(spec),
        admission_fair_sharing=(spec.get("admissionScope") or {}).get("admissionMode")
        == "UsageBasedAdmissionFairSharing",
        concurrent_admission=concurrent.get("mode") or "",
        last_acceptable_flavor=(concurrent.get("constraints") or {}).get("lastAcceptableFlavorName") or "",
        deleting=is_deleting(obj),
    )


def cohort_from(obj: Obj) -> CohortSpec:
    spec = spec_of(obj)
    _, quotas = _groups_from(spec.get("resourceGroups") or ())
    parent = spec.get("parentName") or spec.get("parent") or ""
    return CohortSpec(name=name_of(obj), parent=parent, quotas=quotas, weight=_weight_from(spec))


def local_queue_from(obj: Obj) -> LocalQueueSpec:
    spec, status = spec_of(obj), status_of(obj)
    history = (status.get("fairSharing") or {}).get("admissionFairSharingStatus") or {}
    consumed = history.get("consumedResources") or {}
    updated = history.get("lastUpdate")
    return LocalQueueSpec(
        key=key_of(obj),
        cluster_queue=spec.get("clusterQueue") or "",
        stop_policy=spec.get("stopPolicy") or "None",
        weight=_weight_from(spec),
        consumed={name: Quantity.parse(text).nanos for name, text in consumed.items()},
        consumed_at=parse_time(updated) if updated else None,
        deleting=is_deleting(obj),
    )


def flavor_from(obj: Obj) -> FlavorSpec:
    spec = spec_of(obj)
    return FlavorSpec(
        name=name_of(obj),
        node_labels=spec.get("nodeLabels") or {},
        taints=tuple(map(taint_from, spec.get("nodeTaints") or ())),
        tolerations=tuple(map(toleration_from, spec.get("tolerations") or ())),
        topology=spec.get("topologyName") or "",
        deleting=is_deleting(obj),
    )


def topology_from(obj: Obj) -> TopologySpec:
    levels = spec_of(obj).get("levels") or ()
    return TopologySpec(name=name_of(obj), levels=tuple(level.get("nodeLabel") or "" for level in levels))


def node_from(obj: Obj) -> NodeSpec:
    spec, status = spec_of(obj), status_of(obj)
    allocatable = status.get("allocatable") or {}
    return NodeSpec(
        name=name_of(obj),
        labels=labels_of(obj),
        taints=tuple(map(taint_from, spec.get("taints") or ())),
        allocatable={name: parse_amount(name, quantity) for name, quantity in allocatable.items()},
        ready=conditions.is_true(obj, "Ready"),
        unschedulable=bool(spec.get("unschedulable")),
    )


def admission_check_from(obj: Obj) -> AdmissionCheckSpec:
    return AdmissionCheckSpec(
        name=name_of(obj),
        controller=spec_of(obj).get("controllerName") or "",
        active=conditions.is_true(obj, "Active") and not is_deleting(obj),
    )


def toleration_from(obj: Obj) -> Toleration:
    return Toleration(
        key=obj.get("key") or "",
        operator=obj.get("operator") or "Equal",
        value=obj.get("value") or "",
        effect=obj.get("effect") or "",
    )


def taint_from(obj: Obj) -> Taint:
    return Taint(key=obj.get("key") or "", value=obj.get("value") or "", effect=obj.get("effect") or "")


def _groups_from(groups: Iterable[Obj]) -> tuple[tuple[ResourceGroup, ...], dict[FlavorResource, ResourceQuota]]:
    decoded: list[ResourceGroup] = []
    quotas: dict[FlavorResource, ResourceQuota] = {}
    for group in groups:
        flavors = group.get("flavors") or ()
        decoded.append(
            ResourceGroup(
                covered=tuple(group.get("coveredResources") or ()),
                flavors=tuple(flavor.get("name") or "" for flavor in flavors),
            )
        )
        for flavor in flavors:
            for resource in flavor.get("resources") or ():
                column = FlavorResource(flavor.get("name") or "", resource.get("name") or "")
                quotas[column] = _quota_from(column.resource, resource)
    return tuple(decoded), quotas


def _quota_from(resource: str, obj: Mapping[str, Any]) -> ResourceQuota:
    return ResourceQuota(
        nominal=parse_amount(resource, obj.get("nominalQuota") or 0),
        borrowing_limit=_limit(resource, obj.get("borrowingLimit")),
        lending_limit=_limit(resource, obj.get("lendingLimit")),
    )


def _limit(resource: str, quantity: str | int | float | None) -> int | None:
    return None if quantity is None else parse_amount(resource, quantity)


def _preemption_from(obj: Obj) -> PreemptionPolicy:
    borrow = obj.get("borrowWithinCohort") or {}
    return PreemptionPolicy(
        within_cluster_queue=obj.get("withinClusterQueue") or "Never",
        reclaim_within_cohort=obj.get("reclaimWithinCohort") or "Never",
        borrow_within_cohort=borrow.get("policy") or "Never",
        max_priority_threshold=borrow.get("maxPriorityThreshold"),
    )


def _stop_search(value: str | None, default: str) -> str:
    # Older manifests say Borrow and Preempt where newer ones say MayStopSearch.
    return "MayStopSearch" if value in ("Borrow", "Preempt") else value or default


def _checks_from(spec: Obj) -> tuple[CheckRule, ...]:
    strategy = (spec.get("admissionChecksStrategy") or {}).get("admissionChecks")
    if strategy is None:
        return tuple(CheckRule(name) for name in spec.get("admissionChecks") or ())
    return tuple(CheckRule(rule.get("name") or "", tuple(rule.get("onFlavors") or ())) for rule in strategy)


def _weight_from(spec: Obj) -> float:
    weight = (spec.get("fairSharing") or {}).get("weight")
    return 1.0 if weight is None else Quantity.parse(weight).number


def version_of(obj: Obj) -> int:
    """Resource version as a number; 0 when there is none that compares."""
    text = resource_version_of(obj)
    return int(text) if len(text) < 20 and text.isdecimal() else 0


def created_at(obj: Obj) -> float:
    text = metadata_of(obj).get("creationTimestamp")
    return parse_time(text) if text else 0.0
