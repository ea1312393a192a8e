"""What is deleted after a RayJob has ended, and when."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core.meta import Obj
from corral.core.timestamps import format_time
from corral.jobs.ray.job_ending import clean_up_after

NOW = 1_800_000_000.0
CLUSTER = {"metadata": {"name": "c"}, "spec": {"workerGroupSpecs": [{"groupName": "w"}]}}


def ended(ago_s: float = 10, outcome: str = "SUCCEEDED", **spec: Any) -> Obj:
    status = {"jobStatus": outcome, "jobDeploymentStatus": "Complete", "endTime": format_time(NOW - ago_s)}
    return {"metadata": {"name": "j"}, "spec": spec, "status": status}


def rule(policy: str, ttl: int = 0, **condition: str) -> Obj:
    return {"policy": policy, "condition": {"ttlSeconds": ttl, **condition}}


def strategy(*rules: Obj) -> Obj:
    return {"deletionRules": list(rules)}


DONE = {"jobStatus": "SUCCEEDED"}
FAILED = {"jobStatus": "FAILED"}


@pytest.mark.parametrize(
    ("job", "deleted", "wait_s"),
    [
        pytest.param(ended(), "", None, id="nothing was asked for"),
        pytest.param(ended(shutdownAfterJobFinishes=True), "cluster", None, id="at once"),
        pytest.param(ended(shutdownAfterJobFinishes=True, ttlSecondsAfterFinished=30), "", 20.0, id="after a while"),
        pytest.param(ended(shutdownAfterJobFinishes=True, clusterSelector={"a": "b"}), "", None, id="not its own"),
        pytest.param(
            ended(deletionStrategy={"onSuccess": {"policy": "DeleteWorkers"}}), "workers", None, id="on success"
        ),
        pytest.param(ended(deletionStrategy={"onFailure": {"policy": "DeleteSelf"}}), "", None, id="not on success"),
        pytest.param(
            ended(outcome="FAILED", deletionStrategy={"onFailure": {"policy": "DeleteSelf"}}),
            "job",
            None,
            id="on failure",
        ),
        pytest.param(ended(deletionStrategy=strategy(rule("DeleteCluster", **FAILED))), "", None, id="another end"),
        pytest.param(
            ended(deletionStrategy=strategy(rule("DeleteWorkers", 5, **DONE), rule("DeleteCluster", 40, **DONE))),
            "workers",
            30.0,
            id="one now, one later",
        ),
        pytest.param(
            ended(deletionStrategy=strategy(rule("DeleteWorkers", **DONE), rule("DeleteCluster", **DONE))),
            "cluster",
            None,
            id="what goes furthest",
        ),
    ],
)
def test_what_is_left(job: Obj, deleted: str, wait_s: float | None) -> None:
    plan = clean_up_after(job, CLUSTER, NOW)
    found = {"job": plan.delete_job, "cluster": plan.delete_cluster, "workers": plan.suspend_workers}
    assert found == {name: name == deleted for name in found}
    assert plan.wait_s == wait_s


def test_workers_that_are_gone_are_not_suspended_again() -> None:
    cluster = {"metadata": {"name": "c"}, "spec": {"workerGroupSpecs": [{"suspend": True}]}}
    job = ended(deletionStrategy={"onSuccess": {"policy": "DeleteWorkers"}})
    assert not clean_up_after(job, cluster, NOW).suspend_workers
