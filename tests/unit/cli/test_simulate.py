"""`corral simulate`: manifests in, what would happen out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from corral.cli.main import corral

Obj = dict[str, Any]
KUEUE = "kueue.x-k8s.io/v1beta2"


def flavor(name: str = "default-flavor", **spec: Any) -> Obj:
    return {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec}


def queues(flavors: dict[str, int], name: str = "user-queue", **spec: Any) -> list[Obj]:
    """A ClusterQueue with so many CPUs of each flavor, and the LocalQueue that leads to it."""
    listed = [{"name": key, "resources": [{"name": "cpu", "nominalQuota": cpu}]} for key, cpu in flavors.items()]
    group = {"coveredResources": ["cpu"], "flavors": listed}
    body = {"namespaceSelector": {}, "resourceGroups": [group], **spec}
    local = {"metadata": {"name": name, "namespace": "default"}, "spec": {"clusterQueue": "team"}}
    return [
        {"apiVersion": KUEUE, "kind": "ClusterQueue", "metadata": {"name": "team"}, "spec": body},
        {"apiVersion": KUEUE, "kind": "LocalQueue", **local},
    ]


def job(name: str, cpu: int, seconds: int, annotations: Obj | None = None, **labels: str) -> Obj:
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
    template = {
        "metadata": {"annotations": {"corral.dev/run-seconds": str(seconds)}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    labels = {"kueue.x-k8s.io/queue-name": "user-queue", **labels}
    metadata = {"name": name, "labels": labels, "annotations": annotations or {}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}


def run(tmp_path: Path, objects: list[Obj], *arguments: str) -> Result:
    file = tmp_path / "manifests.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    return CliRunner().invoke(corral, ["simulate", "-f", str(file), *arguments])


def answer(tmp_path: Path, objects: list[Obj], *arguments: str) -> Obj:
    result = run(tmp_path, objects, "--output", "json", *arguments)
    assert result.exit_code == 0, result.output
    found: Obj = json.loads(result.stdout)
    return found


def by_name(found: Obj) -> dict[str, Obj]:
    return {entry["name"]: entry for entry in found["jobs"]}


def test_jobs_wait_for_each_other_in_one_cluster_that_holds_the_quota(tmp_path: Path) -> None:
    objects = [flavor(), *queues({"default-flavor": 4}), job("a", 4, 600), job("b", 2, 300)]
    found = answer(tmp_path, objects)
    jobs = by_name(found)
    assert [entry["state"] for entry in found["jobs"]] == ["Succeeded", "Succeeded"]
    assert jobs["a"]["admitted"] == 0
    assert 600 <= jobs["b"]["admitted"] < 610
    assert 900 <= jobs["b"]["ended"] == found["seconds"] < 920
    assert {entry["cluster"] for entry in found["jobs"]} == {"cluster"}
    (used,) = found["utilisation"]
    assert (used["clusterQueue"], used["flavor"], used["resource"]) == ("team", "default-flavor", "cpu")
    assert used["peak"] == 1
    assert used["average"] == pytest.approx((4 * 600 + 2 * 300) / (4 * 900), abs=0.02)


def test_copies_are_submitted_one_after_the_other(tmp_path: Path) -> None:
    marks = {
        "corral.dev/submit-after": "10m",
        "corral.dev/submit-count": "3",
        "corral.dev/submit-every": "1m",
    }
    found = answer(tmp_path, [job("a", 1, 10, marks)])
    assert {name: entry["queued"] for name, entry in by_name(found).items()} == {"a-1": 600, "a-2": 660, "a-3": 720}


def test_a_fleet_of_workers_shares_the_jobs(tmp_path: Path) -> None:
    objects = [flavor(), *queues({"default-flavor": 100}), *(job(f"j{number}", 3, 600) for number in range(3))]
    found = answer(tmp_path, objects, "--cluster", "small=cpu=4", "--cluster", "large=cpu=7")
    assert sorted(entry["cluster"] for entry in found["jobs"]) == ["large", "large", "small"]
    assert found["seconds"] < 700


def test_workers_are_as_large_as_those_of_up(tmp_path: Path) -> None:
    found = answer(tmp_path, [job("a", 8, 60), job("b", 8, 60)], "--workers", "2")
    assert sorted(entry["cluster"] for entry in found["jobs"]) == ["worker1", "worker2"]
    quotas = {entry["resource"]: entry["quota"] for entry in found["utilisation"]}
    assert quotas == {"cpu": "16", "memory": "64Gi", "pods": "220"}


def test_flavors_have_nodes_with_their_labels_and_taints(tmp_path: Path) -> None:
    taint = {"key": "spot", "value": "true", "effect": "NoSchedule"}
    tolerated = [{"key": "spot", "operator": "Exists"}]
    objects = [
        flavor("on-demand", nodeLabels={"kind": "on-demand"}),
        flavor("spot", nodeLabels={"kind": "spot"}, nodeTaints=[taint], tolerations=tolerated),
        *queues({"on-demand": 2, "spot": 4}),
        job("a", 2, 60),
        job("b", 4, 60),
    ]
    found = answer(tmp_path, objects)
    assert [entry["state"] for entry in found["jobs"]] == ["Succeeded", "Succeeded"]
    assert {entry["flavor"]: entry["peak"] for entry in found["utilisation"]} == {"on-demand": 1, "spot": 1}


def test_a_preempted_job_is_shown_with_its_eviction(tmp_path: Path) -> None:
    low, high = (
        {"apiVersion": KUEUE, "kind": "WorkloadPriorityClass", "metadata": {"name": name}, "value": value}
        for name, value in (("low", 1), ("high", 100))
    )
    preempting = queues({"default-flavor": 4}, preemption={"withinClusterQueue": "LowerPriority"})
    first = job("first", 4, 600, **{"kueue.x-k8s.io/priority-class": "low"})
    urgent = job("urgent", 4, 60, {"corral.dev/submit-after": "1m"}, **{"kueue.x-k8s.io/priority-class": "high"})
    jobs = by_name(answer(tmp_path, [low, high, flavor(), *preempting, first, urgent]))
    assert jobs["first"]["evictions"] == 1
    assert jobs["urgent"]["evictions"] == 0
    assert jobs["urgent"]["ended"] <= jobs["first"]["admitted"] < jobs["first"]["ended"]


def test_what_waits_says_why_and_time_is_up_when_it_was_told(tmp_path: Path) -> None:
    objects = [flavor(), *queues({"default-flavor": 4}), job("huge", 5, 60), job("long", 4, 86_400)]
    result = run(tmp_path, objects, "--until", "2h")
    assert result.exit_code == 0, result.output
    assert "2 workloads in 2h: 1 running, 1 waiting; waited 0s" in result.stdout
    assert "Job/huge waits: couldn't assign flavors" in result.stdout


def test_nobody_waits_for_what_will_not_happen(tmp_path: Path) -> None:
    found = answer(tmp_path, [flavor(), *queues({"default-flavor": 4}), job("huge", 5, 60)], "--until", "1000h")
    assert found["seconds"] <= 2 * 3600
    assert found["jobs"][0]["state"] == "Waiting"


def test_a_job_in_no_queue_is_named(tmp_path: Path) -> None:
    loose = job("loose", 1, 60)
    del loose["metadata"]["labels"]
    result = run(tmp_path, [loose, job("a", 1, 60)])
    assert "Job/loose is in no queue" in result.stdout
    assert "1 workload in 1m" in result.stdout


def test_the_same_seed_gives_the_same_answer(tmp_path: Path) -> None:
    objects = [job(f"j{number}", 3, 60 * number + 60) for number in range(6)]
    answers = [answer(tmp_path, objects, "--workers", "2", "--seed", "7") for _ in range(2)]
    assert answers[0] == answers[1]


def test_nodes_may_be_described(tmp_path: Path) -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {"capacity": {"cpu": "3", "memory": "8Gi"}},
    }
    found = answer(tmp_path, [node, job("a", 2, 60), job("b", 2, 60)])
    assert 60 <= by_name(found)["b"]["admitted"] < 70


@pytest.mark.parametrize(
    ("objects", "arguments", "complaint"),
    [
        pytest.param([flavor()], (), "the manifests have no jobs", id="no jobs"),
        pytest.param([{"kind": "Job"}], (), "apiVersion is missing", id="no version"),
        pytest.param(
            [job("a", 1, 1), {"apiVersion": "x.io/v1", "kind": "X", "metadata": {"name": "x"}}],
            (),
            "X x: there is no kind X in x.io/v1",
            id="unknown",
        ),
        pytest.param(
            [flavor(), {**job("a", 1, 1), "kind": "Jobb"}],
            (),
            "document 2: Jobb a: there is no kind Jobb in batch/v1; did you mean Job?",
            id="misspelt kind",
        ),
        pytest.param(
            [job("a", 1, 1), {**job("b", 1, 1), "spec": {"paralelism": 2, **job("b", 1, 1)["spec"]}}],
            (),
            'document 2: Job b: Job in version "v1" cannot be handled as a Job: strict decoding error: unknown field "spec.paralelism"',
            id="misspelt field",
        ),
        pytest.param([job("A!", 1, 1)], (), "manifests.yaml: Job A!: ", id="refused"),
        pytest.param([job("a", 1, 1)], ("--live", "--workers", "2"), "--live takes the workers", id="live and workers"),
        pytest.param([job("a", 1, 1)], ("--until", "soon"), "write it as 90m or 24h", id="no duration"),
        pytest.param([job("a", 1, 1)], ("--cluster", "big"), "write it as NAME=cpu=8", id="no size"),
        pytest.param([job("a", 1, 1)], ("--cluster", "big=cpu=x"), "write it as RESOURCE=AMOUNT", id="no amount"),
        pytest.param([job("a", 1, 1)], ("--cluster", "b=cpu=1", "--workers", "1"), "exclude each other", id="both"),
        pytest.param(
            [job("a", 1, 1, {"corral.dev/submit-count": "9999999"})], (), "is more than 100000", id="too many copies"
        ),
        pytest.param(
            [job("a", 1, 1, {"corral.dev/submit-after": "later"})], (), "Job a: ", id="submitted at no known time"
        ),
    ],
)
def test_what_cannot_be_simulated_is_said_in_a_sentence(
    tmp_path: Path, objects: list[Obj], arguments: tuple[str, ...], complaint: str
) -> None:
    result = run(tmp_path, objects, *arguments)
    assert result.exit_code != 0
    assert complaint in result.output
    assert "Traceback" not in result.output


def test_who_was_evicted_when_and_by_whom_is_listed(tmp_path: Path) -> None:
    classes = {"apiVersion": KUEUE, "kind": "WorkloadPriorityClass", "metadata": {"name": "high"}, "value": 100}
    queue = queues({"default-flavor": 4}, preemption={"withinClusterQueue": "LowerPriority"})
    late = job("late", 4, 60, {"corral.dev/submit-after": "5m"}, **{"kueue.x-k8s.io/priority-class": "high"})
    objects = [flavor(), classes, *queue, job("early", 4, 600), late]
    (eviction,) = by_name(answer(tmp_path, objects))["early"]["evicted"]
    assert 300 <= eviction["at"] < 310
    assert eviction["reason"] == "InClusterQueue"
    assert "to accommodate a workload (Job late)" in eviction["message"]
    assert "(Job late)" in run(tmp_path, objects).stdout.partition("EVICTED AT")[2]


def test_two_settings_are_compared_job_by_job(tmp_path: Path) -> None:
    objects = [flavor(), *queues({"default-flavor": 2}), job("a", 2, 600), job("b", 2, 600)]
    more = tmp_path / "more.yaml"
    more.write_text(yaml.safe_dump_all(queues({"default-flavor": 4})[:1]))
    found = answer(tmp_path, objects, "--compare", str(more))
    given, then = by_name(found["asGiven"])["b"], by_name(found["compared"])["b"]
    assert given["admitted"] >= 600
    assert then["admitted"] < 10
    told = run(tmp_path, objects, "--compare", str(more)).stdout
    assert "ADMITTED THEN" in told
    assert "\ncompared: 2 workloads in " in told
    wider = answer(tmp_path, [job("a", 8, 60), job("b", 8, 60)], "--workers", "1", "--compare-workers", "2")
    assert {entry["cluster"] for entry in wider["compared"]["jobs"]} == {"worker1", "worker2"}
