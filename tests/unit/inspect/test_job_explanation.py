"""What `corral explain` says about a job and its pods."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core.errors import NotFound
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.inspect import job_explanation
from corral.inspect.explain import Explanation
from corral.jobs.batch_job.kind import JOBS


class Cluster:
    """Answers as an API that holds a pod and nothing else."""

    def __init__(self, pod: Obj) -> None:
        self._pod = pod

    def list(self, resource: Resource, namespace: str = "", **_: Any) -> Obj:
        return {"items": [self._pod] if resource.kind == "Pod" else []}

    def get(self, resource: Resource, name: str, namespace: str = "") -> Obj:
        raise NotFound(name)


def test_a_failed_job_is_told_with_what_its_pods_died_of() -> None:
    ended = {"name": "main", "state": {"terminated": {"exitCode": 3, "reason": "Error"}}}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u"}
    pod = {"metadata": {"name": "train-x", "ownerReferences": [owner]}, "status": {"containerStatuses": [ended]}}
    condition = {"type": "Finished", "status": "True", "reason": "Failed", "message": "too often"}
    workload = {"kind": "Workload", "metadata": {"name": "w"}, "spec": {}, "status": {"conditions": [condition]}}
    client: Any = Cluster(pod)
    told = job_explanation.explain_job(client, JOBS, {"metadata": {"name": "train", "uid": "u"}}, workload, "default")
    assert told == Explanation(
        "Job train: Finished (Failed): too often",
        ("pod train-x, container main: Error, exit code 3",),
        "`corral logs job/train` shows what it wrote, as far as that was kept.",
    )


@pytest.mark.parametrize(
    ("annotations", "identity", "line"),
    [
        ({}, "simulated://x", "simulated: its containers only pretend, no program of it runs"),
        ({"corral.dev/stands-in-for": "ray"}, "corral://x", "simulated: its pods stand in for ray, which does not run"),
    ],
)
@pytest.mark.parametrize("reason", ["Succeeded", "Failed"])
def test_a_job_that_only_pretended_is_called_simulated(
    annotations: dict[str, str], identity: str, line: str, reason: str
) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u"}
    metadata = {"name": "train-x", "ownerReferences": [owner], "annotations": annotations}
    pod = {"metadata": metadata, "status": {"containerStatuses": [{"name": "main", "containerID": identity}]}}
    condition = {"type": "Finished", "status": "True", "reason": reason, "message": "done"}
    workload = {"kind": "Workload", "metadata": {"name": "w"}, "spec": {}, "status": {"conditions": [condition]}}
    client: Any = Cluster(pod)
    told = job_explanation.explain_job(client, JOBS, {"metadata": {"name": "train", "uid": "u"}}, workload, "default")
    assert told.headline == f"Job train (simulated): Finished ({reason}): done"
    assert told.facts[0] == line
