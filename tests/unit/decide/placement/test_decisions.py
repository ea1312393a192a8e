"""The pure heart of placement: selection, snapshots, scores, budgets, overrides and statuses as plain values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.conditions import condition
from corral.core.meta import Obj
from corral.decide.placement.bindings import Binding, Overrides, binding_of
from corral.decide.placement.clusters import Cluster, SchedulingError, cluster_of
from corral.decide.placement.eviction import judge
from corral.decide.placement.overrides import OverrideError, apply_overrides
from corral.decide.placement.rollout import amount, plan
from corral.decide.placement.scores import Preference, Spread, affinity_score, extremes
from corral.decide.placement.selection import is_selectable, ordered, strip
from corral.decide.placement.snapshots import outdated, policy_hash, resource_hash, split
from corral.decide.placement.staged import concurrency
from corral.decide.placement.strategy import strategy_of
from corral.decide.placement.works import summarize
from corral.jobs.framework.registry import ENDINGS

NOW = 1_767_225_600.0
STAMP = "2026-01-01T00:00:00Z"


def cluster(name: str, cpu: str, memory: str = "1Gi", **labels: str) -> Cluster:
    usage = {"available": {"cpu": cpu, "memory": memory}}
    return Cluster(name, labels, (), {"kubernetes-fleet.io/node-count": "1"}, usage, False, None, None)


def by(what: str, weight: int, order: str = "Descending") -> Obj:
    name = f"resources.kubernetes-fleet.io/available-{what}"
    return {"weight": weight, "preference": {"propertySorter": {"name": name, "sortOrder": order}}}


def preferring(*terms: Obj) -> Obj:
    return {"affinity": {"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": list(terms)}}}


def test_the_guides_scores() -> None:
    fleet = [cluster("a", "4", "8Gi"), cluster("b", "10", "20Gi"), cluster("c", "16", "32Gi")]
    policy = preferring(by("cpu", 40), by("memory", 30))
    ranges = extremes(policy, fleet)
    assert [affinity_score(policy, one, ranges) for one in fleet] == [0, 35, 70]


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=8), st.integers(-100, 100))
def test_a_sorter_never_gives_more_than_its_weight(values: list[int], weight: int) -> None:
    fleet = [cluster(str(index), str(value)) for index, value in enumerate(values)]
    for order in ("Ascending", "Descending"):
        policy = preferring(by("cpu", weight, order))
        ranges = extremes(policy, fleet)
        for one in fleet:
            assert abs(affinity_score(policy, one, ranges)) <= abs(weight)


def test_what_a_cluster_remembers_of_its_score_ends_with_the_policy_and_with_the_range() -> None:
    kept = [cluster("a", "4", "8Gi"), cluster("b", "10", "20Gi")]
    policies = [preferring(by("cpu", 40)), preferring(by("cpu", 40, "Ascending")), preferring(by("memory", 30))]
    fleets = [[*kept, cluster("c", cpu, "32Gi")] for cpu in ("16", "16", "12", "2")]
    for policy in policies * 2:
        for fleet in fleets:
            preference, ranges = Preference(policy, fleet), extremes(policy, fleet)
            assert [preference.of(one) for one in fleet] == [affinity_score(policy, one, ranges) for one in fleet]


def test_a_property_with_a_wrong_name_is_an_error() -> None:
    with pytest.raises(SchedulingError, match="invalid resource property name"):
        cluster("a", "1").property("resources.kubernetes-fleet.io/free-cpu")


def test_extended_resources_are_properties_too() -> None:
    found = Cluster("a", {}, (), {}, {"available": {"nvidia.com/gpu": "4"}}, False, None, None)
    value = found.property("resources.kubernetes-fleet.io/available-nvidia.com/gpu")
    assert value is not None
    assert str(value) == "4"


@pytest.mark.parametrize(
    ("counts", "domain", "change"),
    [
        ({"a": 0, "b": 0}, "a", 1),
        ({"a": 0, "b": 1}, "a", -1),
        ({"a": 0, "b": 1}, "b", 1),
        ({"a": 0, "b": 0, "c": 1}, "a", 0),
        ({"a": 0, "b": 1, "c": 2}, "b", 0),
    ],
)
def test_how_one_more_cluster_changes_the_skew(counts: dict[str, int], domain: str, change: int) -> None:
    assert Spread({"topologyKey": "zone", "maxSkew": 1}, counts).change(domain) == change


def test_hashes_are_upstreams() -> None:
    assert policy_hash({"placementType": "PickAll"}) == (
        "OGNjNTdkZWU1OTY4NGZmODg3NjZlMjY5MzZjOGZiMTI1ZjRiZGUyMzRhMmJlYjVjNTRhZGVkNDU2OWRiMGQ1YQ=="
    )
    policy = {"placementType": "PickN", "numberOfClusters": 1, **preferring(by("cpu", 40), by("memory", 30))}
    assert policy_hash(policy) == (
        "ODkzOWQwZmNlNDI0OTNkMTk5ODZlNzdhMDBjYzczOTRlOWVlYWRjOWE1NWU0OTQ5ZmIxMjQ2ODk5NDRlMmZkOA=="
    )
    assert policy_hash(policy) == policy_hash({**policy, "numberOfClusters": 7})
    assert resource_hash([{"a": "<b>"}]) != resource_hash([{"a": "b"}])


@given(st.lists(st.integers(1, 500), max_size=30), st.integers(50, 400))
def test_splitting_keeps_order_and_size(sizes: list[int], limit: int) -> None:
    resources = [{"n": index, "x": "x" * size} for index, size in enumerate(sizes)]
    groups = split(resources, limit)
    assert [one for group in groups for one in group] == resources
    assert all(len(group) == 1 or len(str(group)) < 4 * limit for group in groups if group)


def snapshot(index: int) -> Obj:
    labels = {"kubernetes-fleet.io/resource-index": str(index)}
    return {"metadata": {"name": f"p-{index}-snapshot", "labels": labels}}


def test_the_oldest_snapshots_go_and_none_that_is_in_use() -> None:
    label = "kubernetes-fleet.io/resource-index"
    found = [snapshot(index) for index in range(4)]
    assert [one["metadata"]["name"] for one in outdated(found, label, 3)] == ["p-0-snapshot", "p-1-snapshot"]
    kept = outdated(found, label, 3, in_use=frozenset({"p-0-snapshot"}))
    assert [one["metadata"]["name"] for one in kept] == ["p-1-snapshot", "p-2-snapshot"]


def test_namespaces_first_and_strangers_last() -> None:
    kinds = ["Job", "ResourceFlavor", "Namespace", "ClusterQueue", "ConfigMap"]
    objects = [{"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}} for kind in kinds]
    assert [one["kind"] for one in ordered(objects)] == [
        "Namespace",
        "ConfigMap",
        "Job",
        "ClusterQueue",
        "ResourceFlavor",
    ]


def test_a_job_with_its_own_selector_travels_as_it_is() -> None:
    spec = {"manualSelector": True, "selector": {"matchLabels": {"controller-uid": "x"}}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "uid": "u"}, "spec": spec, "status": {}}
    assert strip(job) == {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"}, "spec": spec}


@pytest.mark.parametrize(
    ("group", "kind", "selectable"),
    [
        ("", "Pod", False),
        ("", "ConfigMap", True),
        ("placement.kubernetes-fleet.io", "ResourceEnvelope", True),
        ("placement.kubernetes-fleet.io", "Work", False),
        ("cluster.kubernetes-fleet.io", "MemberCluster", False),
        ("kueue.x-k8s.io", "ClusterQueue", True),
    ],
)
def test_what_may_travel(group: str, kind: str, selectable: bool) -> None:
    assert is_selectable(group, kind) == selectable


# Rollout


def binding(name: str, snapshot_name: str = "old", state: str = "Bound", *conditions: Obj) -> Binding:
    status = [{"lastTransitionTime": STAMP, "observedGeneration": 1, **one} for one in conditions]
    spec = {"state": state, "targetCluster": name, "resourceSnapshotName": snapshot_name}
    metadata = {"name": name, "generation": 1}
    return binding_of({"metadata": metadata, "spec": spec, "status": {"conditions": status}})


READY = condition("Available", True, "AllWorkAreAvailable")
BROKEN = condition("Available", False, "NotAllWorkAreAvailable")


def step(bindings: list[Binding], unavailable: int | str = 1, surge: int | str = 0) -> tuple[list[str], list[str]]:
    rolling = {"maxUnavailable": unavailable, "maxSurge": surge, "unavailablePeriodSeconds": 60}
    found = plan(
        bindings,
        snapshot="new",
        overrides={},
        strategy=strategy_of({"spec": {"strategy": {"rollingUpdate": rolling}}}),
        target=len(bindings),
        now=NOW + 1000,
    )
    return [one.name for one in found.update], [one.name for one in found.held]


def test_budgets() -> None:
    three = [binding(name, "old", "Bound", READY) for name in "abc"]
    assert step(three) == (["a"], ["b", "c"])
    assert step(three, "34%") == (["a", "b"], ["c"])
    assert step(three, 0, 3) == ([], ["a", "b", "c"])
    mixed = [binding("a", "old", "Bound", BROKEN), *three[1:]]
    assert step(mixed) == (["a"], ["b", "c"])
    fresh = [binding(name, "", "Scheduled") for name in "abc"]
    assert step(fresh, "25%", "25%") == (["a", "b", "c"], [])


@pytest.mark.parametrize(
    ("value", "total", "up", "result"), [("25%", 3, True, 1), ("70%", 3, False, 2), (2, 9, True, 2)]
)
def test_amounts(value: int | str, total: int, up: bool, result: int) -> None:
    assert amount(value, total, up=up) == result


def test_a_stage_always_moves() -> None:
    assert concurrency({"maxConcurrency": "10%"}, 3) == 1
    assert concurrency({"maxConcurrency": "70%"}, 3) == 2
    assert concurrency({}, 3) == 1


# Overrides


def override(*rules: Obj) -> Obj:
    selector = {"group": "", "version": "v1", "kind": "ConfigMap", "name": "c"}
    spec = {"resourceSelectors": [selector], "policy": {"overrideRules": list(rules)}}
    return {"metadata": {"name": "o-0", "namespace": "ns"}, "spec": {"overrideSpec": spec}}


def patched(op: str, path: str, value: object = None) -> Obj | None:
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "ns"}, "data": {"l": [1]}}
    member = {"metadata": {"name": "m", "labels": {"zone": "z"}}}
    operation = {"op": op, "path": path, "value": value}
    rule = {"clusterSelector": {"clusterSelectorTerms": []}, "jsonPatchOverrides": [operation]}
    return apply_overrides(config, member, [override(rule)])


def test_patches_and_their_errors() -> None:
    found = patched("add", "/data/a", "${MEMBER-CLUSTER-NAME}-${MEMBER-CLUSTER-LABEL-KEY-zone}")
    assert found is not None
    assert found["data"]["a"] == "m-z"
    found = patched("add", "/data/l/-", 2)
    assert found is not None
    assert found["data"]["l"] == [1, 2]
    for operation, text in {
        ("add", "/x/y"): 'add operation does not apply: doc is missing path: "/x/y": missing value',
        ("replace", "/data/n"): "replace operation does not apply: doc is missing key: /data/n: missing value",
        ("remove", "/data/n"): "unable to remove nonexistent key: n: missing value",
    }.items():
        with pytest.raises(OverrideError) as caught:
            patched(*operation)
        assert text in str(caught.value)


def test_overrides_are_put_into_a_binding_only_when_there_are_any() -> None:
    assert Overrides().put({"state": "Bound"}) == {"state": "Bound"}
    assert Overrides(("a-0",), (("ns", "b-0"),)).put({}) == {
        "clusterResourceOverrideSnapshots": ["a-0"],
        "resourceOverrideSnapshots": [{"name": "b-0", "namespace": "ns"}],
    }


# Works, evictions, members


def work(name: str, applied: str, reason: str = "x", generation: int = 1) -> Obj:
    entry = {**condition("Applied", applied, reason, "", 1), "lastTransitionTime": STAMP}
    return {"metadata": {"name": name, "generation": generation}, "status": {"conditions": [entry]}}


def test_a_work_that_has_not_answered_hides_one_that_failed() -> None:
    works = [work("a", "False"), work("b", "True", generation=2)]
    (entry,) = summarize(works, ENDINGS, report_diff=False).conditions
    assert entry["message"] == "Work object b has not yet completed the apply op"
    (entry,) = summarize(works[:1], ENDINGS, report_diff=False).conditions
    assert entry["message"] == "Work object a has failed to apply"


def test_an_eviction_of_what_was_not_rolled_out_is_blocked() -> None:
    eviction = {"metadata": {"name": "e"}, "spec": {"placementName": "p", "clusterName": "a"}}
    placement = {"metadata": {"name": "p"}, "spec": {}}
    verdict = judge(eviction, placement, [binding("a", "", "Scheduled")], None)
    assert verdict.evict is None
    assert verdict.conditions[-1]["message"] == (
        "Eviction is blocked, placement has not propagated resources to target cluster yet"
    )


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({}, "cluster is not connected to the fleet: member agent not online yet"),
        (
            {"agentStatus": [{"type": "MemberAgent", "lastReceivedHeartbeat": STAMP}]},
            "cluster is not connected to the fleet: member agent not joined yet",
        ),
    ],
)
def test_why_a_member_cannot_be_chosen(status: Obj, reason: str) -> None:
    assert cluster_of({"metadata": {"name": "m"}, "status": status}).ineligible(NOW) == reason
