"""Whom a preemption policy lets go, and in which order candidates are considered."""

from __future__ import annotations

import pytest
from msgspec import structs

from corral.core.meta import Key
from corral.decide.queueing.cycle.preemption.candidates import Preemptor, candidate_order, satisfies_policy
from corral.decide.queueing.model.settings import Features, QueueingSettings
from corral.decide.queueing.model.values import ClusterQueueSpec, WorkloadInfo
from corral.decide.queueing.model.workload import WorkloadDecoder
from corral.decide.queueing.quota.cluster_queue import ClusterQueue, Reservation
from corral.decide.queueing.quota.tree import QuotaForest
from corral.decide.queueing.topology.cluster import TopologyCluster
from corral.testing.queueing import make_workload

NOW = 10_000.0


def queue(name: str, *, by_usage: bool = False) -> ClusterQueue:
    spec = ClusterQueueSpec(name, admission_fair_sharing=by_usage)
    return ClusterQueue(spec, QuotaForest().set_queue(name, "", {}, 1.0), TopologyCluster())


OWN, OTHER = queue("own"), queue("other")


def workload(
    name: str,
    priority: int = 0,
    created: float = 0.0,
    reserved: float | None = 0.0,
    evicted: bool = False,
    local_queue: str = "lq",
) -> WorkloadInfo:
    return WorkloadInfo(
        key=Key("ns", name),
        uid=name,
        queue=local_queue,
        priority=priority,
        base_priority=priority,
        created=created,
        order_time=created,
        pod_sets=(),
        shape=(),
        evicted=evicted,
        reserved_at=reserved,
    )


def preemptor(priority: int = 0, created: float = 0.0, buffer: bool = False) -> Preemptor:
    return Preemptor(workload("me", priority, created), OWN, frozenset(), {}, NOW, timestamp_buffer=buffer)


@pytest.mark.parametrize(
    ("policy", "mine", "theirs", "buffer", "expected"),
    [
        pytest.param("LowerPriority", (2, 0), (1, 0), False, True, id="LowerPriority: preemptor has higher priority"),
        pytest.param("LowerPriority", (1, 0), (1, 0), False, False, id="LowerPriority: preemptor has same priority"),
        pytest.param("LowerOrNewerEqualPriority", (1, 5), (1, 5), False, False, id="same priority, same timestamp"),
        pytest.param("LowerOrNewerEqualPriority", (1, 60), (1, 0), False, False, id="same priority, newer timestamp"),
        pytest.param("LowerOrNewerEqualPriority", (1, 0), (1, 60), False, True, id="same priority, older timestamp"),
        pytest.param(
            "LowerOrNewerEqualPriority", (1, 0), (1, 60), True, False, id="older, but within the buffer of 5 minutes"
        ),
        pytest.param(
            "LowerOrNewerEqualPriority", (1, 0), (1, 301), True, True, id="older, and outside the buffer of 5 minutes"
        ),
        pytest.param("Any", (0, 9), (9, 0), False, True, id="Any: regardless of priority"),
        pytest.param("Never", (9, 0), (0, 9), False, False, id="Never"),
    ],
)
def test_policy(policy: str, mine: tuple[int, float], theirs: tuple[int, float], buffer: bool, expected: bool) -> None:
    assert satisfies_policy(preemptor(*mine, buffer), workload("them", *theirs), policy) is expected


def boosted(priority: int, boost: str | None, *, enabled: bool = True) -> WorkloadInfo:
    annotations = {} if boost is None else {"kueue.x-k8s.io/priority-boost": boost}
    settings = QueueingSettings(features=Features(priority_boost=enabled))
    return WorkloadDecoder(settings).decode(make_workload("w", priority=priority, annotations=annotations))


@pytest.mark.parametrize(
    ("priority", "boost", "effective"),
    [
        pytest.param(0, None, 0, id="empty workload"),
        pytest.param(5, None, 5, id="workload with priority only"),
        pytest.param(5, "3", 8, id="workload with priority and positive boost"),
        pytest.param(5, "-3", 2, id="workload with priority and negative boost"),
        pytest.param(5, "many", 5, id="workload with invalid boost annotation falls back to zero"),
        pytest.param(2**31 - 1, "1", 2**31, id="workload with effective priority above int32 max"),
    ],
)
def test_effective_priority(priority: int, boost: str | None, effective: int) -> None:
    assert boosted(priority, boost).priority == effective


def test_boost_is_ignored_when_the_feature_is_off() -> None:
    assert boosted(5, "3", enabled=False).priority == 5


def test_a_boost_decides_whom_one_may_preempt() -> None:
    low, medium = boosted(1, "10"), boosted(5, None)
    asking = Preemptor(medium, OWN, frozenset(), {}, NOW)
    assert not satisfies_policy(asking, low, "LowerPriority")
    assert satisfies_policy(Preemptor(low, OWN, frozenset(), {}, NOW), medium, "LowerPriority")
    assert satisfies_policy(asking, low, "Any")


def ordered(*candidates: tuple[WorkloadInfo, ClusterQueue], usage: dict[str, float] | None = None) -> list[str]:
    asking = preemptor()
    if usage is not None:
        asking = asking._replace(local_queue_usage=lambda info: usage[info.queue])
    reservations = [Reservation(info, home, (), {}, {}) for info, home in candidates]
    return [entry.info.key.name for entry in sorted(reservations, key=candidate_order(asking))]


def test_candidates_are_sorted_by_priority() -> None:
    assert ordered((workload("high", 10), OWN), (workload("low", -10), OWN), (workload("mid"), OWN)) == [
        "low",
        "mid",
        "high",
    ]


def test_evicted_candidates_come_first() -> None:
    assert ordered((workload("other"), OWN), (workload("gone", 9, evicted=True), OWN)) == ["gone", "other"]


def test_candidates_of_other_queues_come_before_own() -> None:
    assert ordered((workload("mine", -5), OWN), (workload("theirs", 5), OTHER)) == ["theirs", "mine"]


def test_older_reservations_come_last() -> None:
    assert ordered((workload("old", reserved=1), OWN), (workload("new", reserved=9), OWN)) == ["new", "old"]


def test_reservations_that_are_not_seen_yet_are_the_newest() -> None:
    assert ordered((workload("new", reserved=9), OWN), (workload("now", reserved=None), OWN)) == ["now", "new"]


def test_workloads_of_busier_local_queues_come_first() -> None:
    busy = workload("busy", 5, local_queue="busy")
    calm = workload("calm", 0, local_queue="calm")
    usage = {"busy": 9.0, "calm": 1.0}
    shared = queue("shared", by_usage=True)
    assert ordered((calm, shared), (busy, shared), usage=usage) == ["busy", "calm"]
    assert ordered((calm, OWN), (busy, OWN), usage=usage) == ["calm", "busy"], "usage does not count there"


def test_candidates_of_different_queues_are_sorted_by_priority_and_time() -> None:
    third = queue("third")
    assert ordered(
        (workload("a", 1), OTHER), (workload("b", 0, reserved=1), third), (workload("c", 0, reserved=2), OTHER)
    ) == ["c", "b", "a"]


@pytest.mark.parametrize(
    ("mine", "theirs", "expected"),
    [
        pytest.param((5, None, 0), (1, "4", 60), True, id="POL-12 a boost makes equal, older may preempt newer"),
        pytest.param((1, "4", 60), (5, None, 0), False, id="POL-13 a boost makes equal, newer may not preempt older"),
    ],
)
def test_boosts_make_equal(
    mine: tuple[int, str | None, float], theirs: tuple[int, str | None, float], expected: bool
) -> None:
    asking, candidate = (
        structs.replace(boosted(priority, boost), created=at, order_time=at) for priority, boost, at in (mine, theirs)
    )
    policy = "LowerOrNewerEqualPriority"
    assert satisfies_policy(Preemptor(asking, OWN, frozenset(), {}, NOW), candidate, policy) is expected


def test_candidates_are_sorted_by_boosted_priority() -> None:
    """PRE-40"""
    low, high = boosted(1, "10"), boosted(5, None)
    names = {"boosted": low, "plain": high}
    found = ordered(*((structs.replace(info, key=Key("ns", name)), OWN) for name, info in names.items()))
    assert found == ["plain", "boosted"]
