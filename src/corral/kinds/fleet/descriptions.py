"""What the kinds of a fleet's hub and their fields are for, in the words of `kubectl explain`."""

from __future__ import annotations

from collections.abc import Mapping

from corral.kinds.machinery.describing import Table

_Entry = tuple[str, Mapping[str, str]]
_HEARTBEAT = "Seconds between two reports of the member's agent."
_PROPERTIES = "Facts about the cluster, such as its number of nodes or what a core costs, with the time of observation."
_USAGE = "Resources of the cluster: in all, open to pods, and free."
_AGENTS = "What each agent of the member reports about itself."
_NAMESPACES = "Namespaces of the member that are worth knowing on the hub, and who manages them."


def _placement(selects: str) -> Mapping[str, str]:
    return {
        "spec.policy": "Which clusters get the resources; nothing means all of them.",
        "spec.policy.affinity": "Clusters that are required or preferred, by label or property.",
        "spec.policy.clusterNames": "The clusters by name, where the type is PickFixed.",
        "spec.policy.numberOfClusters": "How many clusters, where the type is PickN.",
        "spec.policy.placementType": "PickAll, PickN, or PickFixed for clusters by name.",
        "spec.policy.tolerations": "Taints of clusters that do not keep the placement away.",
        "spec.policy.topologySpreadConstraints": "How evenly to spread over labels of clusters.",
        "spec.resourceSelectors": selects,
        "spec.revisionHistoryLimit": "How many older versions of the selected resources to keep.",
        "spec.statusReportingScope": "Whether the status is also shown inside the selected namespace.",
        "spec.strategy": "How changes reach the clusters.",
        "spec.strategy.applyStrategy": "How manifests are applied, compared and taken over on members.",
        "spec.strategy.rollingUpdate": "How many clusters may change at a time.",
        "spec.strategy.type": "RollingUpdate, or External when an update run decides about every step.",
        "status.observedResourceIndex": "The version of the selected resources this status speaks of.",
        "status.placementStatuses": "How things stand on each cluster.",
        "status.selectedResources": "What the selectors found at the last look.",
    }


_POLICY_SNAPSHOT = {
    "spec.policy": "The policy as it was.",
    "spec.policyHash": "Tells whether the policy has changed since.",
    "status.observedCRPGeneration": "The generation of the placement the decision was made for.",
    "status.targetClusters": "Every cluster that was looked at: chosen or not, its score, and why.",
}
_RESOURCE_SNAPSHOT = {"spec.selectedResources": "The resources as they were, without what only the hub needs."}
_BINDING = {
    "spec.applyStrategy": "How manifests are applied on this cluster.",
    "spec.clusterDecision": "Why the scheduler chose this cluster.",
    "spec.clusterResourceOverrideSnapshots": "Overrides of cluster-scoped resources that hold here, in order.",
    "spec.resourceOverrideSnapshots": "Overrides of namespaced resources that hold here, in order.",
    "spec.resourceSnapshotName": "The version of the resources this cluster should have.",
    "spec.schedulingPolicySnapshotName": "The version of the policy that chose this cluster.",
    "spec.state": "Scheduled when chosen, Bound when resources may go there, Unscheduled when it has to be left.",
    "spec.targetCluster": "The member.",
    "status.diffedPlacements": "Resources that differ from what is wanted, where differences are only reported.",
    "status.driftedPlacements": "Resources that somebody changed on the member.",
    "status.failedPlacements": "Resources that could not be placed, and why.",
}
_OVERRIDE_SNAPSHOT = {
    "spec.overrideHash": "Tells whether the override has changed since.",
    "spec.overrideSpec": "The override as it was.",
}
_RUN = {
    "spec.placementName": "The placement to roll out.",
    "spec.resourceSnapshotIndex": "The version of its resources to roll out; nothing means the newest.",
    "spec.stagedRolloutStrategyName": "The strategy that tells the stages.",
    "spec.state": "Initialize prepares the run, Run starts or resumes it, Stop pauses it.",
    "status.appliedStrategy": "How manifests are applied during this run.",
    "status.deletionStageStatus": "How far resources are removed from clusters that are no longer chosen.",
    "status.policyObservedClusterCount": "How many clusters the policy had chosen when the run was prepared.",
    "status.policySnapshotIndexUsed": "The version of the policy the run works with.",
    "status.resourceSnapshotIndexUsed": "The version of the resources the run works with.",
    "status.stagedUpdateStrategySnapshot": "The stages as they were when the run was prepared.",
    "status.stagesStatus": "How far each stage is, cluster by cluster.",
}
_STRATEGY = {
    "spec.stages": "The stages, one after the other.",
    "spec.stages.afterStageTasks": "What has to happen before the next stage: waiting, or an approval.",
    "spec.stages.labelSelector": "Clusters of this stage, by label.",
    "spec.stages.maxConcurrency": "How many clusters of the stage may change at a time.",
    "spec.stages.name": "The name of the stage.",
    "spec.stages.sortingLabelKey": "The label whose number orders the clusters of the stage.",
}
_APPROVAL = {
    "spec.parentStageRollout": "The update run that waits.",
    "spec.targetStage": "The stage that wants to go on.",
}

_MEMBERS: dict[str, _Entry] = {
    "MemberCluster": (
        "A cluster of the fleet, seen from its hub. Creating one lets the cluster join, deleting it makes it leave.",
        {
            "spec.deleteOptions": "What happens on the member when it leaves.",
            "spec.heartbeatPeriodSeconds": _HEARTBEAT,
            "spec.identity": "Who the member's agent is on the hub: a user, group or service account.",
            "spec.taints": "Keep placements away that do not tolerate them.",
            "status.agentStatus": _AGENTS,
            "status.namespaces": _NAMESPACES,
            "status.properties": _PROPERTIES,
            "status.resourceUsage": _USAGE,
        },
    ),
    "InternalMemberCluster": (
        "Between hub and agent: the hub says whether the member belongs to the fleet, the agent reports.",
        {
            "spec.heartbeatPeriodSeconds": _HEARTBEAT,
            "spec.state": "Whether the member should join or leave.",
            "status.agentStatus": _AGENTS,
            "status.namespaces": _NAMESPACES,
            "status.properties": _PROPERTIES,
            "status.resourceUsage": _USAGE,
        },
    ),
    "ClusterProfile": (
        "A member as other tools see it: healthy or not, its version, its properties, how to reach it.",
        {
            "spec.clusterManager": "Who looks after the cluster.",
            "spec.displayName": "A name for people.",
            "status.accessProviders": "Ways to reach the cluster.",
            "status.properties": "Facts about the cluster as names and values.",
            "status.version": "The version of its Kubernetes API.",
        },
    ),
}
_PLACEMENTS: dict[str, _Entry] = {
    "ClusterResourcePlacement": (
        "Puts cluster-scoped resources, and namespaces with all they contain, on chosen member clusters.",
        _placement("Resources of the hub to place: by kind, and by name or label."),
    ),
    "ResourcePlacement": (
        "Puts resources of its own namespace on chosen member clusters.",
        _placement("Resources of this namespace to place: by kind, and by name or label."),
    ),
    "ClusterResourcePlacementStatus": (
        "The status of a ClusterResourcePlacement, copied into the namespace it places.",
        {"lastUpdatedTime": "When the copy was made.", "sourceStatus": "The status as it is on the placement."},
    ),
    "ClusterResourcePlacementEviction": (
        "Takes what a placement put on one cluster away from there, once.",
        {"spec.clusterName": "The cluster to take it from.", "spec.placementName": "The placement."},
    ),
    "ClusterResourcePlacementDisruptionBudget": (
        "Limits how many clusters evictions may take from the placement of the same name at a time.",
        {
            "spec.maxUnavailable": "The most clusters that may be without it: a number or a percentage.",
            "spec.minAvailable": "The fewest clusters that must have it: a number or a percentage.",
        },
    ),
    "ClusterSchedulingPolicySnapshot": ("A version of the policy of a ClusterResourcePlacement.", _POLICY_SNAPSHOT),
    "SchedulingPolicySnapshot": ("A version of the policy of a ResourcePlacement.", _POLICY_SNAPSHOT),
    "ClusterResourceSnapshot": ("A version of what a ClusterResourcePlacement selected.", _RESOURCE_SNAPSHOT),
    "ResourceSnapshot": ("A version of what a ResourcePlacement selected.", _RESOURCE_SNAPSHOT),
    "ClusterResourceBinding": ("Ties a ClusterResourcePlacement to one cluster that was chosen for it.", _BINDING),
    "ResourceBinding": ("Ties a ResourcePlacement to one cluster that was chosen for it.", _BINDING),
}
_WORKS: dict[str, _Entry] = {
    "Work": (
        "Manifests for one member, in that member's namespace on the hub; its agent applies them and reports.",
        {
            "spec.applyStrategy": "How the manifests are applied.",
            "spec.reportBackStrategy": "Whether statuses of the applied objects come back to the hub.",
            "spec.workload": "The manifests.",
            "status.manifestConditions": "How it went with each manifest.",
        },
    ),
    "AppliedWork": (
        "What a Work has put on this member, so that it can be removed again.",
        {
            "spec.workName": "The Work on the hub.",
            "spec.workNamespace": "Its namespace on the hub.",
            "status.appliedResources": "The objects it put here.",
        },
    ),
    "ClusterResourceEnvelope": (
        "Wraps cluster-scoped manifests that should reach members and have no effect on the hub.",
        {"data": "The manifests by name."},
    ),
    "ResourceEnvelope": (
        "Wraps manifests of its namespace that should reach members and have no effect on the hub.",
        {"data": "The manifests by name."},
    ),
}
_OVERRIDES: dict[str, _Entry] = {
    "ClusterResourceOverride": (
        "Changes cluster-scoped resources on their way to some members.",
        {
            "spec.clusterResourceSelectors": "The resources to change.",
            "spec.placement": "Only changes what this placement puts on members.",
            "spec.policy": "Rules: on which clusters, and what is changed or left out there.",
        },
    ),
    "ResourceOverride": (
        "Changes resources of its namespace on their way to some members.",
        {
            "spec.placement": "Only changes what this placement puts on members.",
            "spec.policy": "Rules: on which clusters, and what is changed or left out there.",
            "spec.resourceSelectors": "The resources to change.",
        },
    ),
    "ClusterResourceOverrideSnapshot": ("A version of a ClusterResourceOverride.", _OVERRIDE_SNAPSHOT),
    "ResourceOverrideSnapshot": ("A version of a ResourceOverride.", _OVERRIDE_SNAPSHOT),
}
_RUNS: dict[str, _Entry] = {
    "ClusterStagedUpdateRun": ("Rolls out a ClusterResourcePlacement stage by stage.", _RUN),
    "StagedUpdateRun": ("Rolls out a ResourcePlacement stage by stage.", _RUN),
    "ClusterStagedUpdateStrategy": ("The stages of update runs of ClusterResourcePlacements.", _STRATEGY),
    "StagedUpdateStrategy": ("The stages of update runs of ResourcePlacements.", _STRATEGY),
    "ClusterApprovalRequest": (
        "Asks somebody to let a ClusterStagedUpdateRun go on: set its condition Approved.",
        _APPROVAL,
    ),
    "ApprovalRequest": ("Asks somebody to let a StagedUpdateRun go on: set its condition Approved.", _APPROVAL),
}

DESCRIPTIONS: Table = {
    "*": (
        "",
        {
            "spec": "What is wanted.",
            "status": "What was observed.",
            "status.conditions": "What is known about it at present, one entry per type.",
        },
    ),
    **_MEMBERS,
    **_PLACEMENTS,
    **_WORKS,
    **_OVERRIDES,
    **_RUNS,
}
