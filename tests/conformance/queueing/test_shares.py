"""Dominant resource shares of queues and cohorts."""

from __future__ import annotations

import math

import pytest

from corral.decide.queueing.model.amounts import MAX_INT64
from corral.decide.queueing.model.values import FlavorResource, ResourceQuota, Usage
from corral.decide.queueing.quota.fair_shares import DominantShare, lendable_by, share_of
from corral.decide.queueing.quota.tree import QuotaForest

Quotas = dict[tuple[str, str], tuple[int | None, ...]]


def columns(values: dict[tuple[str, str], int]) -> Usage:
    return {FlavorResource(*column): amount for column, amount in values.items()}


def forest_of(
    queues: dict[str, tuple[str, Quotas, float]], cohorts: dict[str, tuple[str, Quotas, float]] | None = None
) -> QuotaForest:
    def read(quotas: Quotas) -> dict[FlavorResource, ResourceQuota]:
        return {FlavorResource(*column): ResourceQuota(*limits) for column, limits in quotas.items()}  # type: ignore[arg-type]

    forest = QuotaForest()
    for name, (parent, quotas, weight) in (cohorts or {}).items():
        forest.set_cohort(name, parent, read(quotas), weight)
    for name, (parent, quotas, weight) in queues.items():
        forest.set_queue(name, parent, read(quotas), weight)
    forest.settle()
    return forest


CPU, GPU = ("default", "cpu"), ("default", "gpu")
PAIR = {"cq": ("co", {CPU: (2000,), GPU: (5,)}, 1.0), "lender": ("co", {CPU: (8000,), GPU: (5,)}, 1.0)}


def test_a_queue_without_cohort_has_no_share() -> None:
    forest = forest_of({"cq": ("", {CPU: (2000,)}, 1.0)})
    forest.queues["cq"].add(columns({CPU: 9000}))
    assert share_of(forest.queues["cq"]).rounded == 0


TABLE = {
    "usage below nominal": ({CPU: 1000, GPU: 2}, {}, 0, ""),
    "usage above nominal": ({CPU: 3000, GPU: 7}, {}, 200, "gpu"),
    "one resource above nominal": ({CPU: 3000, GPU: 3}, {}, 100, "cpu"),
    "usage with workload above nominal": ({CPU: 1000, GPU: 2}, {CPU: 4000, GPU: 4}, 300, "cpu"),
}


@pytest.mark.parametrize("name", TABLE, ids=list(TABLE))
def test_share(name: str) -> None:
    usage, extra, rounded, dominant = TABLE[name]
    forest = forest_of(PAIR)
    forest.queues["cq"].add(columns(usage))
    share = share_of(forest.queues["cq"], columns(extra))
    assert (share.rounded, share.resource) == (rounded, dominant)
    assert share_of(forest.queues["lender"]).rounded == 0
    assert share_of(forest.cohorts["co"]).rounded == 0


@pytest.mark.parametrize(
    ("nominal", "lender", "weight", "usage", "rounded"),
    [
        pytest.param(500, 1000, 1.0, 501, 1, id="usage slightly above nominal in a cohort with large quotas"),
        pytest.param(500, 1000, 300.0, 800, 1, id="usage way above nominal in a cohort with large quotas and weights"),
        pytest.param(5, 5, 2.0, 7, 100, id="above nominal with integer weight"),
        pytest.param(5, 5, 0.5, 7, 400, id="above nominal with decimal weight"),
        pytest.param(5, 5, 0.0, 7, MAX_INT64, id="above nominal with zero weight"),
        pytest.param(0, 10**21, 1.0, 1000, 1, id="borrowing against unlimited lendable capacity"),
    ],
)
def test_weighted_share(nominal: int, lender: int, weight: float, usage: int, rounded: int) -> None:
    forest = forest_of({"cq": ("co", {GPU: (nominal,)}, weight), "lender": ("co", {GPU: (lender,)}, 1.0)})
    forest.queues["cq"].add(columns({GPU: usage}))
    assert share_of(forest.queues["cq"]).rounded == rounded


def test_a_resource_with_zero_lendable_is_left_out() -> None:
    queues = {
        "cq": ("co", {CPU: (2000,), GPU: (2, None, 0)}, 1.0),
        "lender": ("co", {CPU: (8000,), GPU: (64, None, 0)}, 1.0),
    }
    forest = forest_of(queues)
    forest.queues["cq"].add(columns({CPU: 1000, GPU: 1}))
    share = share_of(forest.queues["cq"], columns({CPU: 4000, GPU: 4}))
    assert (share.rounded, share.resource) == (300, "cpu")


def test_flavors_of_a_resource_are_added_up() -> None:
    on_demand, spot, default = ("on-demand", "cpu"), ("spot", "cpu"), ("default", "cpu")
    forest = forest_of({"cq": ("co", {on_demand: (20,), spot: (80,)}, 1.0), "lender": ("co", {default: (100,)}, 1.0)})
    forest.queues["cq"].add(columns({on_demand: 15, spot: 5}))
    assert share_of(forest.queues["cq"], columns({on_demand: 10})).rounded == 25


def test_a_cohort_has_a_share_too() -> None:
    forest = forest_of(
        {"cq": ("child", {GPU: (5,)}, 1.0)}, {"root": ("", {GPU: (45,)}, 1.0), "child": ("root", {}, 2.0)}
    )
    forest.queues["cq"].add(columns({GPU: 10}))
    shares = [share_of(node).rounded for node in (forest.queues["cq"], *map(forest.cohorts.get, ("child", "root")))]  # type: ignore[arg-type]
    assert shares == [100, 50, 0]


def test_share_is_defined_for_resources_only_available_at_the_root_cohort() -> None:
    forest = forest_of(
        {"cq": ("child", {GPU: (0,)}, 1.0)}, {"root": ("", {GPU: (50,)}, 1.0), "child": ("root", {}, 2.0)}
    )
    forest.queues["cq"].add(columns({GPU: 10}))
    assert share_of(forest.queues["cq"]).rounded == 200
    assert share_of(forest.cohorts["child"]).rounded == 100


def test_a_borrowing_limit_changes_the_view() -> None:
    forest = forest_of(
        {"cq": ("child", {GPU: (0,)}, 1.0)},
        {"root": ("", {GPU: (50,)}, 1.0), "child": ("root", {GPU: (0, 10)}, 1.0)},
    )
    forest.queues["cq"].add(columns({GPU: 10}))
    assert share_of(forest.queues["cq"]).rounded == 1000
    assert share_of(forest.cohorts["child"]).rounded == 200


def test_what_a_cohort_can_lend_is_the_sum_over_its_queues() -> None:
    forest = forest_of(
        {"one": ("co", {CPU: (8, None, 8), GPU: (3, None, 3)}, 1.0), "two": ("co", {CPU: (2, None, 2)}, 1.0)}
    )
    assert lendable_by(forest.cohorts["co"]) == {"cpu": 10, "gpu": 3}


def test_shares_of_zero_weight_are_infinite_once_they_borrow() -> None:
    assert math.isinf(DominantShare(3.0, 0.0).weighted)
    assert DominantShare(0.0, 0.0).weighted == 0.0
    assert DominantShare(10.0, 2.0).weighted == 5.0
    assert DominantShare(1.0, 0.3).weighted == pytest.approx(3.3333333)


def test_infinite_shares_compare_by_what_they_borrow() -> None:
    assert DominantShare(3.0, 0.0) > DominantShare(2.0, 0.0)
    assert DominantShare(1.0, 0.0) > DominantShare(1e9, 1.0)
    assert DominantShare(4.0, 2.0) == DominantShare(2.0, 1.0)
