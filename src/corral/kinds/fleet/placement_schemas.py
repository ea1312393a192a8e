"""Schemas of placements and everything a hub derives from them."""

from __future__ import annotations

from corral.kinds.machinery import schemas as s
from corral.kinds.machinery.definition import Schema

PERCENT_OR_NUMBER = r"^((100|[0-9]{1,2})%|[0-9]+)$"


def _resource_identifier() -> dict[str, Schema]:
    envelope = s.obj(
        {
            "name": s.string(),
            "namespace": s.string(),
            "type": s.string(enum=("configMap", "ClusterResourceEnvelope", "ResourceEnvelope"), default="configMap"),
        },
        required=("name",),
    )
    return {
        "group": s.string(),
        "version": s.string(),
        "kind": s.string(),
        "name": s.string(),
        "namespace": s.string(),
        "envelope": envelope,
    }


def _selector() -> Schema:
    return s.obj(
        {
            "group": s.string(),
            "version": s.string(),
            "kind": s.string(),
            "name": s.string(),
            "labelSelector": s.label_selector(),
            "selectionScope": s.string(
                enum=("NamespaceOnly", "NamespaceWithResources", "NamespaceWithResourceSelectors"),
                default="NamespaceWithResources",
            ),
        },
        required=("group", "kind", "version"),
    )


def _property_selector() -> Schema:
    expression = s.obj(
        {
            "name": s.string(),
            "operator": s.string(),
            "values": s.array(s.string(), maxItems=1),
        },
        required=("name", "operator", "values"),
    )
    return s.obj({"matchExpressions": s.array(expression)}, required=("matchExpressions",))


def _cluster_term() -> Schema:
    sorter = s.obj({"name": s.string(), "sortOrder": s.string()}, required=("name", "sortOrder"))
    return s.obj(
        {"labelSelector": s.label_selector(), "propertySelector": _property_selector(), "propertySorter": sorter}
    )


def policy() -> Schema:
    """A placement policy; the same in placements and their policy snapshots."""
    required = s.obj(
        {"clusterSelectorTerms": s.array(_cluster_term(), maxItems=10)}, required=("clusterSelectorTerms",)
    )
    preferred = s.obj(
        {"weight": s.integer(minimum=-100, maximum=100), "preference": _cluster_term()},
        required=("preference", "weight"),
    )
    affinity = s.obj(
        {
            "clusterAffinity": s.obj(
                {
                    "requiredDuringSchedulingIgnoredDuringExecution": required,
                    "preferredDuringSchedulingIgnoredDuringExecution": s.array(preferred),
                }
            )
        }
    )
    spread = s.obj(
        {
            "maxSkew": s.integer(default=1, minimum=1),
            "topologyKey": s.string(),
            "whenUnsatisfiable": s.string(),
        },
        required=("topologyKey",),
    )
    toleration = s.obj(
        {
            "key": s.string(),
            "operator": s.string(enum=("Equal", "Exists"), default="Equal"),
            "value": s.string(),
            "effect": s.string(enum=("NoSchedule",)),
        }
    )
    return s.obj(
        {
            "placementType": s.string(enum=("PickAll", "PickN", "PickFixed"), default="PickAll"),
            "clusterNames": s.array(s.string(), maxItems=100),
            "numberOfClusters": s.integer(minimum=0),
            "affinity": affinity,
            "topologySpreadConstraints": s.array(spread),
            "tolerations": s.array(toleration, maxItems=100),
        },
        rules=(s.rule("self.placementType == oldSelf.placementType", "placement type is immutable"),),
    )


def apply_strategy() -> Schema:
    """How manifests are applied on members."""
    return s.obj(
        {
            "allowCoOwnership": s.boolean(),
            "comparisonOption": s.string(enum=("PartialComparison", "FullComparison"), default="PartialComparison"),
            "serverSideApplyConfig": s.obj({"force": s.boolean()}),
            "type": s.string(enum=("ClientSideApply", "ServerSideApply", "ReportDiff"), default="ClientSideApply"),
            "whenToApply": s.string(enum=("Always", "IfNotDrifted"), default="Always"),
            "whenToTakeOver": s.string(enum=("Always", "IfNoDiff", "Never"), default="Always"),
        }
    )


def _strategy(version: str) -> Schema:
    rolling = s.obj(
        {
            "maxUnavailable": s.int_or_string(default="25%", pattern=PERCENT_OR_NUMBER),
            "maxSurge": s.int_or_string(default="25%", pattern=PERCENT_OR_NUMBER),
            "unavailablePeriodSeconds": s.integer("int64", default=60),
        }
    )
    kept = s.rule(
        "!(oldSelf == 'External' && self != 'External')",
        "cannot change rollout strategy type from 'External' to other types",
    )
    fields = {
        "type": s.string(enum=("RollingUpdate", "External"), default="RollingUpdate", rules=(kept,)),
        "rollingUpdate": rolling,
        "applyStrategy": apply_strategy(),
    }
    if version == "v1beta1":
        fields["deleteStrategy"] = s.obj({"propagationPolicy": s.string(enum=("Abandon", "Delete"), default="Delete")})
        fields["reportBackStrategy"] = report_back()
    return s.obj(fields)


def report_back() -> Schema:
    return s.obj(
        {
            "type": s.string(enum=("Disabled", "Mirror"), default="Disabled"),
            "destination": s.string(enum=("OriginalResource", "WorkAPI")),
        },
        required=("type",),
        rules=(
            s.rule(
                "(self == null) || (self.type == 'Mirror' && has(self.destination))"
                " || (self.type != 'Mirror' && !has(self.destination))",
                "when reportBackStrategy.type is 'Mirror', a destination must be specified",
            ),
        ),
    )


def placement(version: str, *, cluster: bool) -> Schema:
    """ClusterResourcePlacement, or ResourcePlacement."""
    fields = {
        "resourceSelectors": s.array(_selector(), minItems=1, maxItems=100),
        "policy": policy(),
        "strategy": _strategy(version),
        "revisionHistoryLimit": s.integer(default=10, minimum=1, maximum=1000),
    }
    fields["statusReportingScope"] = s.string(
        enum=("ClusterScopeOnly", "NamespaceAccessible"), default="ClusterScopeOnly"
    )
    namespaces = "self.resourceSelectors.filter(x, x.kind == 'Namespace' && x.group == '' && x.version == 'v1')"
    picking = f"{namespaces}.filter(x, x.selectionScope == 'NamespaceWithResourceSelectors')"
    rules = [
        s.rule("!(has(oldSelf.policy) && !has(self.policy))", "policy cannot be removed once set"),
        s.rule(
            f"{picking}.size() <= 1",
            "only one namespace selector with NamespaceWithResourceSelectors mode is allowed",
        ),
        s.rule(
            f"{picking}.size() == 0 || ({picking}.size() == 1"
            f" && {picking}.all(x, has(x.name) && x.name != '' && !has(x.labelSelector)))",
            "namespace selector with NamespaceWithResourceSelectors mode must select by name (not by label)",
        ),
        s.rule(
            f"{picking}.size() == 0 || {namespaces}.size() == 1",
            "when using NamespaceWithResourceSelectors mode, only one namespace selector is allowed"
            " (cannot mix with other namespace selectors)",
        ),
    ]
    if cluster:
        rules += [
            s.rule(
                "!(has(self.statusReportingScope) && self.statusReportingScope == 'NamespaceAccessible')"
                " || self.resourceSelectors.filter(x, x.kind == 'Namespace').size() == 1",
                "when statusReportingScope is NamespaceAccessible, exactly one resourceSelector with kind 'Namespace'"
                " is required",
            ),
            s.rule(
                "!has(oldSelf.statusReportingScope) || self.statusReportingScope == oldSelf.statusReportingScope",
                "statusReportingScope is immutable",
            ),
        ]
    spec = s.obj(fields, required=("resourceSelectors",), rules=tuple(rules))
    return s.root(spec=spec, status=placement_status(), required=("spec",))


def placement_status() -> Schema:
    identifier = _resource_identifier()
    detail = s.obj({"path": s.string(), "valueInHub": s.string(), "valueInMember": s.string()}, required=("path",))
    failed = s.obj({**identifier, "condition": s.condition()}, required=("condition", "kind", "name", "version"))
    drifted = s.obj(
        {
            **identifier,
            "observationTime": s.time(),
            "targetClusterObservedGeneration": s.integer("int64"),
            "firstDriftedObservedTime": s.time(),
            "observedDrifts": s.array(detail),
        }
    )
    diffed = s.obj(
        {
            **identifier,
            "observationTime": s.time(),
            "targetClusterObservedGeneration": s.integer("int64"),
            "firstDiffedObservedTime": s.time(),
            "observedDiffs": s.array(detail),
        }
    )
    per_cluster = s.obj(
        {
            "clusterName": s.string(),
            "observedResourceIndex": s.string(),
            "applicableResourceOverrides": s.array(
                s.obj({"name": s.string(), "namespace": s.string()}, required=("name",))
            ),
            "applicableClusterResourceOverrides": s.array(s.string()),
            "failedPlacements": s.array(failed, maxItems=100),
            "driftedPlacements": s.array(drifted, maxItems=100),
            "diffedPlacements": s.array(diffed, maxItems=100),
            "conditions": s.array(s.condition()),
        }
    )
    return s.obj(
        {
            "selectedResources": s.array(s.obj(identifier, required=("kind", "name", "version"))),
            "observedResourceIndex": s.string(),
            "placementStatuses": s.array(per_cluster),
            "conditions": s.conditions(),
        }
    )


def placement_mirror() -> Schema:
    """ClusterResourcePlacementStatus: a copy of a placement's status that its namespace may read."""
    root = s.root()
    root["properties"]["sourceStatus"] = placement_status()
    root["properties"]["lastUpdatedTime"] = s.time()
    return root


def binding() -> Schema:
    reference = s.obj({"name": s.string(), "namespace": s.string()}, required=("name",))
    decision = _decision()
    spec = s.obj(
        {
            "state": s.string(),
            "resourceSnapshotName": s.string(),
            "resourceOverrideSnapshots": s.array(reference),
            "clusterResourceOverrideSnapshots": s.array(s.string()),
            "schedulingPolicySnapshotName": s.string(),
            "targetCluster": s.string(),
            "clusterDecision": decision,
            "applyStrategy": apply_strategy(),
        },
        required=("clusterDecision", "resourceSnapshotName", "schedulingPolicySnapshotName", "state", "targetCluster"),
    )
    identifier = s.anything()
    status = s.obj(
        {
            "conditions": s.conditions(),
            "failedPlacements": s.array(identifier, maxItems=100),
            "driftedPlacements": s.array(identifier, maxItems=100),
            "diffedPlacements": s.array(identifier, maxItems=100),
        }
    )
    return s.root(spec=spec, status=status, required=("spec",))


def _decision() -> Schema:
    score = s.obj({"affinityScore": s.integer(), "priorityScore": s.integer()})
    return s.obj(
        {"clusterName": s.string(), "selected": s.boolean(), "clusterScore": score, "reason": s.string()},
        required=("clusterName", "reason", "selected"),
    )


def policy_snapshot() -> Schema:
    spec = s.obj({"policy": policy(), "policyHash": s.string(format="byte")}, required=("policyHash",))
    status = s.obj(
        {
            "observedCRPGeneration": s.integer("int64"),
            "conditions": s.conditions(),
            "targetClusters": s.array(_decision(), maxItems=1000),
        },
        required=("observedCRPGeneration",),
    )
    return s.root(spec=spec, status=status, required=("spec",))


def resource_snapshot() -> Schema:
    spec = s.obj({"selectedResources": s.array(s.embedded())}, required=("selectedResources",))
    return s.root(spec=spec, status=s.obj({"conditions": s.conditions()}), required=("spec",))


def work() -> Schema:
    identifier = s.obj(
        {
            "ordinal": s.integer(),
            "group": s.string(),
            "version": s.string(),
            "kind": s.string(),
            "resource": s.string(),
            "namespace": s.string(),
            "name": s.string(),
        },
        required=("ordinal",),
    )
    observed = s.array(
        s.obj({"path": s.string(), "valueInHub": s.string(), "valueInMember": s.string()}, required=("path",))
    )
    drift = s.obj(
        {
            "observationTime": s.time(),
            "observedInMemberClusterGeneration": s.integer("int64"),
            "firstDriftedObservedTime": s.time(),
            "observedDrifts": observed,
        }
    )
    diff = s.obj(
        {
            "observationTime": s.time(),
            "observedInMemberClusterGeneration": s.integer("int64"),
            "firstDiffedObservedTime": s.time(),
            "observedDiffs": observed,
        }
    )
    manifest = s.obj(
        {
            "identifier": identifier,
            "conditions": s.array(s.condition()),
            "driftDetails": drift,
            "diffDetails": diff,
            "backReportedStatus": s.obj({"observedStatus": s.anything(), "observationTime": s.time()}),
        },
        required=("conditions",),
    )
    spec = s.obj(
        {
            "workload": s.obj({"manifests": s.array(s.embedded())}),
            "applyStrategy": apply_strategy(),
            "reportBackStrategy": report_back(),
        }
    )
    status = s.obj({"conditions": s.conditions(), "manifestConditions": s.array(manifest)})
    return s.root(spec=spec, status=status, required=("spec",))


def applied_work() -> Schema:
    applied = s.obj(
        {
            "ordinal": s.integer(),
            "group": s.string(),
            "version": s.string(),
            "kind": s.string(),
            "resource": s.string(),
            "namespace": s.string(),
            "name": s.string(),
            "uid": s.string(),
        },
        required=("ordinal",),
    )
    spec = s.obj(
        {"workName": s.string(), "workNamespace": s.string()},
        required=("workName", "workNamespace"),
    )
    return s.root(spec=spec, status=s.obj({"appliedResources": s.array(applied)}), required=("spec",))
