"""Puts queueing together: state, caches, controllers and admission plug-ins of one cluster."""

from __future__ import annotations

from corral.configuration.queueing import QueueingConfig, load_config
from corral.controllers.queueing.admission.lookups import ClusterReader
from corral.controllers.queueing.admission.plugins import QueuedJobs, QueueObjects
from corral.controllers.queueing.admission.pods import QueuedPods
from corral.controllers.queueing.context import QueueingContext
from corral.controllers.queueing.jobs.controller import JobController
from corral.controllers.queueing.jobs.elastic import ElasticUngater
from corral.controllers.queueing.jobs.management_scope import ManagedJobs
from corral.controllers.queueing.metrics import QueueingMetrics
from corral.controllers.queueing.pods.controller import PodController
from corral.controllers.queueing.pods.serving_sets import ServingController
from corral.controllers.queueing.provisioning import ProvisioningChecks
from corral.controllers.queueing.queues.explanations import Explanations
from corral.controllers.queueing.queues.references import PriorityClassController, in_use_controllers
from corral.controllers.queueing.queues.status import (
    ClusterQueueController,
    CohortController,
    LocalQueueController,
    Recounts,
)
from corral.controllers.queueing.queues.visibility import Visibility
from corral.controllers.queueing.scheduler import Scheduler
from corral.controllers.queueing.state_feed import DeviceCaches, StateFeed
from corral.controllers.queueing.topology.controller import TopologyUngater
from corral.controllers.queueing.topology.node_failures import NodeFailureController
from corral.controllers.queueing.workloads.controller import WorkloadController
from corral.controllers.queueing.workloads.owners import WorkloadOwners
from corral.controllers.queueing.workloads.variants import VariantController
from corral.controllers.queueing.workloads.waiting_counts import UnadmittedCounts
from corral.core.admission import AdmissionPlugin
from corral.core.meta import Key, Obj, labels_of
from corral.core.resource import Resource
from corral.decide.queueing.state import QueueingState
from corral.jobs.framework.registry import POD, queued_sets, with_implied
from corral.kinds.kubernetes.core.kinds import LIMIT_RANGES, NODES, PODS
from corral.kinds.kubernetes.dynamic_resources import DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES
from corral.kinds.kubernetes.node import RUNTIME_CLASSES
from corral.runtime.controller import Manager
from corral.runtime.informer import Reader
from corral.workload.waiting_reasons import is_granular

ALWAYS_SERVED = frozenset(("", "apps", "batch", "node.k8s.io", "scheduling.k8s.io", "kueue.x-k8s.io"))


def may_be_missing(resource: Resource) -> bool:
    """Whether a cluster may lack a kind that queueing follows: somebody else's kind of job, devices before Kubernetes 1.34."""
    return resource.group not in ALWAYS_SERVED


def queueing_plugins(config: QueueingConfig, reader: ClusterReader) -> list[AdmissionPlugin]:
    """What admits jobs, pods and the objects of queues; `reader` looks up what that depends on."""
    return [QueueObjects(config), QueuedJobs(config, reader), QueuedPods(config, reader)]


class Queueing:
    """Everything that queues jobs in one cluster. `state` answers questions about it."""

    def __init__(self, config: QueueingConfig | None = None) -> None:
        self.config = config or QueueingConfig()
        self.state = QueueingState(self.config.settings())
        self._reader = ClusterReader()
        self._workloads: Reader | None = None
        self.visibility = Visibility(self.state, self._find_workload)
        """The virtual API that shows who waits; mount it on the API server."""
        self.explanations = Explanations(self.state)
        """The virtual API that says why."""
        self.plugins = queueing_plugins(self.config, self._reader)

    def setup(self, manager: Manager, metrics: QueueingMetrics | None = None) -> None:
        """Register all controllers with `manager` and let the plug-ins read through its client."""
        manager.do_without(may_be_missing)
        if manager.cpu is not None:
            self.state.charge(manager.cpu)
        self._reader.attach(manager.client)
        context = QueueingContext(manager, self.config)
        self._workloads = context.caches.workloads
        if metrics is None:
            metrics = metrics_of(manager, self.config)
        local_queues, selector = context.caches.local_queues, self.config.local_queue_selector
        metrics.selected = lambda key: selector.matches(labels_of(local_queues.get(key) or {}))
        metrics.ancestors = self.state.questions.ancestors
        metrics.follow(context.caches.cluster_queues, context.caches.local_queues, context.caches.cohorts)
        context.caches.workloads.on_change(metrics.workload_changed)
        if is_granular(self.config.gates):
            UnadmittedCounts(context.caches, metrics).connect()
        scheduler = Scheduler(context, self.state, metrics)
        topology = self.config.gates["TopologyAwareScheduling"]
        StateFeed(self.state, scheduler.look).connect(
            context.caches,
            limits=manager.informer(LIMIT_RANGES),
            classes=manager.informer(RUNTIME_CLASSES),
            nodes=manager.informer(NODES) if topology else None,
            pods=manager.informer(PODS) if topology else None,
            devices=self._device_caches(manager),
        )
        scheduler.wake()
        WorkloadController(context, metrics, self.state)
        recounts = Recounts()
        ClusterQueueController(context, self.state, metrics, recounts)
        LocalQueueController(context, self.state, metrics, recounts)
        context.caches.workloads.on_change(recounts.changed)
        CohortController(context, self.state, metrics)
        PriorityClassController(context)
        ProvisioningChecks(context)
        in_use_controllers(context)
        if topology:
            TopologyUngater(context, metrics)
            if self.config.gates["TASFailedNodeReplacement"]:
                NodeFailureController(context, metrics)
        if self.config.gates["ElasticJobsViaWorkloadSlices"]:
            ElasticUngater(context)
        if self.config.gates["ConcurrentAdmission"]:
            VariantController(context, metrics)
        self._set_up_jobs(context, metrics)

    def _device_caches(self, manager: Manager) -> DeviceCaches | None:
        if not self.config.gates["KueueDRAIntegration"]:
            return None
        return DeviceCaches(*map(manager.informer, (DEVICE_CLASSES, RESOURCE_CLAIM_TEMPLATES, RESOURCE_SLICES)))

    def _find_workload(self, key: Key) -> Obj | None:
        return self._workloads.get(key) if self._workloads is not None else None

    def _set_up_jobs(self, context: QueueingContext, metrics: QueueingMetrics) -> None:
        managed = ManagedJobs(self.config, context.caches.namespaces, self._reader)
        frameworks = with_implied(self.config.frameworks)
        owners = WorkloadOwners()
        for adapter in self.config.job_adapters():
            if adapter.framework != POD:
                JobController(context, adapter, managed, metrics, owners)
        if POD in frameworks:
            PodController(context, managed, metrics, owners)
        for queued in queued_sets(frameworks):
            if queued.holds_pods:
                ServingController(context, queued, managed, metrics, owners)
        context.caches.workloads.on_change(owners.changed)


def metrics_of(manager: Manager, config: QueueingConfig) -> QueueingMetrics:
    """The metrics of queueing with this configuration; a registry has room for them once."""
    return QueueingMetrics(manager.metrics, local_queues=config.local_queue_metrics, custom_labels=config.custom_labels)


def set_up_queueing(manager: Manager, document: Obj | None = None) -> list[AdmissionPlugin]:
    """Queue jobs on the cluster of `manager` as a `config.kueue.x-k8s.io` document says; returns the plug-ins to admit with."""
    queueing = Queueing(load_config(document) if document else None)
    queueing.setup(manager)
    return queueing.plugins


def set_up_visibility(manager: Manager, config: QueueingConfig) -> Visibility:
    """Who waits in a queue, in a process that need not be the one that admits: it follows queues and Workloads, and no more."""
    state, context = QueueingState(config.settings()), QueueingContext(manager, config)
    StateFeed(state, _nobody_plans).connect(
        context.caches,
        limits=manager.informer(LIMIT_RANGES),
        classes=manager.informer(RUNTIME_CLASSES),
        nodes=None,
        pods=None,
    )
    return Visibility(state, context.caches.workloads.get)


def _nobody_plans() -> None:
    """Whom a state wakes that is only looked at."""
