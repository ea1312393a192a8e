"""Which pod goes to which domain: by rank, unless the pods that run sit elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from corral.core.meta import Obj
from corral.kinds.kueue.topology_assignment import Domain, assignment_of
from corral.workload.pod_domains import first_ranks, placements

HOST = "kubernetes.io/hostname"


def pod(index: int, node: str = "") -> Obj:
    spec = {"nodeSelector": {HOST: node}} if node else {}
    return {"metadata": {"name": f"p{index}", "labels": {"index": str(index)}}, "spec": spec}


@pytest.mark.parametrize(
    ("counts", "group", "expected"),
    [
        pytest.param({"leader": 1, "worker": 3}, "g", {"leader": 0, "worker": 1}, id="a group, the smaller one first"),
        pytest.param({"worker": 3, "leader": 1}, "g", {"leader": 0, "worker": 1}, id="a group in another order"),
        pytest.param({"leader": 1, "worker": 3}, "", {"leader": 0, "worker": 0}, id="each by itself"),
    ],
)
def test_pods_of_a_group_are_counted_through(counts: dict[str, int], group: str, expected: dict[str, int]) -> None:
    admitted = [{"name": name, "count": count} for name, count in counts.items()]
    requests = {name: {"podSetGroupName": group} for name in counts if group}
    assert first_ranks(admitted, requests) == expected


@pytest.mark.parametrize("annotated", [True, False])
def test_pods_whose_first_are_elsewhere_are_placed_by_rank(*, annotated: bool) -> None:
    marks = {"annotations": {"kueue.x-k8s.io/pod-index-offset": "1"}} if annotated else {}
    pods = [{**each, "metadata": {**each["metadata"], **marks}} for each in (pod(3), pod(1), pod(2))]
    assignment = assignment_of([HOST], [Domain((node,), 1) for node in ("n1", "n2", "n3")])
    found = placements(assignment, {"podIndexLabel": "index"}, pods, pods, 0 if annotated else 1)
    assert {name: selector[HOST] for name, selector in found.items()} == {"p1": "n1", "p2": "n2", "p3": "n3"}


def placed(nodes: Sequence[tuple[str, int]], pods: Sequence[Obj]) -> dict[str, str]:
    assignment = assignment_of([HOST], [Domain((node,), count) for node, count in nodes])
    waiting = [each for each in pods if not each["spec"]]
    found = placements(assignment, {"podIndexLabel": "index"}, pods, waiting)
    return {name: selector[HOST] for name, selector in found.items()}


@pytest.mark.parametrize(
    ("nodes", "pods", "expected"),
    [
        pytest.param(
            [("n1", 1), ("n2", 1), ("n3", 1)],
            [pod(0), pod(1), pod(2)],
            {"p0": "n1", "p1": "n2", "p2": "n3"},
            id="all wait: by rank",
        ),
        pytest.param(
            [("n1", 1), ("n2", 1), ("n3", 1)],
            [pod(0, "n1"), pod(1), pod(2, "n3")],
            {"p1": "n2"},
            id="those that run sit where their rank says",
        ),
        pytest.param(
            [("n2", 1), ("n3", 1), ("n4", 1)],
            [pod(0), pod(1, "n2"), pod(2, "n3")],
            {"p0": "n4"},
            id="the first node was replaced by one that sorts last",
        ),
        pytest.param(
            [("n1", 1), ("n2", 2), ("n3", 1)],
            [pod(0, "n2"), pod(1, "n2"), pod(2, "n3"), pod(3)],
            {"p3": "n1"},
            id="the last node was replaced by one that sorts first",
        ),
        pytest.param(
            [("n1", 1), ("n2", 1)],
            [pod(0, "elsewhere"), pod(1, "n2")],
            {},
            id="nobody waits",
        ),
    ],
)
def test_a_pod_never_goes_where_the_room_is_taken(
    nodes: list[tuple[str, int]], pods: list[Obj], expected: dict[str, str]
) -> None:
    assert placed(nodes, pods) == expected
