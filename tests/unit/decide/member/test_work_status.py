"""What an AppliedWork was made for stands in for a report that never came."""

from __future__ import annotations

from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.decide.member.manifests import Manifest, identify
from corral.decide.member.work_status import is_planned, left_over, plan, planned

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")


def manifests(*names: str) -> list[Manifest]:
    objects = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "app"}} for name in names
    ]
    return identify(objects, {("", "v1", "ConfigMap"): CONFIG_MAPS})


def work(generation: int) -> Obj:
    return {"metadata": {"name": "w", "generation": generation}}


def applied(names: list[Manifest]) -> Obj:
    return {"metadata": {"name": "w", "annotations": plan(work(1), names)}}


def test_a_plan_is_for_one_generation_and_one_list() -> None:
    one = applied(manifests("a", "b"))
    assert is_planned(one, work(1), manifests("a", "b"))
    assert not is_planned(one, work(2), manifests("a", "b"))
    assert not is_planned(one, work(1), manifests("a"))


def test_what_was_planned_and_never_reported_is_left_over_when_it_goes() -> None:
    one = applied(manifests("a", "b"))
    assert [entry["name"] for entry in left_over(work(2), manifests("b", "c"), planned(one))] == ["a"]


def test_a_report_counts_more_than_a_plan() -> None:
    one = applied(manifests("a", "b"))
    (kept,) = manifests("b")
    reported = {**work(2), "status": {"manifestConditions": [{"identifier": kept.identifier, "conditions": []}]}}
    assert left_over(reported, manifests("b"), planned(one)) == []


def test_a_long_plan_is_left_to_the_hub() -> None:
    assert plan(work(1), manifests(*(f"{'x' * 200}-{number}" for number in range(200)))) == {}


def test_a_broken_plan_is_no_plan() -> None:
    assert planned({"metadata": {"annotations": {"corral.dev/planned-manifests": "{"}}}) == []
