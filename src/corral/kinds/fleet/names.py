"""Words of the KubeFleet API: groups, labels, annotations, finalizers, condition types and name formats."""

from __future__ import annotations

from typing import Final

PLACEMENT_GROUP: Final = "placement.kubernetes-fleet.io"
CLUSTER_GROUP: Final = "cluster.kubernetes-fleet.io"
PREFIX: Final = "kubernetes-fleet.io/"
SYSTEM_NAMESPACE: Final = "fleet-system"

# Labels
PARENT_PLACEMENT: Final = PREFIX + "parent-CRP"
PARENT_NAMESPACE: Final = PREFIX + "parent-placement-namespace"
PARENT_BINDING: Final = PREFIX + "parent-resource-binding"
IS_LATEST: Final = PREFIX + "is-latest-snapshot"
POLICY_INDEX: Final = PREFIX + "policy-index"
RESOURCE_INDEX: Final = PREFIX + "resource-index"
OVERRIDE_INDEX: Final = PREFIX + "override-index"
PARENT_OVERRIDE: Final = PREFIX + "parent-resource-override"
PARENT_SNAPSHOT_INDEX: Final = PREFIX + "parent-resource-snapshot-index"
ENVELOPE_WORK: Final = PREFIX + "envelope-work"
ENVELOPE_NAME: Final = PREFIX + "envelope-name"
ENVELOPE_NAMESPACE: Final = PREFIX + "envelope-namespace"
MEMBER_NAME: Final = PREFIX + "member-name"
IS_FLEET_RESOURCE: Final = PREFIX + "is-fleet-resource"
TARGET_RUN: Final = PREFIX + "targetUpdateRun"
TARGET_STAGE: Final = PREFIX + "targetUpdatingStage"
TASK_TYPE: Final = PREFIX + "taskType"
IS_LATEST_APPROVAL: Final = PREFIX + "isLatestUpdateRunApproval"

# Annotations
NUMBER_OF_CLUSTERS: Final = PREFIX + "number-of-clusters"
PLACEMENT_GENERATION: Final = PREFIX + "CRP-generation"
RESOURCE_HASH: Final = PREFIX + "resource-hash"
ENVELOPE_COUNT: Final = PREFIX + "number-of-enveloped-object"
SNAPSHOT_COUNT: Final = PREFIX + "number-of-resource-snapshots"
SUB_INDEX: Final = PREFIX + "subindex-of-resource-snapshot"
CANDIDATE_TIME: Final = PREFIX + "next-resource-snapshot-candidate-detection-time"
PARENT_SNAPSHOT_NAME: Final = PREFIX + "parent-resource-snapshot-name"
CLUSTER_OVERRIDE_HASH: Final = PREFIX + "parent-cluster-resource-override-snapshot-hash"
OVERRIDE_HASH: Final = PREFIX + "parent-resource-override-snapshot-hash"
PREVIOUS_STATE: Final = PREFIX + "previous-binding-state"
SPEC_HASH: Final = PREFIX + "spec-hash"
LAST_APPLIED: Final = PREFIX + "last-applied-configuration"
AGENT_GONE: Final = "corral.dev/agent-gone"
"""On a MemberCluster: nobody is left to answer when it is deleted, so that the hub does not wait."""

# Finalizers
PLACEMENT_CLEANUP: Final = PREFIX + "crp-cleanup"
SCHEDULER_CLEANUP: Final = PREFIX + "scheduler-cleanup"
BINDING_CLEANUP: Final = PREFIX + "scheduler-crb-cleanup"
WORK_CLEANUP: Final = PREFIX + "work-cleanup"
MEMBER_FINALIZER: Final = PREFIX + "membercluster-finalizer"
OVERRIDE_CLEANUP: Final = PREFIX + "override-cleanup"
RUN_FINALIZER: Final = PREFIX + "stagedupdaterun-finalizer"
PROFILE_CLEANUP: Final = PREFIX + "cluster-profile-cleanup"

# Properties
RESOURCE_PROPERTY: Final = "resources.kubernetes-fleet.io/"
NODE_COUNT: Final = "kubernetes-fleet.io/node-count"
K8S_VERSION: Final = "k8s.io/k8s-version"
CLUSTER_ENTRYPOINT: Final = "k8s.io/cluster-entrypoint"
CLUSTER_AUTHORITY: Final = "k8s.io/cluster-certificate-authority-data"


def member_namespace(cluster: str) -> str:
    """The hub namespace of a member's Works."""
    return f"fleet-member-{cluster}"
