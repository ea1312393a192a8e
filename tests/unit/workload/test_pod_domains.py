"""Which pod goes to which domain: by rank, unless the pods that run sit elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from corral.core.meta import Obj
from corral.kinds.kueue.topology_assignment import Domain, assignment_of
from corral.workload.pod_domains import placements

HOST = "kubernetes.io/hostname"


def pod(index: int, node: str = "") -> Obj:
    spec = {"nodeSelector": {HOST: node}} if node else {}
    return {"metadata": {"name": f"p{index}", "labels": {"index": str(index)}}, "spec": spec}


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
