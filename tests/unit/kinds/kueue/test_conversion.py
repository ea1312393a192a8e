"""v1beta1 and v1beta2 of the Kueue kinds say the same in different words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.core.meta import Obj
from corral.kinds.kueue import CLUSTER_QUEUE, LOCAL_QUEUE, MULTI_KUEUE_CLUSTER, WORKLOAD
from corral.kinds.kueue.topology_assignment import Domain, assignment_of, domains_of
from corral.kinds.machinery.definition import KindDef


def obj(kind: KindDef, version: str, **parts: Any) -> Obj:
    return {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": kind.kind, "metadata": {"name": "x"}, **parts}


PAIRS: dict[str, tuple[KindDef, Obj, Obj]] = {
    "cohort": (CLUSTER_QUEUE, {"spec": {"cohort": "team"}}, {"spec": {"cohortName": "team"}}),
    "usage": (
        LOCAL_QUEUE,
        {"status": {"flavorUsage": [{"name": "f", "resources": []}]}},
        {"status": {"flavorsUsage": [{"name": "f", "resources": []}]}},
    ),
    "workload priority": (
        WORKLOAD,
        {"spec": {"priorityClassName": "high", "priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass"}},
        {"spec": {"priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}}},
    ),
    "pod priority": (
        WORKLOAD,
        {"spec": {"priorityClassName": "high", "priorityClassSource": "scheduling.k8s.io/priorityclass"}},
        {"spec": {"priorityClassRef": {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "high"}}},
    ),
    "past execution": (
        WORKLOAD,
        {"status": {"accumulatedPastExexcutionTimeSeconds": 7}},
        {"status": {"accumulatedPastExecutionTimeSeconds": 7}},
    ),
    "topology": (
        WORKLOAD,
        {
            "status": {
                "admission": {
                    "podSetAssignments": [
                        {
                            "name": "main",
                            "topologyAssignment": {
                                "levels": ["rack", "host"],
                                "domains": [
                                    {"values": ["r1", "node-1"], "count": 2},
                                    {"values": ["r1", "node-2"], "count": 1},
                                ],
                            },
                        }
                    ]
                }
            }
        },
        {
            "status": {
                "admission": {
                    "podSetAssignments": [
                        {
                            "name": "main",
                            "topologyAssignment": {
                                "levels": ["rack", "host"],
                                "slices": [
                                    {
                                        "domainCount": 2,
                                        "podCounts": {"individual": [2, 1]},
                                        "valuesPerLevel": [
                                            {"universal": "r1"},
                                            {"individual": {"prefix": "node-", "roots": ["1", "2"]}},
                                        ],
                                    }
                                ],
                            },
                        }
                    ]
                }
            }
        },
    ),
    "kubeconfig": (
        MULTI_KUEUE_CLUSTER,
        {"spec": {"kubeConfig": {"location": "s", "locationType": "Secret"}}},
        {"spec": {"clusterSource": {"kubeConfig": {"location": "s", "locationType": "Secret"}}}},
    ),
}


@pytest.mark.parametrize(("kind", "old", "new"), PAIRS.values(), ids=list(PAIRS))
def test_both_directions(kind: KindDef, old: Obj, new: Obj) -> None:
    before, after = obj(kind, "v1beta1", **old), obj(kind, "v1beta2", **new)
    assert kind.at_version(before, "v1beta2") == after
    assert kind.at_version(after, "v1beta1") == before


def test_words_that_only_the_old_version_has() -> None:
    old = obj(
        CLUSTER_QUEUE,
        "v1beta1",
        spec={
            "admissionChecks": ["a", "b"],
            "flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"},
        },
        status={"pendingWorkloadsStatus": {}, "pendingWorkloads": 1},
    )
    new = CLUSTER_QUEUE.at_version(old, "v1beta2")
    assert new["spec"] == {
        "admissionChecksStrategy": {"admissionChecks": [{"name": "a"}, {"name": "b"}]},
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "MayStopSearch"},
    }
    assert new["status"] == {"pendingWorkloads": 1}


names = st.text("abc-1", min_size=1, max_size=6)
domain_lists = st.lists(st.tuples(st.tuples(names, names), st.integers(1, 9)), min_size=1, max_size=20)


@given(domain_lists)
def test_topology_assignments_survive_compression(pairs: list[tuple[tuple[str, str], int]]) -> None:
    domains = [Domain(values, pods) for values, pods in pairs]
    assert domains_of(assignment_of(["a", "b"], domains)) == domains
