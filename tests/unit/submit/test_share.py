"""What a job asks for whose user has not said: as much as the largest worker gives it as a whole."""

from __future__ import annotations

import json

import pytest

from corral.core.meta import Obj
from corral.jobs.framework.registry import made_from, submission_makers
from corral.jobs.framework.submission import Submission
from corral.kinds.kueue import names
from corral.submit.share import too_much, usual_cpus, whole


def queue(cpu: str) -> Obj:
    return {"metadata": {"annotations": {names.LARGEST_WORKER: json.dumps({"cpu": cpu, "memory": "8Gi"})}}}


def job(kind: str, cpus: str, workers: int = 2) -> Obj:
    wanted = Submission(
        name="a", namespace="default", command=("python", "a.py"), image="python", workers=workers, cpus=cpus
    )
    return made_from(kind, wanted)


@pytest.mark.parametrize("kind", sorted(submission_makers()))
def test_two_pods_of_any_kind_fit_a_worker_of_one_cpu(kind: str) -> None:
    cpus = usual_cpus(queue("1"), lambda cpus: job(kind, cpus))
    assert whole(job(kind, cpus))["cpu"] <= 1000
    assert too_much(queue("1"), job(kind, cpus)) == ""


@pytest.mark.parametrize(
    ("cpu", "cpus"), [("8", "1"), ("1", "500m"), ("666m", "250m"), ("10m", "1")], ids=lambda value: value
)
def test_a_pod_gets_one_cpu_or_as_much_less_as_fits(cpu: str, cpus: str) -> None:
    assert usual_cpus(queue(cpu), lambda cpus: job("job", cpus)) == cpus


def test_where_nobody_says_what_workers_have_a_pod_gets_one_cpu() -> None:
    assert usual_cpus({"metadata": {}}, lambda cpus: job("job", cpus, 100)) == "1"
    assert too_much({"metadata": {}}, job("job", "1", 100)) == ""


def test_what_no_worker_has_is_said() -> None:
    assert too_much(queue("1"), job("job", "3", 1)) == (
        "all its pods together ask for 3 cpu, and the largest worker has 1 cpu: it will not start; ask for less"
    )
    wanted = Submission(
        name="a",
        namespace="default",
        command=("python", "a.py"),
        image="python",
        gpus=1,
        cpus="1",
        gpu_resource="a/gpu",
    )
    assert "ask for 1 a/gpu, and the largest worker has no a/gpu" in too_much(queue("1"), made_from("job", wanted))


def test_what_is_no_quantity_is_left_to_the_server() -> None:
    assert too_much(queue("1"), job("job", "many", 1)) == ""
