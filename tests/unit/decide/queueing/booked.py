"""One queue with reservations in it, as the preemption code sees them, without objects or a state."""

from __future__ import annotations

from corral.core.meta import Key
from corral.decide.queueing.model.values import (
    ClusterQueueSpec,
    FlavorResource,
    PreemptionPolicy,
    ResourceQuota,
    WorkloadInfo,
)
from corral.decide.queueing.quota.cluster_queue import ClusterQueue, Reservation
from corral.decide.queueing.quota.tree import QuotaForest, QuotaNode
from corral.decide.queueing.topology.cluster import TopologyCluster

CPU = FlavorResource("default", "cpu")
MEMORY = FlavorResource("default", "memory")
NOW = 1_000.0


def workload(
    name: str,
    *,
    priority: int = 0,
    reserved: float | None = 0.0,
    created: float = 0.0,
    evicted: bool = False,
    uid: str = "",
) -> WorkloadInfo:
    return WorkloadInfo(
        key=Key("default", name),
        uid=uid or name,
        queue="lq",
        priority=priority,
        base_priority=priority,
        created=created,
        order_time=created,
        pod_sets=(),
        shape=(),
        evicted=evicted,
        reserved_at=reserved,
    )


class Queues:
    """ClusterQueues of one cohort, by name."""

    def __init__(self, policy: PreemptionPolicy, **nominal: int) -> None:
        self.forest = QuotaForest()
        self.by_node: dict[QuotaNode, ClusterQueue] = {}
        self.by_name: dict[str, ClusterQueue] = {}
        for name, amount in nominal.items():
            quotas = {CPU: ResourceQuota(amount)}
            node = self.forest.set_queue(name, "cohort", quotas, 1.0)
            spec = ClusterQueueSpec(name=name, quotas=quotas, preemption=policy)
            self.by_node[node] = self.by_name[name] = ClusterQueue(spec, node, TopologyCluster())
        self.forest.settle()

    def book(self, queue: str, info: WorkloadInfo, amount: int = 1, column: FlavorResource = CPU) -> Reservation:
        reservation = Reservation(info, self.by_name[queue], (), {column: amount}, {})
        self.by_name[queue].add(reservation)
        return reservation
