"""The API groups of KubeFleet: members, placements, all that a hub derives from them, and its inventory.

Every kind with several versions is stored as v1beta1; the others are the same objects under another apiVersion.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from corral.kinds.fleet import cluster_schemas as c
from corral.kinds.fleet import placement_schemas as p
from corral.kinds.fleet.inventory import CLUSTER_PROFILE
from corral.kinds.fleet.names import CLUSTER_GROUP, PLACEMENT_GROUP
from corral.kinds.machinery.definition import Column, KindDef, Schema, VersionDef, age_column


def _kind(
    kind: str,
    plural: str,
    schema: Callable[[str], Schema],
    *,
    group: str = PLACEMENT_GROUP,
    versions: str = "v1 v1beta1",
    namespaced: bool = False,
    short: str = "",
    status: bool = True,
    columns: Sequence[Column] = (),
) -> KindDef:
    def version(name: str) -> VersionDef:
        return VersionDef(name, lambda: schema(name), storage=name == "v1beta1", status=status, columns=tuple(columns))

    own = "fleet-cluster" if group == CLUSTER_GROUP else "fleet-placement"
    return KindDef(
        group=group,
        descriptions="corral.kinds.fleet.descriptions:DESCRIPTIONS",
        kind=kind,
        plural=plural,
        namespaced=namespaced,
        short_names=(short,) if short else (),
        categories=("fleet", own),
        versions=tuple(version(name) for name in versions.split()),
    )


def _condition(name: str, kind: str, field: str = "status", **options: object) -> Column:
    path = f'.status.conditions[?(@.type=="{kind}")].{field}'
    return Column(name, path, **options)  # type: ignore[arg-type]


def _placement_columns(prefix: str) -> tuple[Column, ...]:
    return (
        Column("Gen", ".metadata.generation"),
        Column("Type", ".spec.policy.placementType", priority=1),
        _condition("Scheduled", f"{prefix}Scheduled"),
        _condition("Scheduled-Gen", f"{prefix}Scheduled", "observedGeneration"),
        _condition("Work-Synchronized", f"{prefix}WorkSynchronized", priority=1),
        _condition("Work-Synchronized-Gen", f"{prefix}WorkSynchronized", "observedGeneration", priority=1),
        _condition("Available", f"{prefix}Available"),
        _condition("Available-Gen", f"{prefix}Available", "observedGeneration"),
        age_column(),
    )


_MEMBER_COLUMNS = (
    _condition("Joined", "Joined"),
    age_column(),
    Column("Member-Agent-Last-Seen", '.status.agentStatus[?(@.type=="MemberAgent")].lastReceivedHeartbeat', "date"),
    Column("Node-Count", ".status.properties.kubernetes-fleet\\.io/node-count.value"),
    Column("Available-CPU", ".status.resourceUsage.available.cpu"),
    Column("Available-Memory", ".status.resourceUsage.available.memory"),
    Column("Allocatable-CPU", ".status.resourceUsage.allocatable.cpu", priority=1),
    Column("Allocatable-Memory", ".status.resourceUsage.allocatable.memory", priority=1),
)
_BINDING_COLUMNS = (
    _condition("WorkSynchronized", "WorkSynchronized"),
    _condition("ResourcesApplied", "Applied"),
    _condition("ResourceAvailable", "Available", priority=1),
    age_column(),
)
_SNAPSHOT_COLUMNS = (Column("Gen", ".metadata.generation"), age_column())
_RUN_COLUMNS = (
    Column("Placement", ".spec.placementName"),
    Column("Resource-Snapshot-Index", ".spec.resourceSnapshotIndex"),
    Column("Policy-Snapshot-Index", ".status.policySnapshotIndexUsed"),
    _condition("Initialized", "Initialized"),
    _condition("Progressing", "Progressing"),
    _condition("Succeeded", "Succeeded"),
    age_column(),
    Column("Strategy", ".spec.stagedRolloutStrategyName", priority=1),
)
_APPROVAL_COLUMNS = (
    Column("Update-Run", ".spec.parentStageRollout"),
    Column("Stage", ".spec.targetStage"),
    _condition("Approved", "Approved"),
    age_column(),
)
_ALL = "v1 v1beta1 v1alpha1"

MEMBER_CLUSTER = _kind(
    "MemberCluster", "memberclusters", c.member_cluster, group=CLUSTER_GROUP, short="cluster", columns=_MEMBER_COLUMNS
)
INTERNAL_MEMBER_CLUSTER = _kind(
    "InternalMemberCluster",
    "internalmemberclusters",
    lambda version: c.internal_member_cluster(),
    group=CLUSTER_GROUP,
    namespaced=True,
    short="imc",
    columns=(age_column(),),
)
CLUSTER_RESOURCE_PLACEMENT = _kind(
    "ClusterResourcePlacement",
    "clusterresourceplacements",
    lambda version: p.placement(version, cluster=True),
    short="crp",
    columns=_placement_columns("ClusterResourcePlacement"),
)
RESOURCE_PLACEMENT = _kind(
    "ResourcePlacement",
    "resourceplacements",
    lambda version: p.placement(version, cluster=False),
    namespaced=True,
    short="rp",
    columns=_placement_columns("ResourcePlacement"),
)
PLACEMENT_STATUS = _kind(
    "ClusterResourcePlacementStatus",
    "clusterresourceplacementstatuses",
    lambda version: p.placement_mirror(),
    namespaced=True,
    short="crps",
    status=False,
    columns=(
        Column("Resource-Index", ".sourceStatus.observedResourceIndex"),
        Column("Last-Updated", ".lastUpdatedTime"),
        age_column(),
    ),
)
CLUSTER_POLICY_SNAPSHOT = _kind(
    "ClusterSchedulingPolicySnapshot",
    "clusterschedulingpolicysnapshots",
    lambda version: p.policy_snapshot(),
    short="csps",
    columns=_SNAPSHOT_COLUMNS,
)
POLICY_SNAPSHOT = _kind(
    "SchedulingPolicySnapshot",
    "schedulingpolicysnapshots",
    lambda version: p.policy_snapshot(),
    versions="v1beta1",
    namespaced=True,
    short="sps",
    columns=_SNAPSHOT_COLUMNS,
)
CLUSTER_RESOURCE_SNAPSHOT = _kind(
    "ClusterResourceSnapshot",
    "clusterresourcesnapshots",
    lambda version: p.resource_snapshot(),
    short="crs",
    columns=_SNAPSHOT_COLUMNS,
)
RESOURCE_SNAPSHOT = _kind(
    "ResourceSnapshot",
    "resourcesnapshots",
    lambda version: p.resource_snapshot(),
    versions="v1beta1",
    namespaced=True,
    # Upstream's short name is `rs`, which would make `kubectl get rs` ambiguous on every cluster.
    columns=_SNAPSHOT_COLUMNS,
)
CLUSTER_BINDING = _kind(
    "ClusterResourceBinding",
    "clusterresourcebindings",
    lambda version: p.binding(),
    short="crb",
    columns=_BINDING_COLUMNS,
)
BINDING = _kind(
    "ResourceBinding",
    "resourcebindings",
    lambda version: p.binding(),
    versions="v1beta1",
    namespaced=True,
    short="rb",
    columns=_BINDING_COLUMNS,
)
WORK = _kind("Work", "works", lambda version: p.work(), namespaced=True)
APPLIED_WORK = _kind("AppliedWork", "appliedworks", lambda version: p.applied_work())
CLUSTER_OVERRIDE = _kind(
    "ClusterResourceOverride",
    "clusterresourceoverrides",
    lambda version: c.override(cluster=True),
    versions=_ALL,
    status=False,
)
OVERRIDE = _kind(
    "ResourceOverride",
    "resourceoverrides",
    lambda version: c.override(cluster=False),
    versions=_ALL,
    namespaced=True,
    status=False,
)
CLUSTER_OVERRIDE_SNAPSHOT = _kind(
    "ClusterResourceOverrideSnapshot",
    "clusterresourceoverridesnapshots",
    lambda version: c.override_snapshot(cluster=True),
    versions=_ALL,
    status=False,
)
OVERRIDE_SNAPSHOT = _kind(
    "ResourceOverrideSnapshot",
    "resourceoverridesnapshots",
    lambda version: c.override_snapshot(cluster=False),
    versions=_ALL,
    namespaced=True,
    status=False,
)
CLUSTER_ENVELOPE = _kind(
    "ClusterResourceEnvelope",
    "clusterresourceenvelopes",
    lambda version: c.envelope(),
    versions="v1beta1",
    status=False,
)
ENVELOPE = _kind(
    "ResourceEnvelope",
    "resourceenvelopes",
    lambda version: c.envelope(),
    versions="v1beta1",
    namespaced=True,
    status=False,
)
EVICTION = _kind(
    "ClusterResourcePlacementEviction",
    "clusterresourceplacementevictions",
    lambda version: c.eviction(),
    versions="v1beta1 v1alpha1",
    short="crpe",
    columns=(_condition("Valid", "Valid"), _condition("Executed", "Executed")),
)
DISRUPTION_BUDGET = _kind(
    "ClusterResourcePlacementDisruptionBudget",
    "clusterresourceplacementdisruptionbudgets",
    lambda version: c.disruption_budget(),
    versions="v1beta1 v1alpha1",
    short="crpdb",
    status=False,
)
CLUSTER_UPDATE_RUN = _kind(
    "ClusterStagedUpdateRun",
    "clusterstagedupdateruns",
    lambda version: c.update_run(),
    versions=_ALL,
    short="csur",
    columns=_RUN_COLUMNS,
)
UPDATE_RUN = _kind(
    "StagedUpdateRun",
    "stagedupdateruns",
    lambda version: c.update_run(),
    namespaced=True,
    short="sur",
    columns=_RUN_COLUMNS,
)
CLUSTER_UPDATE_STRATEGY = _kind(
    "ClusterStagedUpdateStrategy",
    "clusterstagedupdatestrategies",
    lambda version: c.update_strategy(),
    versions=_ALL,
    short="csus",
    status=False,
)
UPDATE_STRATEGY = _kind(
    "StagedUpdateStrategy",
    "stagedupdatestrategies",
    lambda version: c.update_strategy(),
    namespaced=True,
    short="sus",
    status=False,
)
CLUSTER_APPROVAL_REQUEST = _kind(
    "ClusterApprovalRequest",
    "clusterapprovalrequests",
    lambda version: c.approval_request(),
    versions=_ALL,
    short="careq",
    columns=_APPROVAL_COLUMNS,
)
APPROVAL_REQUEST = _kind(
    "ApprovalRequest",
    "approvalrequests",
    lambda version: c.approval_request(),
    namespaced=True,
    short="areq",
    columns=_APPROVAL_COLUMNS,
)

KINDS = (
    MEMBER_CLUSTER, INTERNAL_MEMBER_CLUSTER, CLUSTER_RESOURCE_PLACEMENT, RESOURCE_PLACEMENT, PLACEMENT_STATUS,
    CLUSTER_POLICY_SNAPSHOT, POLICY_SNAPSHOT, CLUSTER_RESOURCE_SNAPSHOT, RESOURCE_SNAPSHOT, CLUSTER_BINDING, BINDING,
    WORK, APPLIED_WORK, CLUSTER_OVERRIDE, OVERRIDE, CLUSTER_OVERRIDE_SNAPSHOT, OVERRIDE_SNAPSHOT, CLUSTER_ENVELOPE,
    ENVELOPE, EVICTION, DISRUPTION_BUDGET, CLUSTER_UPDATE_RUN, UPDATE_RUN, CLUSTER_UPDATE_STRATEGY, UPDATE_STRATEGY,
    CLUSTER_APPROVAL_REQUEST, APPROVAL_REQUEST, CLUSTER_PROFILE,
)  # fmt: skip

CLUSTER_PROFILES = CLUSTER_PROFILE.resource("v1alpha1")
MEMBER_CLUSTERS = MEMBER_CLUSTER.resource("v1beta1")
INTERNAL_MEMBER_CLUSTERS = INTERNAL_MEMBER_CLUSTER.resource("v1beta1")
CLUSTER_RESOURCE_PLACEMENTS = CLUSTER_RESOURCE_PLACEMENT.resource("v1beta1")
RESOURCE_PLACEMENTS = RESOURCE_PLACEMENT.resource("v1beta1")
PLACEMENT_STATUSES = PLACEMENT_STATUS.resource("v1beta1")
CLUSTER_POLICY_SNAPSHOTS = CLUSTER_POLICY_SNAPSHOT.resource("v1beta1")
POLICY_SNAPSHOTS = POLICY_SNAPSHOT.resource("v1beta1")
CLUSTER_RESOURCE_SNAPSHOTS = CLUSTER_RESOURCE_SNAPSHOT.resource("v1beta1")
RESOURCE_SNAPSHOTS = RESOURCE_SNAPSHOT.resource("v1beta1")
CLUSTER_BINDINGS = CLUSTER_BINDING.resource("v1beta1")
BINDINGS = BINDING.resource("v1beta1")
WORKS = WORK.resource("v1beta1")
APPLIED_WORKS = APPLIED_WORK.resource("v1beta1")
CLUSTER_OVERRIDES = CLUSTER_OVERRIDE.resource("v1beta1")
OVERRIDES = OVERRIDE.resource("v1beta1")
CLUSTER_OVERRIDE_SNAPSHOTS = CLUSTER_OVERRIDE_SNAPSHOT.resource("v1beta1")
OVERRIDE_SNAPSHOTS = OVERRIDE_SNAPSHOT.resource("v1beta1")
ENVELOPES = ENVELOPE.resource("v1beta1")
EVICTIONS = EVICTION.resource("v1beta1")
DISRUPTION_BUDGETS = DISRUPTION_BUDGET.resource("v1beta1")
CLUSTER_UPDATE_RUNS = CLUSTER_UPDATE_RUN.resource("v1beta1")
UPDATE_RUNS = UPDATE_RUN.resource("v1beta1")
CLUSTER_UPDATE_STRATEGIES = CLUSTER_UPDATE_STRATEGY.resource("v1beta1")
UPDATE_STRATEGIES = UPDATE_STRATEGY.resource("v1beta1")
CLUSTER_APPROVAL_REQUESTS = CLUSTER_APPROVAL_REQUEST.resource("v1beta1")
APPROVAL_REQUESTS = APPROVAL_REQUEST.resource("v1beta1")
