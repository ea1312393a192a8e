"""The dispatch controllers of a manager: connections to workers, admission checks, Workloads, garbage."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from corral.configuration.dispatch import DispatchSettings
from corral.controllers.dispatch.copies.garbage import CollectGarbage
from corral.controllers.dispatch.copies.worker_answers import WorkerAnswers
from corral.controllers.dispatch.metrics import DispatchMetrics
from corral.controllers.dispatch.remote_pods.changes import History
from corral.controllers.dispatch.remote_pods.index import RemotePods
from corral.controllers.dispatch.remote_pods.kept_pods import KeptPods
from corral.controllers.dispatch.workers.admission_checks import MultiKueueChecks
from corral.controllers.dispatch.workers.clusters import Connect, MultiKueueClusters, WorkerListeners
from corral.controllers.dispatch.workers.quota_automation import QuotaAutomation
from corral.controllers.dispatch.workers.remotes import Remotes
from corral.controllers.dispatch.workloads import DispatchWorkloads
from corral.decide.dispatch.model import LATE_BINDING
from corral.jobs.framework.adapter import JobAdapter
from corral.jobs.framework.registry import queued_set
from corral.runtime.controller import Manager


def set_up_dispatch(
    manager: Manager,
    settings: DispatchSettings,
    connect: Connect,
    adapters: Sequence[JobAdapter],
    kept: KeptPods | None = None,
    answers: WorkerAnswers | None = None,
) -> Remotes:
    """Register the dispatch controllers with a manager; returns the workers, to be closed when it stops.

    `kept` is for a manager whose own API shows what is left of finished jobs, `answers` for one whose API says what workers
    say about Workloads that wait.
    """
    remotes = Remotes()
    if not settings.enabled:
        return remotes
    metrics = manager.metrics.part(DispatchMetrics)  # the same after a restart
    workloads = DispatchWorkloads(manager, settings, remotes, adapters, metrics, kept, answers)
    kinds = [adapter.resource for adapter in adapters]
    followers = [workloads.queues_changed] if settings.dispatcher == LATE_BINDING else []
    if settings.automates_quota:
        quotas = QuotaAutomation(manager, remotes)
        followers.append(quotas.queues_changed)

    def queues_changed(cluster: str) -> None:
        for follower in followers:
            follower(cluster)

    listeners = WorkerListeners(
        workloads.wake,
        workloads.cluster_connected,
        workloads.leave,
        workloads.cluster_left,
        queues_changed if followers else None,
    )
    MultiKueueClusters(manager, settings, remotes, connect, kinds, listeners, metrics)
    MultiKueueChecks(manager)
    CollectGarbage(manager, settings, remotes)
    return remotes


def set_up_remote_pods(
    manager: Manager,
    settings: DispatchSettings,
    remotes: Remotes,
    adapters: Sequence[JobAdapter],
    revision: Callable[[], int],
    kept: KeptPods | None = None,
    history: History | None = None,
) -> RemotePods:
    """What an API server beside the manager needs to show and reach the pods of dispatched jobs.

    With a `history` that is used again, whoever follows changes goes on following after a restart of the controllers.
    """
    kinds = [adapter.resource for adapter in adapters]
    gated = [adapter.resource for adapter in adapters if queued_set(adapter.framework) is not None]
    return RemotePods(manager, remotes, kinds, settings.origin, revision, kept, settings.remote_pods, gated, history)
