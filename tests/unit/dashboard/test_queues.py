"""Cohorts are shown as the tree they are, each with what it has together with all below it."""

from __future__ import annotations

from typing import Any

from corral.core.meta import Obj
from corral.dashboard.queues import cohorts, queue


def cluster_queue(name: str, cohort: str, nominal: str, used: str = "0", borrowed: str = "0") -> Obj:
    quota = [{"flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": nominal}]}]}]
    reserved = [{"name": "f", "resources": [{"name": "cpu", "total": used, "borrowed": borrowed}]}]
    return {
        "metadata": {"name": name},
        "spec": {"cohortName": cohort, "resourceGroups": quota},
        "status": {"flavorsReservation": reserved},
    }


def cohort(name: str, parent: str = "", nominal: str = "") -> Obj:
    groups = [{"flavors": [{"name": "f", "resources": [{"name": "cpu", "nominalQuota": nominal}]}]}] if nominal else []
    return {"metadata": {"name": name}, "spec": {"parentName": parent, "resourceGroups": groups}}


def seen(found: list[Obj]) -> list[tuple[Any, ...]]:
    return [(one["name"], one["depth"], *((part["used"], part["quota"]) for part in one["quotas"])) for one in found]


def test_a_cohort_adds_up_what_is_below_it_and_comes_before_it() -> None:
    queues = [
        queue(one, {})
        for one in (
            cluster_queue("a", "left", "4", "6", "2"),
            cluster_queue("b", "right", "500m"),
            cluster_queue("c", "", "9"),
        )
    ]
    found = [cohort("left", "all"), cohort("right", "all", "1"), cohort("all")]
    assert seen(cohorts(queues, found)) == [
        ("all", 0, ("6", "5500m")),
        ("left", 1, ("6", "4")),
        ("right", 1, ("0", "1500m")),
    ]


def test_a_cohort_that_is_only_named_is_one_as_well() -> None:
    queues = [queue(cluster_queue("a", "x", "4"), {})]
    assert seen(cohorts(queues, [])) == [("x", 0, ("0", "4"))]
    assert seen(cohorts(queues, [cohort("x", "above")])) == [("above", 0, ("0", "4")), ("x", 1, ("0", "4"))]


def test_cohorts_in_a_circle_end() -> None:
    assert cohorts([], [cohort("a", "b"), cohort("b", "a")]) == []


def test_a_queue_says_who_uses_more_than_its_own() -> None:
    (quota,) = queue(cluster_queue("a", "x", "4", "6", "2"), {})["quotas"]
    assert quota == {"flavor": "f", "resource": "cpu", "quota": "4", "used": "6", "borrowed": "2", "share": 1.5}
