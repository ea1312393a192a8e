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
        "MultiKueueWaitForWorkloadAdmitted",
        "MultiKueueRedoAdmissionOnEvictionInWorker",
        "MultiKueueAllowInsecureKubeconfigs",
    }
)


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

    def __getitem__(self, name: str) -> bool:
        return self._overrides.get(name, name in ON_BY_DEFAULT)
