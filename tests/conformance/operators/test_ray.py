"""RayClusters, RayJobs and RayServices, scenario by scenario."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance.operators.operator_stage import Stage, play, template

from corral.core import conditions
from corral.core.errors import Invalid
from corral.core.meta import Obj, labels_of
from corral.decide.jobs.raycluster import RaySettings
from corral.decide.jobs.rayjob import submit_command
from corral.kinds.batch import JOBS
from corral.kinds.core import PODS, SERVICES
from corral.kinds.ray import RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES
from corral.operators.job import JobController
from corral.operators.ray import ray_controllers


def controllers(cluster: Any) -> list[Any]:
    return [JobController(cluster.client, cluster.clock), *ray_controllers(cluster.client, cluster.clock)]


def cluster_spec(workers: int = 2, **spec: Any) -> Obj:
    group = {"groupName": "small", "replicas": workers, "rayStartParams": {}, "template": template("ray-worker")}
    head = {"rayStartParams": {}, "template": template("ray-head")}
    return {"headGroupSpec": head, "workerGroupSpecs": [group], **spec}


def ray_cluster(**spec: Any) -> Obj:
    return {"metadata": {"name": "rc"}, "spec": cluster_spec(**spec)}


def ray_job(**spec: Any) -> Obj:
    base = {"entrypoint": "python train.py", "rayClusterSpec": cluster_spec(1), "shutdownAfterJobFinishes": True}
    return {"metadata": {"name": "rj"}, "spec": {**base, **spec}}


async def state(stage: Stage, name: str = "rj") -> tuple[str, str]:
    status = (await stage.get(RAY_JOBS, name)).get("status") or {}
    return status.get("jobDeploymentStatus", ""), status.get("jobStatus", "")


async def submitters(stage: Stage) -> list[str]:
    return [pod["metadata"]["name"] for pod in await stage.pods(**{"job-name": "rj"})]


def test_cluster_has_head_workers_and_service() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(RAY_CLUSTERS, ray_cluster())
        pods = await stage.pods()
        assert [pod["metadata"]["generateName"] for pod in pods] == ["rc-head-", "rc-small-worker-", "rc-small-worker-"]
        assert labels_of(pods[1])["ray.io/group"] == "small"
        service = await stage.get(SERVICES, "rc-head-svc")
        assert {port["name"]: port["port"] for port in service["spec"]["ports"]}["dashboard"] == 8265
        pending = (await stage.get(RAY_CLUSTERS, "rc"))["status"]
        assert conditions.find(pending["conditions"], "RayClusterProvisioned")["reason"] == "RayClusterPodsProvisioning"  # type: ignore[index]
        await stage.run()
        ready = (await stage.get(RAY_CLUSTERS, "rc"))["status"]
        assert (ready["state"], ready["desiredWorkerReplicas"], ready["readyWorkerReplicas"]) == ("ready", 2, 2)
        assert conditions.is_true(ready["conditions"], "HeadPodReady")
        assert conditions.is_true(ready["conditions"], "RayClusterProvisioned")

    play(controllers, script)


def test_cluster_is_suspended_whole_and_resumed() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(RAY_CLUSTERS, ray_cluster())
        await stage.run()
        await stage.patch(RAY_CLUSTERS, "rc", {"spec": {"suspend": True}})
        await stage.pass_time(40)
        held = await stage.get(RAY_CLUSTERS, "rc")
        assert await stage.names(PODS) == []
        assert held["status"]["state"] == "suspended"
        assert conditions.is_true(held, "RayClusterSuspended")
        assert conditions.is_false(held, "RayClusterSuspending")
        await stage.patch(RAY_CLUSTERS, "rc", {"spec": {"suspend": False}})
        assert len(await stage.names(PODS)) == 3
        await stage.run()
        resumed = await stage.get(RAY_CLUSTERS, "rc")
        assert resumed["status"]["state"] == "ready"
        assert conditions.is_false(resumed, "RayClusterSuspended")

    play(controllers, script)


def test_cluster_scales_and_chosen_workers_go() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(RAY_CLUSTERS, ray_cluster())
        chosen = (await stage.pods(**{"ray.io/group": "small"}))[0]["metadata"]["name"]
        group = (await stage.get(RAY_CLUSTERS, "rc"))["spec"]["workerGroupSpecs"][0]
        smaller = {**group, "replicas": 1, "scaleStrategy": {"workersToDelete": [chosen]}}
        await stage.patch(RAY_CLUSTERS, "rc", {"spec": {"workerGroupSpecs": [smaller]}})
        await stage.pass_time(40)
        left = await stage.pods(**{"ray.io/group": "small"})
        assert len(left) == 1
        assert left[0]["metadata"]["name"] != chosen

    play(controllers, script)


@pytest.mark.parametrize(
    ("resource", "body"), [(RAY_CLUSTERS, ray_cluster()), (RAY_JOBS, ray_job())], ids=["cluster", "job"]
)
def test_manager(resource: Any, body: Obj) -> None:
    async def script(stage: Stage) -> None:
        foreign = {**body, "spec": {**body["spec"], "managedBy": "kueue.x-k8s.io/multikueue"}}
        made = await stage.create(resource, foreign)
        await stage.pass_time(3)
        assert await stage.names(PODS) == []
        assert "status" not in await stage.get(resource, made["metadata"]["name"])
        with pytest.raises(Invalid, match="the managedBy field is immutable"):
            await stage.patch(resource, made["metadata"]["name"], {"spec": {"managedBy": "ray.io/kuberay-operator"}})
        wrong = {"metadata": {"name": "x"}, "spec": {**body["spec"], "managedBy": "other.io/x"}}
        with pytest.raises(Invalid, match="the managedBy field value must be either"):
            await stage.create(resource, wrong)

    play(controllers, script)


def test_job_runs_to_its_end_and_gives_its_cluster_back() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(RAY_JOBS, ray_job(ttlSecondsAfterFinished=60))
        assert await state(stage) == ("Initializing", "")
        assert await submitters(stage) == []
        await stage.run()
        assert await state(stage) == ("Running", "PENDING")
        await stage.run(*await submitters(stage))
        assert await state(stage) == ("Running", "RUNNING")
        status = (await stage.get(RAY_JOBS, "rj"))["status"]
        assert status["rayClusterStatus"]["state"] == "ready"
        assert status["dashboardURL"].endswith("-head-svc.default.svc.cluster.local:8265")
        await stage.succeed(*await submitters(stage))
        assert await state(stage) == ("Complete", "SUCCEEDED")
        assert len(await stage.names(RAY_CLUSTERS)) == 1
        await stage.pass_time(120)
        assert await stage.names(RAY_CLUSTERS) == []

    play(controllers, script)


def test_failed_job_tries_again_with_a_new_cluster() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(RAY_JOBS, ray_job(backoffLimit=1))
        first = (await stage.get(RAY_JOBS, "rj"))["status"]["rayClusterName"]
        await stage.run()
        await stage.fail(*await submitters(stage))
        await stage.pass_time(60)
        second = (await stage.get(RAY_JOBS, "rj"))["status"]
        assert (second["jobDeploymentStatus"], second["failed"]) == ("Initializing", 1)
        assert second["rayClusterName"] != first
        await stage.run()
        await stage.fail(*await submitters(stage))
        await stage.pass_time(5)
        last = (await stage.get(RAY_JOBS, "rj"))["status"]
        assert (last["jobDeploymentStatus"], last["reason"], last["failed"]) == ("Failed", "AppFailed", 2)

    play(controllers, script)


@pytest.mark.parametrize("running", [False, True], ids=["initializing", "running"])
def test_job_is_suspended_and_starts_over(running: bool) -> None:
    async def script(stage: Stage) -> None:
        await stage.create(RAY_JOBS, ray_job())
        first = (await stage.get(RAY_JOBS, "rj"))["status"]["rayClusterName"]
        if running:
            await stage.run()
        await stage.patch(RAY_JOBS, "rj", {"spec": {"suspend": True}})
        await stage.pass_time(60)
        assert await state(stage) == ("Suspended", "")
        assert await stage.names(RAY_CLUSTERS) == await stage.names(JOBS) == await stage.names(PODS) == []
        await stage.patch(RAY_JOBS, "rj", {"spec": {"suspend": False}})
        again = (await stage.get(RAY_JOBS, "rj"))["status"]
        assert again["jobDeploymentStatus"] == "Initializing"
        assert again["rayClusterName"] != first

    play(controllers, script)


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"suspend": True, "shutdownAfterJobFinishes": False}, "not allowed to be suspended"),
        ({"clusterSelector": {"a": "b"}}, "cannot be set at the same time"),
        ({"rayClusterSpec": None}, "one of RayClusterSpec or ClusterSelector must be set"),
        ({"ttlSecondsAfterFinished": 5, "shutdownAfterJobFinishes": False}, "cannot have TTLSecondsAfterFinished"),
    ],
)
def test_job_that_makes_no_sense_says_why(spec: Obj, text: str) -> None:
    async def script(stage: Stage) -> None:
        body = ray_job(**spec)
        body["spec"] = {name: value for name, value in body["spec"].items() if value is not None}
        await stage.create(RAY_JOBS, body)
        status = (await stage.get(RAY_JOBS, "rj"))["status"]
        assert status["jobDeploymentStatus"] == "ValidationFailed"
        assert text in status["message"]

    play(controllers, script)


def test_deadlines() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(RAY_JOBS, ray_job(activeDeadlineSeconds=30))
        await stage.run()
        await stage.pass_time(40)
        status = (await stage.get(RAY_JOBS, "rj"))["status"]
        assert (status["jobDeploymentStatus"], status["reason"]) == ("Failed", "DeadlineExceeded")

    play(controllers, script)


def test_interactive_job_waits() -> None:
    async def script(stage: Stage) -> None:
        body = ray_job(submissionMode="InteractiveMode")
        del body["spec"]["entrypoint"]
        await stage.create(RAY_JOBS, body)
        await stage.run()
        assert await state(stage) == ("Waiting", "")

    play(controllers, script)


def test_submission_uses_ray_where_it_is_installed() -> None:
    job = {"metadata": {"name": "rj"}, "spec": {"entrypoint": "python x.py", "entrypointNumCpus": 2}}
    assert submit_command(job, RaySettings(real=False)) == "python x.py"
    command = submit_command(job, RaySettings(real=True))
    assert 'ray job submit --address "http://$RAY_DASHBOARD_ADDRESS" --no-wait' in command
    assert "--entrypoint-num-cpus 2 -- python x.py; do" in command


def test_service_moves_to_a_new_cluster_when_its_spec_changes() -> None:
    async def script(stage: Stage) -> None:
        body = {
            "metadata": {"name": "rs"},
            "spec": {"serveConfigV2": "applications: []", "rayClusterConfig": cluster_spec(1)},
        }
        await stage.create(RAY_SERVICES, body)
        first = (await stage.names(RAY_CLUSTERS))[0]
        await stage.run()
        ready = await stage.get(RAY_SERVICES, "rs")
        assert conditions.is_true(ready, "Ready")
        assert ready["status"]["activeServiceStatus"]["rayClusterName"] == first
        assert {"rs-head-svc", "rs-serve-svc"} <= set(await stage.names(SERVICES))
        await stage.patch(RAY_SERVICES, "rs", {"spec": {"rayClusterConfig": {"rayVersion": "2.50.0"}}})
        assert len(await stage.names(RAY_CLUSTERS)) == 2
        assert conditions.is_true(await stage.get(RAY_SERVICES, "rs"), "UpgradeInProgress")
        await stage.run()
        await stage.pass_time(60)
        moved = await stage.get(RAY_SERVICES, "rs")
        assert await stage.names(RAY_CLUSTERS) == [moved["status"]["activeServiceStatus"]["rayClusterName"]] != [first]
        assert conditions.is_false(moved, "UpgradeInProgress")

    play(controllers, script)
