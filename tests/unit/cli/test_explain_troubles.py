"""What `corral explain` says about containers that do not come up."""

from __future__ import annotations

from typing import Any

import pytest

from corral.cli import explain
from corral.core.errors import NotFound
from corral.core.meta import Obj
from corral.core.resource import Resource


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ({"running": {"startedAt": "2026-11-16T08:00:00Z"}}, ""),
        ({"waiting": {"reason": "ContainerCreating"}}, ""),
        ({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}, "CrashLoopBackOff: back-off 10s"),
        ({"waiting": {"reason": "ErrImagePull"}}, "ErrImagePull"),
        ({"terminated": {"exitCode": 0, "reason": "Completed"}}, ""),
        ({"terminated": {"exitCode": 3, "reason": "Error"}}, "Error, exit code 3"),
        (
            {"terminated": {"exitCode": 128, "reason": "StartError", "message": "no x"}},
            "StartError, exit code 128 no x",
        ),
    ],
)
def test_only_what_went_wrong_is_told(state: Obj, told: str) -> None:
    assert explain._trouble(state) == told


class Cluster:
    """Answers as an API that holds a pod and nothing else."""

    def __init__(self, pod: Obj) -> None:
        self._pod = pod

    def list(self, resource: Resource, namespace: str = "", **_: Any) -> Obj:
        return {"items": [self._pod] if resource.kind == "Pod" else []}

    def get(self, resource: Resource, name: str, namespace: str = "") -> Obj:
        raise NotFound(name)


def test_a_failed_job_is_told_with_what_its_pods_died_of(capsys: pytest.CaptureFixture[str]) -> None:
    ended = {"name": "main", "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u"}
    pod = {"metadata": {"name": "train-x", "ownerReferences": [owner]}, "status": {"containerStatuses": [ended]}}
    condition = {"type": "Finished", "status": "True", "reason": "Failed", "message": "too often"}
    workload = {"kind": "Workload", "metadata": {"name": "w"}, "spec": {}, "status": {"conditions": [condition]}}
    client: Any = Cluster(pod)
    explain._print_explanation(client, explain.JOBS, {"metadata": {"name": "train", "uid": "u"}}, workload, "default")
    assert capsys.readouterr().out.splitlines() == [
        "Job train: Finished (Failed): too often",
        "  pod train-x, container main: Error, exit code 3",
        "  -> `corral logs job/train` shows what it wrote, as far as that was kept.",
    ]
