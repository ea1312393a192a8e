"""Feature gates under their upstream names, with the defaults of upstream's release."""

from __future__ import annotations

from collections.abc import Mapping

ON_BY_DEFAULT = frozenset(
    [
        "AdmissionFairSharing",
        "AdmissionGatedBy",
        "AssignQueueLabelsForPods",
        "CleanupProvisioningRequestsOnEviction",
        "DeferRayServiceFinalizationForRedisCleanup",
        "ElasticJobsViaWorkloadSlices",
        "FairSharingPreemptWithinNominal",
        "FairSharingPrioritizeNonBorrowing",
        "FinishOrphanedWorkloads",
        "FlavorFungibility",
        "FlavorFungibilityPreserveScanProgress",
        "HierarchicalCohorts",
        "KueueDRAIntegration",
        "KueueDRAIntegrationExtendedResource",
        "KueueDRAIntegrationPartitionableDevices",
        "KueueDRARejectWorkloadsWhenDRADisabled",
        "LWSImmutableGroupSize",
        "LocalQueueDefaulting",
        "LocalQueueMetrics",
        "ManagedJobsNamespaceSelectorAlwaysRespected",
        "MetricForWorkloadCreationLatency",
        "MetricsForCohorts",
        "MultiKueue",
        "MultiKueueAdaptersForCustomJobs",
        "MultiKueueBatchJobWithManagedBy",
        "MultiKueueIncrementalDispatcherConfig",
        "MultiKueueIncrementalDispatcherRespectConfigOrder",
        "MultiKueueRedoAdmissionOnEvictionInWorker",
        "MultiKueueRemoteSpecSync",
        "MultiKueueWaitForWorkloadAdmitted",
        "ObjectRetentionPolicies",
        "PartialAdmission",
        "PodIntegrationValidateGroupOwner",
        "PrioritySortingWithinCohort",
        "PropagateBatchJobLabelsToWorkload",
        "QuotaCheckStrategy",
        "ReclaimablePods",
        "RemoveFinalizersWithStrictPatch",
        "SchedulingEquivalenceHashing",
        "SkipAncestorCheckForDeletedWorkloads",
        "SkipFinalizersForPodsSuspendedByParent",
        "SkipReassignmentForPodOwnedWorkloads",
        "TASAssignmentsEncodingByHostnamePrefix",
        "TASCacheNodeMatchResults",
        "TASCachingRemainingResources",
        "TASFailedNodeReplacement",
        "TASFailedNodeReplacementFailFast",
        "TASHandleOverlappingFlavors",
        "TASMultiLayerTopology",
        "TASProfileMixed",
        "TASRecomputeAssignmentWithinSchedulingCycle",
        "TASReplaceNodeOnNodeTaints",
        "TASReplaceNodeOnPodTermination",
        "TASValidateWorkloadSliceSize",
        "TLSOptions",
        "TopologyAwareScheduling",
        "ValidateRayAndSparkJobUpdates",
        "VectorizedResourceRequests",
        "VisibilityOnDemand",
        "WorkloadIdentifierAnnotations",
        "WorkloadValidateResourcesAreNonNegative",
        "WorkloadValidationForPodSetMetadata",
    ]
)

OFF_BY_DEFAULT = frozenset(
    [
        "ConcurrentAdmission",
        "CustomMetricLabels",
        "DisableWaitForPodsReady",
        "ElasticJobsViaWorkloadSlicesWithTAS",
        "FailureRecoveryPolicy",
        "FastQuotaReleaseInPodIntegration",
        "KueueDRAIntegrationConsumableCapacity",
        "MultiKueueAllowInsecureKubeconfigs",
        "MultiKueueClusterProfile",
        "MultiKueueKubeConfigPathValidation",
        "MultiKueueManagerQuotaAutomation",
        "MultiKueueOrchestratedPreemption",
        "PrioritizePreemptorWorkloads",
        "PriorityBoost",
        "RecomputeAssignmentUponPreemptionTargetsOverlap",
        "RejectUpdatesToCQWithInvalidOnFlavors",
        "SchedulerLibraryIntegration",
        "SchedulerLongRequeueInterval",
        "SchedulerTimestampPreemptionBuffer",
        "ShortWorkloadNames",
        "SparkApplicationIntegration",
        "TASBalancedPlacement",
        "TASCacheTopologyTree",
        "TASReplaceNodeDueToNotReadyOverFixedTime",
        "TASRespectNodeAffinityPreferred",
        "UnadmittedWorkloadsExplicitStatus",
        "UnadmittedWorkloadsObservability",
        "WorkloadPriorityClassDefaulting",
        "WorkloadRequestUseMergePatch",
    ]
)

LOCKED = frozenset(
    {
        "HierarchicalCohorts",
        "ManagedJobsNamespaceSelectorAlwaysRespected",
        "MultiKueueAllowInsecureKubeconfigs",
        "MultiKueueBatchJobWithManagedBy",
        "MultiKueueRedoAdmissionOnEvictionInWorker",
        "MultiKueueWaitForWorkloadAdmitted",
        "ObjectRetentionPolicies",
        "PropagateBatchJobLabelsToWorkload",
        "SkipFinalizersForPodsSuspendedByParent",
    }
)
"""Upstream keeps these at their defaults, too: what they were about is part of the product."""

INERT: Mapping[str, str] = {
    "DeferRayServiceFinalizationForRedisCleanup": "a RayService is finished when its clusters are gone; no Redis is cleaned up",
    "FailureRecoveryPolicy": "pods of lost nodes end by Corral's own node life cycle",
    "KueueDRAIntegrationConsumableCapacity": "`capacity` sources of devices are not counted",
    "RemoveFinalizersWithStrictPatch": "finalizers are always removed with a check of what was read",
    "SchedulerLibraryIntegration": "nodes are judged by Corral's own scheduler",
    "SkipAncestorCheckForDeletedWorkloads": "owners are looked up in a cache; there is no request to save",
    "SparkApplicationIntegration": "SparkApplications are not queued",
    "TASAssignmentsEncodingByHostnamePrefix": "assignments are always written in the shortest form",
    "TASCacheNodeMatchResults": "how nodes are matched is remembered in Corral's own way",
    "TASCacheTopologyTree": "the tree of nodes is maintained, never built anew",
    "TASCachingRemainingResources": "what nodes have left is maintained, never computed anew",
    "TLSOptions": "Corral's API server answers, with TLS settings of its own",
    "VectorizedResourceRequests": "resources are counted in Corral's own way",
}
"""Gates that change nothing here, and why. Whoever moves one from its default is told."""


class FeatureGates:
    """Which gates are open. Unknown names are refused when the configuration is read, not when asked for."""

    def __init__(self, overrides: Mapping[str, bool] | None = None) -> None:
        for name, value in (overrides or {}).items():
            if name not in ON_BY_DEFAULT and name not in OFF_BY_DEFAULT:
                raise ValueError(f"unrecognized feature gate: {name}")
            if name in LOCKED and value != (name in ON_BY_DEFAULT):
                raise ValueError(
                    f"cannot set feature gate {name} to {str(value).lower()}, feature is locked to "
                    f"{str(name in ON_BY_DEFAULT).lower()}"
                )
        self._overrides = dict(overrides or {})

    def inert(self) -> dict[str, str]:
        """The gates that were moved from their defaults and change nothing, with the reason."""
        moved = (name for name, value in self._overrides.items() if value != (name in ON_BY_DEFAULT))
        return {name: INERT[name] for name in sorted(moved) if name in INERT}

    def __getitem__(self, name: str) -> bool:
        return self._overrides.get(name, name in ON_BY_DEFAULT)
