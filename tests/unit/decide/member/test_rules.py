"""Waves, pace, identification, the queue's fields and owner references."""

from __future__ import annotations

import itertools

import pytest

from corral.core.resource import Resource
from corral.decide.member.backoff import BackoffSettings, Pace, next_pace
from corral.decide.member.manifests import hash_of, identify, last_applied, to_apply
from corral.decide.member.ownership import may_not_apply, print_references
from corral.decide.member.queue import bend, ignored_paths
from corral.decide.member.waves import wave_of, waves

JOBS = Resource("batch", "v1", "jobs", "Job")
OURS = {"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "AppliedWork", "name": "w", "uid": "1"}


@pytest.mark.parametrize(
    ("group", "plural", "wave"),
    [
        ("", "namespaces", 0),
        ("scheduling.k8s.io", "priorityclasses", 0),
        ("", "configmaps", 1),
        ("apiextensions.k8s.io", "customresourcedefinitions", 1),
        ("rbac.authorization.k8s.io", "roles", 2),
        ("rbac.authorization.k8s.io", "rolebindings", 3),
        ("apps", "deployments", 4),
        ("batch", "jobs", 4),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations", 5),
        ("kueue.x-k8s.io", "clusterqueues", 999),
        ("example.com", "jobs", 999),
    ],
)
def test_the_wave_of_a_kind(group: str, plural: str, wave: int) -> None:
    assert wave_of(group, plural) == wave


def test_waves_keep_the_order_of_manifests_within() -> None:
    objects = [
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "b", "namespace": "n"}},
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}},
        {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a", "namespace": "n"}},
    ]
    namespaces = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
    found = identify(objects, {("batch", "v1", "Job"): JOBS, ("", "v1", "Namespace"): namespaces})
    assert [[one.key.name for one in wave] for wave in waves(found)] == [["n"], ["b", "a"]]


def paces(settled: bool, count: int) -> list[float]:
    delays: list[float] = []
    pace: Pace | None = None
    for _ in range(count):
        pace = next_pace(pace, 1, [("Applied", "Available")], settled, BackoffSettings())
        delays.append(round(pace.delay, 1))
    return delays


def test_delays_grow_slowly_then_fast_to_a_quarter_of_an_hour() -> None:
    assert paces(False, 16) == [5, 2, 2.4, 2.9, 3.5, 4.1, 5.0, 6.0, 7.2, 8.6, 10.3, 12.4, 14.9, 22.3, 33.4, 50.2]
    assert paces(True, 6) == [5, 2, 3, 4.5, 6.8, 10.1]
    assert paces(True, 40)[-1] == 900


def test_a_change_starts_the_delays_over() -> None:
    settings = BackoffSettings()
    pace = next_pace(None, 1, [("Applied", "Available")], True, settings)
    for _ in range(5):
        pace = next_pace(pace, 1, [("Applied", "Available")], True, settings)
    assert next_pace(pace, 2, [("Applied", "Available")], True, settings).delay == 5
    assert next_pace(pace, 1, [("FoundDrifts", "")], False, settings).delay == 5


def test_a_hash_is_of_what_matters() -> None:
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, "spec": {"suspend": True}}
    assert hash_of(job) == hash_of({**job, "metadata": {"name": "x", "uid": "u", "generation": 4}, "status": {"a": 1}})
    assert hash_of(job) != hash_of({**job, "spec": {"suspend": False}})


def test_what_is_applied_remembers_itself_until_it_is_too_large() -> None:
    small = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "uid": "u"}, "data": {"a": "1"}}
    body = to_apply(small, [OURS], remember=True)
    assert "uid" not in body["metadata"]
    assert last_applied(body)["data"] == {"a": "1"}
    assert last_applied(to_apply({**small, "data": {"a": "x" * 300_000}}, [OURS], remember=True)) == {}


JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "spec": {
        "suspend": True,
        "parallelism": 4,
        "selector": {"matchLabels": {}},
        "template": {"metadata": {"labels": {"job-name": "x"}}, "spec": {"containers": [{"name": "c"}]}},
    },
}
STARTED = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "spec": {
        "suspend": False,
        "parallelism": 2,
        "backoffLimit": 6,
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}},
        "template": {
            "metadata": {
                "labels": {"job-name": "x", "controller-uid": "u", "kueue.x-k8s.io/podset": "main"},
                "annotations": {"kueue.x-k8s.io/workload": "w"},
            },
            "spec": {
                "containers": [{"name": "c"}],
                "nodeSelector": {"pool": "spot"},
                "tolerations": [{"key": "spot", "operator": "Exists"}],
            },
        },
    },
}


def test_a_job_bends_to_what_queue_and_server_made_of_it_and_to_nothing_else() -> None:
    bent = bend(JOB, STARTED, marks=True, queue=True, generated=True)
    assert bent["spec"] == {name: value for name, value in STARTED["spec"].items() if name != "backoffLimit"}  # type: ignore[attr-defined]
    assert JOB["spec"]["suspend"] is True  # type: ignore[index]


def test_only_the_marks_of_the_queue_are_yielded_if_only_they_are_asked_for() -> None:
    bent = bend(JOB, STARTED, marks=True)
    assert bent["spec"]["suspend"] is True
    assert bent["spec"]["template"]["metadata"] == {
        "labels": {"job-name": "x", "kueue.x-k8s.io/podset": "main"},
        "annotations": {"kueue.x-k8s.io/workload": "w"},
    }


@pytest.mark.parametrize(
    ("spec", "started"),
    [
        pytest.param(
            {"runPolicy": {"suspend": True}, "pytorchReplicaSpecs": {"Worker": {"template": {"spec": {}}}}},
            {
                "runPolicy": {"suspend": False},
                "pytorchReplicaSpecs": {"Worker": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}},
            },
            id="PyTorchJob",
        ),
        pytest.param(
            {"suspend": True, "replicatedJobs": [{"template": {"spec": {"parallelism": 2, "template": {"spec": {}}}}}]},
            {
                "suspend": False,
                "replicatedJobs": [
                    {"template": {"spec": {"parallelism": 1, "template": {"spec": {"tolerations": [{"key": "k"}]}}}}}
                ],
            },
            id="JobSet",
        ),
        pytest.param(
            {"suspend": True, "rayClusterSpec": {"headGroupSpec": {"template": {"spec": {}}}}},
            {
                "suspend": False,
                "rayClusterSpec": {"headGroupSpec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}},
            },
            id="RayJob",
        ),
    ],
)
def test_every_job_kind_bends_to_the_queue(spec: dict[str, object], started: dict[str, object]) -> None:
    assert bend({"spec": spec}, {"spec": started}, queue=True)["spec"] == started


@pytest.mark.parametrize("order", list(itertools.permutations(["/spec/suspend", "/spec/parallelism"])))
def test_users_name_paths_in_a_list_or_with_commas(order: tuple[str, ...]) -> None:
    as_list = {"metadata": {"annotations": {"corral.dev/ignore-differences": str(list(order)).replace("'", '"')}}}
    as_text = {"metadata": {"annotations": {"corral.dev/ignore-differences": ", ".join(order)}}}
    assert ignored_paths(as_list) == ignored_paths(as_text) == order
    assert bend(JOB, STARTED, ignored=order)["spec"]["parallelism"] == 2


def test_owner_references_print_as_in_go() -> None:
    assert print_references([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}]) == (
        "[{APIVersion:v1 Kind:Pod Name:p UID:u Controller:true BlockOwnerDeletion:<nil>}]"
    )


@pytest.mark.parametrize(
    ("manifest", "live", "together", "text"),
    [
        ([], None, False, ""),
        ([], [OURS], False, ""),
        ([{"uid": "2"}], None, False, "manifest is set to have owner references but co-ownership is disallowed"),
        (
            [],
            [OURS, {"uid": "2"}],
            False,
            "object is co-owned by multiple objects but co-ownership has been disallowed",
        ),
        ([], [OURS, {"uid": "2"}], True, ""),
        ([], [{"uid": "2"}], False, "object is not owned by the expected AppliedWork object"),
        ([], [OURS, {**OURS, "uid": "2"}], True, "object is already owned by another AppliedWork object"),
    ],
)
def test_who_may_apply(
    manifest: list[dict[str, str]], live: list[dict[str, str]] | None, together: bool, text: str
) -> None:
    there = None if live is None else {"metadata": {"ownerReferences": live}}
    assert may_not_apply({"metadata": {"ownerReferences": manifest}}, there, OURS, together) == text
