"""What may be asked of the queueing state: numbers for statuses, places in queues, reasons to wait."""

from __future__ import annotations

from collections.abc import Iterable

from corral.core.meta import Key
from corral.decide.queueing import views
from corral.decide.queueing.cycle.checks import required_checks
from corral.decide.queueing.cycle.plan import PodSetAssignment
from corral.decide.queueing.explain import Explainer, refusal
from corral.decide.queueing.explanation import Explanation
from corral.decide.queueing.model.values import Amounts
from corral.decide.queueing.queue.requeue_triggers import RequeueTriggers
from corral.decide.queueing.queue.waiting import WaitingWorkloads
from corral.decide.queueing.world import World


class Questions:
    """Answers about a queueing state; asking changes nothing that is decided."""

    def __init__(self, world: World, requeue_triggers: RequeueTriggers, waiting: WaitingWorkloads) -> None:
        self._world, self._requeue_triggers, self._waiting = world, requeue_triggers, waiting

    # -- queues and cohorts ---------------------------------------------------------------------------------------

    def pending(self, cluster_queue: str) -> list[views.PendingView]:
        """Waiting workloads of a ClusterQueue in the order they are tried, with their positions."""
        queue = self._world.pending.get(cluster_queue)
        return views.pending_views(queue) if queue is not None else []

    def cluster_queue(self, name: str) -> views.ClusterQueueView | None:
        queue = self._world.queues.get(name)
        if queue is None:
            return None
        self._requeue_triggers.settle_structure()
        return views.cluster_queue_view(self._world, queue)

    def local_queue(self, key: Key) -> views.LocalQueueView | None:
        spec = self._world.local_queues.get(key)
        if spec is None:
            return None
        self._requeue_triggers.settle_structure()
        return views.local_queue_view(self._world, spec)

    def cohort(self, name: str) -> views.CohortView | None:
        node = self._world.forest.cohorts.get(name)
        if node is None:
            return None
        self._requeue_triggers.settle_structure()
        return views.cohort_view(self._world, node)

    def ancestors(self, cluster_queue: str) -> list[str]:
        """Cohorts above a ClusterQueue, nearest first."""
        queue = self._world.queues.get(cluster_queue)
        if queue is None:
            return []
        self._requeue_triggers.settle_structure()
        return [node.name for node in queue.node.path()]

    def members(self, cohort: str) -> tuple[list[str], list[str]]:
        """Cohorts and ClusterQueues below a cohort at any depth, the cohort itself among the first."""
        node = self._world.forest.cohorts.get(cohort)
        if node is None:
            return [], []
        self._requeue_triggers.settle_structure()
        cohorts = [node]
        for member in cohorts:
            cohorts.extend(member.cohorts.values())
        return [member.name for member in cohorts], [queue.name for queue in node.subtree_queues()]

    def required_checks(
        self, cluster_queue: str, pod_sets: Iterable[PodSetAssignment] | None = None
    ) -> tuple[str, ...]:
        """Admission checks a workload of this queue must pass, given the flavors it was assigned."""
        queue = self._world.queues.get(cluster_queue)
        if queue is None:
            return ()
        return required_checks(queue, None if pod_sets is None else tuple(pod_sets))

    def local_queue_history(self, key: Key) -> tuple[Amounts, float | None]:
        """Consumed resources (billionths) and when they were last sampled, for the LocalQueue's status."""
        return self._world.ledger.consumed(str(key))

    def next_sample_in(self, key: Key, now: float) -> float:
        """Seconds until `sample_local_queue` has something to do."""
        return self._world.ledger.next_sample_in(str(key), now)

    # -- workloads ------------------------------------------------------------------------------------------------

    def explain(self, key: Key) -> Explanation | None:
        """Where a workload stands and what it waits for."""
        return next(iter(self.explain_all([key])), None)

    def explain_all(self, keys: Iterable[Key]) -> list[Explanation]:
        """The same of many; those that nobody knows are left out."""
        self._requeue_triggers.settle_structure()
        explainer = Explainer(self._world)
        return [explainer.explain(info) for key in keys if (info := self._world.workloads.get(key)) is not None]

    def refusal(self, key: Key) -> str:
        """Why a waiting workload would be refused whatever the quota; empty when it would be tried."""
        info = self._world.workloads.get(key)
        return refusal(self._world, info) if info is not None else ""

    def no_fit_reason(self, key: Key) -> str | None:
        """Why workloads like this one are known not to fit; None when it would be tried."""
        info = self._world.workloads.get(key)
        pending = self._world.pending_of(info) if info is not None else None
        return pending.no_fit_reason(key) if pending is not None else None

    def last_message(self, key: Key) -> tuple[str, str] | None:
        """Reason and message of the last verdict on a waiting workload, or on those like it."""
        info = self._world.workloads.get(key)
        pending = self._world.pending_of(info) if info is not None else None
        verdict = pending.verdict_of(key) if pending is not None else None
        return (verdict.reason, verdict.message) if verdict is not None and verdict.message else None

    def device_users(self) -> list[Key]:
        """Workloads whose pods use devices and that hold no quota."""
        return [key for key, info in self._world.workloads.items() if info.uses_devices and not info.reserving]

    def uncounted(self, key: Key) -> str:
        """Why the devices of a waiting workload cannot be counted; empty when they can."""
        info = self._world.workloads.get(key)
        return info.uncounted if info is not None else ""

    # -- plans ----------------------------------------------------------------------------------------------------

    @property
    def next_alarm(self) -> float | None:
        """When a plan is due although nothing happens until then."""
        alarms = (self._waiting.next_alarm, self._requeue_triggers.next_at)
        return min((at for at in alarms if at is not None), default=None)

    def needs_cycle(self, now: float) -> bool:
        """Could a plan decide anything new?"""
        alarm = self._waiting.next_alarm
        due = alarm is not None and alarm <= now
        return bool(self._world.dirty or self._world.second_pass or self._requeue_triggers.is_due(now) or due)

    def is_at_rest(self, key: Key, now: float) -> bool:
        """Whether a workload waits and no plan is due that could say something about it."""
        info = self._world.workloads.get(key)
        pending = self._world.pending_of(info) if info is not None else None
        return pending is not None and key in pending.items and not self.needs_cycle(now)
