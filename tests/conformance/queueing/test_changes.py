"""What changes of queues, cohorts and flavors let in or keep out, by the numbers of the scenario list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from corral.testing.queueing import (
    QueueingWorld,
    make_cluster_queue,
    make_cohort,
    make_flavor,
    make_local_queue,
    make_pod_set,
    make_workload,
)

TAINT = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


def world(**queues: Any) -> QueueingWorld:
    """Queues `name={"cpu": …, spec…}` over one flavor, each with a LocalQueue of its name."""
    built = QueueingWorld()
    built.state.upsert_flavor(make_flavor("f"))
    for name, spec in queues.items():
        queue(built, name, **spec)
        built.state.upsert_local_queue(make_local_queue(name, name))
    return built


def queue(built: QueueingWorld, name: str, cpu: Any = 0, **spec: Any) -> None:
    built.state.upsert_cluster_queue(make_cluster_queue(name, {"f": {"cpu": cpu}}, **spec))


def admitted(built: QueueingWorld) -> set[str]:
    built.settle()
    return {name for names in built.admitted().values() for name in names}


def wants(name: str, where: str, cpu: Any, **more: Any) -> dict[str, Any]:
    return make_workload(name, where, requests={"cpu": cpu}, **more)


def moves_to_a_cohort_with_capacity() -> None:
    built = world(a={"cpu": 0, "cohort": "poor"})
    built.state.upsert_cohort(make_cohort("rich", "", {"f": {"cpu": 5}}))
    built.put(wants("w", "a", 3))
    assert admitted(built) == set()
    queue(built, "a", 0, cohort="rich")
    assert admitted(built) == {"w"}


def quota_from_far_away() -> None:
    built = world(a={"cohort": "left"})
    built.state.upsert_cohort(make_cohort("left", "root"))
    built.state.upsert_cohort(make_cohort("right", "root", {"f": {"cpu": 5}}))
    built.put(wants("w", "a", 5))
    assert admitted(built) == {"w"}


def child_moves_to_a_larger_root() -> None:
    built = world(a={"cpu": 1, "cohort": "child"})
    built.state.upsert_cohort(make_cohort("child", "small"))
    built.state.upsert_cohort(make_cohort("large", "", {"f": {"cpu": 9}}))
    built.put(wants("fits", "a", 1), wants("more", "a", 5, created=1))
    assert admitted(built) == {"fits"}
    built.state.upsert_cohort(make_cohort("child", "large"))
    assert admitted(built) == {"fits", "more"}


def strangers_do_not_block_a_strict_queue() -> None:
    selector = {"matchLabels": {"team": "x"}}
    built = world(a={"cpu": 2, "queueingStrategy": "StrictFIFO", "namespaceSelector": selector})
    built.state.upsert_namespace({"metadata": {"name": "default", "labels": {"team": "x"}}})
    built.state.upsert_namespace({"metadata": {"name": "other"}})
    built.state.upsert_local_queue(make_local_queue("a", "a", "other"))
    built.put(wants("stranger", "a", 1, namespace="other"), wants("friend", "a", 1, created=5))
    assert admitted(built) == {"friend"}


def another_strategy() -> None:
    built = world(a={"cpu": 2, "queueingStrategy": "StrictFIFO"})
    built.put(wants("big", "a", 5), wants("small", "a", 1, created=1))
    assert admitted(built) == set()
    queue(built, "a", 2, queueingStrategy="BestEffortFIFO")
    assert admitted(built) == {"small"}


def pod_level_requests_use_quota() -> None:
    built = world(a={"cpu": 2})
    for number, name in enumerate(("one", "two")):
        pod_set = make_pod_set("main", 1, {}, resources={"requests": {"cpu": "2"}})
        built.put(make_workload(name, "a", pod_set, created=number))
    assert admitted(built) == {"one"}


def a_deleted_queue_lends_nothing() -> None:
    built = world(a={"cpu": 1, "cohort": "co"}, b={"cpu": 5, "cohort": "co"})
    built.state.delete_cluster_queue("b")
    built.put(wants("w", "a", 3))
    assert admitted(built) == set()


def a_deleted_sibling_cohort_lends_nothing() -> None:
    built = world(a={"cpu": 1, "cohort": "left"})
    built.state.upsert_cohort(make_cohort("left", "root"))
    built.state.upsert_cohort(make_cohort("right", "root", {"f": {"cpu": 5}}))
    built.state.delete_cohort("right")
    built.put(wants("w", "a", 3))
    assert admitted(built) == set()


def nothing_flows_through_a_deleted_cohort() -> None:
    built = world(a={"cpu": 1, "cohort": "leaf"})
    built.state.upsert_cohort(make_cohort("root", "", {"f": {"cpu": 5}}))
    built.state.upsert_cohort(make_cohort("middle", "root"))
    built.state.upsert_cohort(make_cohort("leaf", "middle"))
    built.state.delete_cohort("middle")
    built.put(wants("w", "a", 3))
    assert admitted(built) == set()


def a_very_large_quota() -> None:
    built = world(a={"cpu": "1E"})
    built.put(wants("w", "a", 1))
    assert admitted(built) == {"w"}


def released_little_by_little() -> None:
    built = world(a={"cpu": 3})
    built.put(make_workload("old", "a", requests={"cpu": 1}, count=3), wants("w", "a", 2, created=1))
    assert admitted(built) == {"old"}
    for done, expected in ((1, {"old"}), (2, {"old", "w"})):
        old = built.get("old")
        built.put({**old, "status": {**old["status"], "reclaimablePods": [{"name": "main", "count": done}]}})
        assert admitted(built) == expected


def flavor_changes(before: dict[str, Any], after: dict[str, Any], new_cpu: int) -> Callable[[], None]:
    """A workload that no flavor was good for is tried again when the flavor changes."""

    def check() -> None:
        built = world(a={"cpu": 9})
        built.state.upsert_flavor(make_flavor("f", **before))
        spec = {"nodeSelector": {"type": "good"}} if "nodeLabels" in before else {}
        built.put(make_workload("old", "a", make_pod_set("main", 1, {"cpu": 1}, **spec)))
        assert admitted(built) == set()
        built.state.upsert_flavor(make_flavor("f", **after))
        built.put(make_workload("new", "a", make_pod_set("main", 1, {"cpu": new_cpu}, **spec), created=1))
        assert admitted(built) == {"old", "new"}

    return check


TOLERATED = {"nodeTaints": [TAINT], "tolerations": [{"key": "gpu", "operator": "Exists"}]}
BAD, GOOD = {"nodeLabels": {"type": "bad"}}, {"nodeLabels": {"type": "good"}}

CASES: dict[str, Callable[[], None]] = {
    "ISC-05 released little by little": released_little_by_little,
    "ISC-34 moves to a cohort with capacity": moves_to_a_cohort_with_capacity,
    "ISC-35 quota from far away": quota_from_far_away,
    "ISC-36 child moves to a larger root": child_moves_to_a_larger_root,
    "ISC-40 strangers do not block a strict queue": strangers_do_not_block_a_strict_queue,
    "ISC-51 pod-level requests use quota": pod_level_requests_use_quota,
    "ISC-55 another strategy": another_strategy,
    "ISC-60 a deleted queue lends nothing": a_deleted_queue_lends_nothing,
    "ISC-61 a deleted sibling cohort lends nothing": a_deleted_sibling_cohort_lends_nothing,
    "ISC-62 nothing flows through a deleted cohort": nothing_flows_through_a_deleted_cohort,
    "ISC-103 a very large quota": a_very_large_quota,
    "ISC-109 taint removed, another shape": flavor_changes({"nodeTaints": [TAINT]}, {}, 2),
    "ISC-110 taint removed, the same shape": flavor_changes({"nodeTaints": [TAINT]}, {}, 1),
    "ISC-111 taint tolerated, another shape": flavor_changes({"nodeTaints": [TAINT]}, TOLERATED, 2),
    "ISC-112 taint tolerated, the same shape": flavor_changes({"nodeTaints": [TAINT]}, TOLERATED, 1),
    "ISC-113 labels match, another shape": flavor_changes(BAD, GOOD, 2),
    "ISC-114 labels match, the same shape": flavor_changes(BAD, GOOD, 1),
}


@pytest.mark.parametrize("name", CASES)
def test_changes(name: str) -> None:
    CASES[name]()
