"""The configuration of queueing: `config.kueue.x-k8s.io` read once into a frozen value.

Both versions of the file are accepted. Units are in the names; impossible values are refused with the path of the field.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from corral.configuration.devices import device_mappings
from corral.configuration.job_kinds import described_kinds, external_kinds
from corral.configuration.metric_labels import WORKLOAD, CustomLabel, custom_labels, of_kind
from corral.configuration.part import ConfigurationError, Part
from corral.core.meta import Obj
from corral.core.quantity import Quantity
from corral.core.selectors import Selector, from_label_selector
from corral.decide.queueing.model.settings import (
    FINAL_SHARE,
    INITIAL_SHARE,
    AdmissionFairSharing,
    DeviceMapping,
    Features,
    QueueingSettings,
    Transformation,
)
from corral.jobs.framework.adapter import JobAdapter
from corral.jobs.framework.described import JobDescription, described_job
from corral.jobs.framework.registry import adapters, shipped_frameworks, with_implied
from corral.kinds.kueue.gates import FeatureGates
from corral.workload.settings import Retention, WaitForPodsReady

DEFAULT_NAMESPACE = "kueue-system"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueingConfig:
    """Everything configurable about queueing in one cluster."""

    namespace: str = DEFAULT_NAMESPACE
    manage_jobs_without_queue_name: bool = False
    managed_namespaces: Selector = field(
        default_factory=lambda: from_label_selector(_default_selector(DEFAULT_NAMESPACE))
    )
    wait_for_pods_ready: WaitForPodsReady | None = field(default_factory=WaitForPodsReady)
    frameworks: tuple[str, ...] = field(default_factory=shipped_frameworks)
    described_kinds: tuple[JobDescription, ...] = ()
    label_keys_to_copy: tuple[str, ...] = ()
    retention: Retention = field(default_factory=Retention)
    workers: Mapping[str, int] = field(default_factory=dict)
    cluster_queue_resource_metrics: bool = False
    local_queue_metrics: bool = True
    local_queue_selector: Selector = field(default_factory=lambda: from_label_selector({}))
    """LocalQueues that have metrics, by their labels."""
    custom_labels: tuple[CustomLabel, ...] = ()
    """Labels of metrics beside upstream's own; none while their gate is closed."""
    fair_sharing: tuple[str, ...] | None = None
    admission_fair_sharing: AdmissionFairSharing | None = None
    excluded_prefixes: tuple[str, ...] = ()
    ignore_undeclared: bool = False
    transformations: tuple[Transformation, ...] = ()
    device_mappings: tuple[DeviceMapping, ...] = ()
    gates: FeatureGates = field(default_factory=FeatureGates)
    waits_for_victims: bool = True
    victims_give_way: bool = True
    tells_other_cohorts: bool = True
    samples_stopped_queues: bool = True
    requeue_batch_s: float = 0.0

    def job_adapters(self) -> list[JobAdapter]:
        """The adapters of every kind that is queued as a single object, in order."""
        return [*adapters(with_implied(self.frameworks)), *(described_job(kind) for kind in self.described_kinds)]

    @property
    def copied_labels(self) -> tuple[str, ...]:
        """Labels of a job that its Workload carries too."""
        read = (label.label for label in of_kind(self.custom_labels, WORKLOAD) if label.label)
        return tuple(dict.fromkeys((*self.label_keys_to_copy, *read)))

    @property
    def copied_annotations(self) -> tuple[str, ...]:
        """Annotations of a job that its Workload carries too, beside those that mean something to queueing."""
        return tuple(
            dict.fromkeys(label.annotation for label in of_kind(self.custom_labels, WORKLOAD) if label.annotation)
        )

    def settings(self) -> QueueingSettings:
        """The part that scheduling decisions depend on."""
        gates = self.gates
        ready = self.wait_for_pods_ready
        return QueueingSettings(
            fair_sharing=self.fair_sharing is not None,
            fair_sharing_strategies=self.fair_sharing or (FINAL_SHARE, INITIAL_SHARE),
            admission_fair_sharing=self.admission_fair_sharing if gates["AdmissionFairSharing"] else None,
            excluded_prefixes=self.excluded_prefixes,
            transformations=self.transformations,
            device_mappings=self.device_mappings,
            ignore_undeclared=self.ignore_undeclared and gates["QuotaCheckStrategy"],
            eviction_timestamp=ready is None or ready.order_by_eviction,
            block_on_pods_ready=ready is not None and ready.block_admission,
            waits_for_victims=self.waits_for_victims,
            victims_give_way=self.victims_give_way,
            tells_other_cohorts=self.tells_other_cohorts,
            samples_stopped_queues=self.samples_stopped_queues,
            requeue_batch_s=self.requeue_batch_s,
            features=Features(
                partial_admission=gates["PartialAdmission"],
                reclaimable_pods=gates["ReclaimablePods"],
                priority_sorting_within_cohort=gates["PrioritySortingWithinCohort"],
                prioritize_preemptors=gates["PrioritizePreemptorWorkloads"],
                recompute_on_overlap=gates["RecomputeAssignmentUponPreemptionTargetsOverlap"],
                flavor_fungibility=gates["FlavorFungibility"],
                preserve_scan_progress=gates["FlavorFungibilityPreserveScanProgress"],
                fair_sharing_prioritize_non_borrowing=gates["FairSharingPrioritizeNonBorrowing"],
                fair_sharing_preempt_within_nominal=gates["FairSharingPreemptWithinNominal"],
                priority_boost=gates["PriorityBoost"],
                preemption_gates=gates["ConcurrentAdmission"] or gates["MultiKueueOrchestratedPreemption"],
                concurrent_admission=gates["ConcurrentAdmission"],
                timestamp_preemption_buffer=gates["SchedulerTimestampPreemptionBuffer"],
                granular_reasons=gates["UnadmittedWorkloadsObservability"],
                elastic_slices=gates["ElasticJobsViaWorkloadSlices"],
                elastic_slices_with_topology=gates["ElasticJobsViaWorkloadSlicesWithTAS"],
                scheduling_hash=gates["SchedulingEquivalenceHashing"],
                topology=gates["TopologyAwareScheduling"],
                topology_recompute=gates["TASRecomputeAssignmentWithinSchedulingCycle"],
                topology_fail_fast=gates["TASFailedNodeReplacementFailFast"],
                topology_profile_mixed=gates["TASProfileMixed"],
                topology_balanced=gates["TASBalancedPlacement"],
                topology_preferred_affinity=gates["TASRespectNodeAffinityPreferred"],
                topology_overlapping_flavors=gates["TASHandleOverlappingFlavors"],
                admission_gates=gates["AdmissionGatedBy"],
                skip_pod_reassignment=gates["SkipReassignmentForPodOwnedWorkloads"],
                devices=gates["KueueDRAIntegration"],
                devices_extended=gates["KueueDRAIntegrationExtendedResource"],
                devices_partitioned=gates["KueueDRAIntegrationPartitionableDevices"],
                devices_rejected_when_off=gates["KueueDRARejectWorkloadsWhenDRADisabled"],
            ),
        )


def load_config(configuration: Obj | Part) -> QueueingConfig:
    """A Configuration document of `config.kueue.x-k8s.io` as a value. Raises ConfigurationError."""
    document = Part.of(configuration)
    if document.get("kind", "Configuration") != "Configuration":
        raise ConfigurationError(f"kind: expected Configuration, got {document.get('kind')}")
    try:
        gates = FeatureGates(document.get("featureGates"))
    except ValueError as error:
        raise ConfigurationError(f"featureGates: {error}") from error
    external_kinds(document)  # dispatch uses them; what is wrong with one is said with the rest
    namespace = document.text("namespace", DEFAULT_NAMESPACE)
    labels = custom_labels(document.part("metrics").get("customLabels") or ())
    integrations, metrics, own = document.part("integrations"), document.part("metrics"), document.part("corral")
    selector = document.get("managedJobsNamespaceSelector") or _default_selector(namespace)
    resources = document.part("resources")
    prefixes = tuple(resources.get("excludeResourcePrefixes") or ())
    ignore = resources.get("quotaCheckStrategy") == "IgnoreUndeclared"
    if ignore and prefixes:
        raise ConfigurationError(
            "resources.quotaCheckStrategy: IgnoreUndeclared cannot be combined with excludeResourcePrefixes"
        )
    return QueueingConfig(
        namespace=namespace,
        manage_jobs_without_queue_name=document.flag("manageJobsWithoutQueueName"),
        managed_namespaces=from_label_selector(selector),
        wait_for_pods_ready=_wait_for_pods_ready(document.part("waitForPodsReady"), gates),
        frameworks=tuple(integrations.get("frameworks") or ("batch/job",)),
        described_kinds=described_kinds(document),
        label_keys_to_copy=tuple(integrations.get("labelKeysToCopy") or ()),
        retention=_retention(document.part("objectRetentionPolicies").part("workloads")),
        workers=document.part("controller").get("groupKindConcurrency") or {},
        cluster_queue_resource_metrics=metrics.flag("enableClusterQueueResources"),
        local_queue_metrics=metrics.part("localQueueMetrics").flag("enable", True) and gates["LocalQueueMetrics"],
        local_queue_selector=from_label_selector(metrics.part("localQueueMetrics").get("localQueueSelector") or {}),
        custom_labels=labels if gates["CustomMetricLabels"] else (),
        fair_sharing=_fair_sharing(document),
        admission_fair_sharing=_admission_fair_sharing(document),
        excluded_prefixes=prefixes,
        ignore_undeclared=ignore,
        transformations=tuple(_transformation(entry) for entry in resources.get("transformations") or ()),
        device_mappings=_device_mappings(resources.get("deviceClassMappings") or ()),
        gates=gates,
        waits_for_victims=own.flag("waitForVictims", True),
        victims_give_way=own.flag("victimsGiveWay", True),
        tells_other_cohorts=own.flag("tellOtherCohorts", True),
        samples_stopped_queues=own.flag("sampleStoppedQueues", True),
        requeue_batch_s=own.seconds("requeueBatch", 10.0 if gates["SchedulerLongRequeueInterval"] else 0.0),
    )


def _device_mappings(entries: Sequence[Obj]) -> tuple[DeviceMapping, ...]:
    try:
        return device_mappings(entries)
    except ValueError as error:
        raise ConfigurationError(str(error)) from error


def _default_selector(namespace: str) -> Obj:
    excluded = ["kube-system", namespace]
    expression = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": excluded}
    return {"matchExpressions": [expression]}


def _wait_for_pods_ready(part: Part, gates: FeatureGates) -> WaitForPodsReady | None:
    strategy = part.part("requeuingStrategy")
    order = strategy.text("timestamp", "Eviction")
    if order not in ("Eviction", "Creation"):
        raise ConfigurationError(f"waitForPodsReady.requeuingStrategy.timestamp: Unsupported value: {order}")
    timeout = part.seconds("timeout", 1800.0)
    wanted = WaitForPodsReady(
        timeout_s=timeout,
        recovery_timeout_s=part.seconds("recoveryTimeout", timeout) or None,
        block_admission=part.flag("blockAdmission"),
        order_by_eviction=order == "Eviction",
        backoff_limit=strategy.get("backoffLimitCount"),
        backoff_base_s=strategy.number("backoffBaseSeconds", 60),
        backoff_max_s=strategy.number("backoffMaxSeconds", 3600),
    )
    is_on = part.flag("enable", True) and not gates["DisableWaitForPodsReady"]
    return wanted if is_on else None


def _retention(workloads: Part) -> Retention:
    return Retention(
        after_finished_s=workloads.optional_seconds("afterFinished"),
        after_deactivated_s=workloads.optional_seconds("afterDeactivatedByKueue"),
    )


def _fair_sharing(document: Part) -> tuple[str, ...] | None:
    is_set, part = "fairSharing" in document, document.part("fairSharing")
    strategies = tuple(part.get("preemptionStrategies") or (FINAL_SHARE, INITIAL_SHARE))
    if strategies not in ((FINAL_SHARE, INITIAL_SHARE), (FINAL_SHARE,), (INITIAL_SHARE,)):
        raise ConfigurationError(f"fairSharing.preemptionStrategies: Unsupported value: {list(strategies)}")
    return strategies if part.flag("enable", True) and is_set else None


def _admission_fair_sharing(document: Part) -> AdmissionFairSharing | None:
    is_set, part = "admissionFairSharing" in document, document.part("admissionFairSharing")
    wanted = AdmissionFairSharing(
        half_life_s=part.seconds("usageHalfLifeTime", 0.0),
        sampling_interval_s=part.seconds("usageSamplingInterval", 300.0) or 300.0,
        resource_weights={name: float(weight) for name, weight in (part.get("resourceWeights") or {}).items()},
    )
    return wanted if is_set else None


def _transformation(entry: Obj) -> Transformation:
    outputs = {name: str(Quantity.parse(value)) for name, value in (entry.get("outputs") or {}).items()}
    return Transformation(
        input=entry["input"],
        outputs=outputs,
        retain=entry.get("strategy", "Retain") == "Retain",
        multiply_by=entry.get("multiplyBy") or "",
    )
