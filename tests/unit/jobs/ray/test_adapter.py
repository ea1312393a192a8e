"""Which pods a RayJob asks for, by the way its entry point is submitted."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core.meta import Obj
from corral.jobs.framework.registry import adapter
from corral.workload.podsets import PodSetInfo


def ray_job(**spec: Any) -> Obj:
    template = {"spec": {"containers": [{"name": "ray", "image": "ray:1", "resources": {"requests": {"cpu": "1"}}}]}}
    groups = [{"groupName": "small", "replicas": 2, "numOfHosts": 2, "template": template}]
    cluster = {"headGroupSpec": {"template": template}, "workerGroupSpecs": groups}
    return {"metadata": {"name": "j"}, "spec": {"suspend": True, "rayClusterSpec": cluster, **spec}}


@pytest.mark.parametrize(
    ("mode", "want"),
    [
        ("K8sJobMode", {"head": 1, "small": 4, "submitter": 1}),
        ("HTTPMode", {"head": 1, "small": 4}),
        ("SidecarMode", {"head": 1, "small": 4}),
        ("InteractiveMode", {"head": 1, "small": 4}),
    ],
)
def test_pods_by_submission_mode(mode: str, want: dict[str, int]) -> None:
    sets = adapter("ray.io/rayjob").pod_sets(ray_job(submissionMode=mode), lambda resource, key: None)
    assert {entry.name: entry.count for entry in sets} == want


def test_submitter_beside_the_head_has_its_share() -> None:
    job = ray_job(submissionMode="SidecarMode")
    head = adapter("ray.io/rayjob").pod_sets(job, lambda resource, key: None)[0]
    names = [container["name"] for container in head.template["spec"]["containers"]]
    assert names == ["ray", "ray-job-submitter"]
    assert head.template["spec"]["containers"][1]["resources"]["requests"] == {"cpu": "500m", "memory": "200Mi"}
    started = adapter("ray.io/rayjob").run(job, [PodSetInfo("head"), PodSetInfo("small")])
    containers = started["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"]
    assert len(containers) == 1  # the operator adds it, not the queue
