"""From which queue fair sharing takes the next victim, and which comparisons it spares itself."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from scenario import Scenario

from corral.decide.queueing.cycle.preemption.candidates import Preemptor
from corral.decide.queueing.cycle.preemption.fair_sharing import VictimOrder, _FairSearch, fair_targets
from corral.decide.queueing.model.settings import FINAL_SHARE, INITIAL_SHARE, QueueingSettings
from corral.decide.queueing.model.values import FlavorResource
from corral.decide.queueing.quota.cluster_queue import Reservation
from corral.decide.queueing.quota.fair_shares import DominantShare
from corral.testing.queueing import EPOCH, make_workload

CPU = FlavorResource("default", "cpu")


def build(text: str, queue: str, *candidates: str, cpu: int = 1) -> tuple[Preemptor, list[Reservation], Scenario]:
    """A preemptor in `queue` and the reservations of the queues that are candidates."""
    scenario = Scenario(text + "\n->", QueueingSettings(fair_sharing=True))
    scenario.state.upsert_workload(make_workload("incoming", f"lq-{queue}", requests={"cpu": cpu}))
    scenario.state.settle()
    world = scenario.state.world
    (info,) = [info for key, info in world.workloads.items() if key.name == "incoming"]
    preemptor = Preemptor(
        info=info,
        queue=world.queues[queue],
        columns=frozenset([CPU]),
        requests={CPU: cpu * 1000},
        now=EPOCH,
        timestamp_buffer=False,
        local_queue_usage=None,
    )
    held = [entry for entry in world.reservations.values() if entry.queue.name in candidates]
    return preemptor, held, scenario


ALONE = """
    queue preemptor: default cpu=4
    run wl1 @preemptor: default cpu=1
    run wl2 @preemptor: default cpu=1
"""
TWO = """
    queue preemptor in all: default cpu=4
    queue high in all: default cpu=2
    queue low in all: default cpu=2
    run h1 @high: default cpu=3
    run h2 @high: default cpu=2
    run l1 @low: default cpu=3
"""

# What there is, whose queue preempts, candidates, what is done at each step, and the queues in the order they come.
ORDERS: dict[str, tuple[str, str, Sequence[str], Sequence[str], list[str]]] = {
    "FPR-39 no cohort: DropQueue ends the iteration with candidates remaining": (
        ALONE,
        "preemptor",
        ["preemptor"],
        ["drop"],
        ["preemptor"],
    ),
    "no cohort: all candidates": (ALONE, "preemptor", ["preemptor"], [], ["preemptor", "preemptor"]),
    "FPR-40 non-borrowing CQ is pruned even with candidates": (
        """
        queue preemptor in all: default cpu=4
        queue target in all: default cpu=5
        run t1 @target: default cpu=2
        """,
        "preemptor",
        ["target"],
        [],
        [],
    ),
    "FPR-41 higher DRS CQ returned before lower DRS CQ": (
        """
        queue preemptor in all: default cpu=4
        queue low in all: default cpu=2
        queue high in all: default cpu=2
        run l1 @low: default cpu=3
        run h1 @high: default cpu=5
        """,
        "preemptor",
        ["high", "low"],
        [],
        ["high", "low"],
    ),
    "FPR-42 CQ with highest DRS returned again while it still has candidates": (
        TWO,
        "preemptor",
        ["high", "low"],
        [],
        ["high", "high", "low"],
    ),
    "FPR-43 drop queue prevents CQ from being returned again": (
        TWO,
        "preemptor",
        ["high", "low"],
        ["drop"],
        ["high", "low"],
    ),
    "FPR-44 hierarchical cohorts: higher-DRS subtree visited first": (
        """
        cohort root
        cohort right in root
        cohort left in root
        queue preemptor in root: default cpu=4
        queue right-cq in right: default cpu=2
        queue left-cq in left: default cpu=2
        run rc1 @right-cq: default cpu=3
        run lc1 @left-cq: default cpu=5
        """,
        "preemptor",
        ["left-cq", "right-cq"],
        [],
        ["left-cq", "right-cq"],
    ),
}


@pytest.mark.parametrize("name", ORDERS, ids=list(ORDERS))
def test_order_of_queues(name: str) -> None:
    text, queue, candidates, actions, expected = ORDERS[name]
    preemptor, held, _ = build(text, queue, *candidates)
    order = VictimOrder(preemptor, held)
    found: list[str] = []
    for step, node in enumerate(order):
        found.append(node.name)
        assert len(found) < 50
        if step < len(actions) and actions[step] == "drop":
            order.drop(node)
        else:
            order.pop(node)
    assert found == expected


@pytest.mark.parametrize(
    ("weight", "compared"),
    [
        pytest.param("0", 0, id="FPR-36 zero weight preemptor: share is +Inf and the tournament is skipped"),
        pytest.param("1", 2, id="FPR-37 non-zero weight preemptor: share is finite so the tournament runs"),
    ],
)
def test_a_hopeless_comparison_is_skipped_but_the_second_rule_gets_its_turn(weight: str, compared: int) -> None:
    text = f"""
        queue a in all: default cpu=1 ; reclaim=Any weight={weight}
        queue b in all: default cpu=1 ; weight=1
        run a1 @a: default cpu=1
        run b1 @b: default cpu=1
        run b2 @b: default cpu=1
    """
    preemptor, held, scenario = build(text, "a", "b")
    calls: list[tuple[DominantShare, DominantShare, DominantShare]] = []

    def strategy(mine: DominantShare, before: DominantShare, after: DominantShare) -> bool:
        calls.append((mine, before, after))
        return mine <= after

    search = _FairSearch(preemptor, None)
    node = preemptor.queue.node
    node.add(preemptor.requests)
    assert not search.run_first(held, strategy, True)
    assert (len(calls), len(search.retry)) == (compared, 2)
    assert not search.run_second()
    node.remove(preemptor.requests)
    assert search.targets == []
    strategies = (FINAL_SHARE, INITIAL_SHARE)
    assert fair_targets(preemptor, scenario.state.world.by_node, strategies) == []
