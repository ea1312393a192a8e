"""RayClusters, RayJobs and RayServices, scenario by scenario."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance.jobs.operator_stage import Stage, play, template

from corral.core import conditions
from corral.core.errors import Invalid
from corral.core.meta import Obj, labels_of
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.batch_job.operator import JobController
from corral.jobs.ray.cluster_plan import RaySettings
from corral.jobs.ray.dashboard import DashboardError
from corral.jobs.ray.job_children import submit_command
from corral.jobs.ray.kind import RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES
from corral.jobs.ray.operator import chosen_settings, ray_controllers
from corral.kinds.kubernetes.core.kinds import PODS, SERVICES
from corral.kinds.kubernetes.pods.simulated import is_simulated

BOMB = "a0: &a0 {k: 1, l: 2}\n" + "".join(
    f"a{n}: &a{n}\n  <<: [{','.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 12)
)


def controllers(cluster: Any) -> list[Any]:
    return [JobController(cluster.manager), *ray_controllers(cluster.manager)]


def cluster_spec(workers: int = 2, **spec: Any) -> Obj:
    group = {"groupName": "small", "replicas": workers, "rayStartParams": {}, "template": template("ray-worker")}
    head = {"rayStartParams": {}, "template": template("ray-head")}
    return {"headGroupSpec": head, "workerGroupSpecs": [group], **spec}


def ray_cluster(**spec: Any) -> Obj:
    return {"metadata": {"name": "rc"}, "spec": cluster_spec(**spec)}


def ray_job(**spec: Any) -> Obj:
    base = {"entrypoint": "python train.py", "rayClusterSpec": cluster_spec(1), "shutdownAfterJobFinishes": True}
    return {"metadata": {"name": "rj"}, "spec": {**base, **spec}}


class FakeDashboard:
    """A dashboard that remembers what it was told and answers what the test wants."""

    def __init__(self) -> None:
        self.jobs: dict[str, Obj] = {}
        self.requests: list[Obj] = []
        self.stopped: list[str] = []
        self.configs: list[Obj] = []
        self.apps: dict[str, Obj] = {}
        self.silent = False

    def _speak(self, address: str) -> None:
        assert address == "10.0.0.1:8265"
        if self.silent:
            raise DashboardError("no answer")

    async def job(self, address: str, submission: str) -> Obj | None:
        self._speak(address)
        return self.jobs.get(submission)

    async def submit(self, address: str, request: Obj) -> None:
        self._speak(address)
        self.requests.append(request)
        self.jobs[request["submission_id"]] = {"status": "PENDING"}

    async def stop(self, address: str, submission: str) -> None:
        self._speak(address)
        self.stopped.append(submission)

    async def deploy(self, address: str, config: Obj) -> None:
        self._speak(address)
        self.configs.append(config)

    async def applications(self, address: str) -> dict[str, Obj]:
        self._speak(address)
        return self.apps

    def controllers(self, cluster: Any) -> list[Any]:
        real = ray_controllers(cluster.manager, RaySettings(real=True), self)
        return [JobController(cluster.manager), *real]


async def end_sidecar(stage: Stage, code: int) -> None:
    """The submitter beside the head ends; the head runs on."""
    (head,) = await stage.pods(**{"ray.io/node-type": "head"})
    ended = {"terminated": {"exitCode": code, "finishedAt": stage.now}}
    statuses = [
        {**entry, "ready": False, "state": ended} if entry["name"] == "ray-job-submitter" else entry
        for entry in head["status"]["containerStatuses"]
    ]
    patch = {"status": {"containerStatuses": statuses}}
    await stage.client.patch(PODS, head["metadata"]["name"], "default", patch, subresource="status")
    await stage.pass_time(4)


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
        (
            {"clusterSelector": {"a": "b"}, "rayClusterSpec": None},
            "cluster name in ClusterSelector should not be empty",
        ),
        (
            {"clusterSelector": {"ray.io/cluster": "b"}, "rayClusterSpec": None, "suspend": True},
            "the ClusterSelector mode doesn't support the suspend operation",
        ),
        (
            {"clusterSelector": {"ray.io/cluster": "b"}, "rayClusterSpec": None, "backoffLimit": 1},
            "BackoffLimit is incompatible with ClusterSelector mode",
        ),
        (
            {"submissionMode": "SidecarMode", "clusterSelector": {"ray.io/cluster": "b"}, "rayClusterSpec": None},
            "ClusterSelector is not supported in SidecarMode",
        ),
        ({"submissionMode": "InteractiveMode", "backoffLimit": 1}, "BackoffLimit is incompatible with InteractiveMode"),
        ({"submissionMode": "InteractiveMode"}, "Entrypoint must not be set in InteractiveMode"),
        (
            {"submissionMode": "SidecarMode", "submitterPodTemplate": template("s")},
            "Currently, SidecarMode doesn't support SubmitterPodTemplate",
        ),
        (
            {"submissionMode": "SidecarMode", "submitterConfig": {"backoffLimit": 1}},
            "Currently, SidecarMode doesn't support SubmitterConfig",
        ),
        ({"deletionStrategy": {}}, "DeletionStrategy requires either BOTH onSuccess and onFailure"),
        ({"deletionStrategy": {"onSuccess": {"policy": "DeleteSelf"}}}, "OnFailure must be set"),
        (
            {"deletionStrategy": {"deletionRules": [{"policy": "DeleteSelf", "condition": {"jobStatus": "FAILED"}}]}},
            "spec.shutdownAfterJobFinishes and spec.deletionStrategy.deletionRules are mutually exclusive",
        ),
        ({"submissionMode": "PigeonMode"}, "invalid submissionMode PigeonMode"),
        ({"runtimeEnvYAML": "{"}, "failed to unmarshal RuntimeEnvYAML"),
        ({"runtimeEnvYAML": "[" * 100_000}, "failed to unmarshal RuntimeEnvYAML"),
        ({"runtimeEnvYAML": BOMB}, "failed to unmarshal RuntimeEnvYAML"),
        ({"activeDeadlineSeconds": 0}, "activeDeadlineSeconds must be a positive integer"),
        ({"preRunningDeadlineSeconds": 0}, "preRunningDeadlineSeconds must be a positive integer"),
        ({"backoffLimit": -1}, "backoffLimit must be a positive integer"),
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


async def finish(stage: Stage, succeeds: bool = True) -> None:
    await stage.run()
    await (stage.succeed if succeeds else stage.fail)(*await submitters(stage))
    await stage.pass_time(3)


@pytest.mark.parametrize(
    ("policy", "clusters", "workers", "jobs"),
    [("DeleteCluster", 0, 0, 1), ("DeleteWorkers", 1, 0, 1), ("DeleteNone", 1, 1, 1), ("DeleteSelf", 0, 0, 0)],
)
def test_deletion_after_success(policy: str, clusters: int, workers: int, jobs: int) -> None:
    async def script(stage: Stage) -> None:
        strategy = {"onSuccess": {"policy": policy}, "onFailure": {"policy": "DeleteNone"}}
        await stage.create(RAY_JOBS, ray_job(shutdownAfterJobFinishes=False, deletionStrategy=strategy))
        await finish(stage)
        await stage.pass_time(60)
        assert len(await stage.names(RAY_CLUSTERS)) == clusters
        assert len(await stage.pods(**{"ray.io/node-type": "worker"})) == workers
        assert len(await stage.names(RAY_JOBS)) == jobs

    play(controllers, script)


def test_deletion_rules_one_after_the_other() -> None:
    async def script(stage: Stage) -> None:
        rules = [
            {"policy": "DeleteWorkers", "condition": {"jobStatus": "FAILED", "ttlSeconds": 60}},
            {"policy": "DeleteCluster", "condition": {"jobStatus": "FAILED", "ttlSeconds": 300}},
            {"policy": "DeleteSelf", "condition": {"jobStatus": "SUCCEEDED"}},
            {"policy": "DeleteSelf", "condition": {"jobDeploymentStatus": "Failed", "ttlSeconds": 900}},
        ]
        await stage.create(RAY_JOBS, ray_job(shutdownAfterJobFinishes=False, deletionStrategy={"deletionRules": rules}))
        await finish(stage, succeeds=False)
        assert len(await stage.pods(**{"ray.io/node-type": "worker"})) == 1
        await stage.pass_time(120)
        assert len(await stage.pods(**{"ray.io/node-type": "worker"})) == 0
        assert len(await stage.pods(**{"ray.io/node-type": "head"})) == 1
        await stage.pass_time(300)
        assert await stage.names(RAY_CLUSTERS) == []
        assert await stage.names(RAY_JOBS) == ["rj"]
        await stage.pass_time(600)
        assert await stage.names(RAY_JOBS) == []

    play(controllers, script)


def test_deadlines() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(RAY_JOBS, ray_job(activeDeadlineSeconds=30))
        await stage.run()
        await stage.pass_time(40)
        status = (await stage.get(RAY_JOBS, "rj"))["status"]
        assert (status["jobDeploymentStatus"], status["reason"]) == ("Failed", "DeadlineExceeded")

    play(controllers, script)


def test_interactive_job_waits_for_its_user() -> None:
    dashboard = FakeDashboard()

    async def script(stage: Stage) -> None:
        body = ray_job(submissionMode="InteractiveMode")
        del body["spec"]["entrypoint"]
        await stage.create(RAY_JOBS, body)
        await stage.run()
        assert await state(stage) == ("Waiting", "")
        assert "jobId" not in (await stage.get(RAY_JOBS, "rj"))["status"]
        dashboard.jobs["mine"] = {"status": "RUNNING"}
        await stage.patch(RAY_JOBS, "rj", {"spec": {"jobId": "mine"}})
        await stage.pass_time(4)
        assert await state(stage) == ("Running", "RUNNING")
        dashboard.jobs["mine"] = {"status": "STOPPED", "message": "enough"}
        await stage.pass_time(4)
        assert await state(stage) == ("Complete", "STOPPED")
        assert await stage.names(JOBS) == dashboard.requests == []

    play(dashboard.controllers, script)


def test_interactive_job_does_not_wait_for_ever() -> None:
    async def script(stage: Stage) -> None:
        body = ray_job(submissionMode="InteractiveMode", preRunningDeadlineSeconds=30)
        del body["spec"]["entrypoint"]
        await stage.create(RAY_JOBS, body)
        await stage.run()
        await stage.pass_time(40)
        status = (await stage.get(RAY_JOBS, "rj"))["status"]
        assert (status["jobDeploymentStatus"], status["reason"]) == ("Failed", "PreRunningDeadlineExceeded")

    play(controllers, script)


def test_http_mode_submits_by_itself() -> None:
    dashboard = FakeDashboard()

    async def script(stage: Stage) -> None:
        extra = {"entrypointNumCpus": 2, "runtimeEnvYAML": "env_vars: {A: b}", "metadata": {"team": "x"}}
        await stage.create(RAY_JOBS, ray_job(submissionMode="HTTPMode", entrypointResources='{"r": 1}', **extra))
        assert dashboard.requests == []
        await stage.run()
        await stage.pass_time(4)
        number = (await stage.get(RAY_JOBS, "rj"))["status"]["jobId"]
        assert dashboard.requests == [
            {
                "entrypoint": "python train.py",
                "submission_id": number,
                "runtime_env": {"env_vars": {"A": "b"}},
                "metadata": {"team": "x"},
                "entrypoint_num_cpus": 2,
                "entrypoint_resources": {"r": 1},
            }
        ]
        assert await stage.names(JOBS) == []
        assert await state(stage) == ("Running", "PENDING")
        dashboard.jobs[number] = {"status": "RUNNING", "start_time": 1000}
        await stage.pass_time(4)
        assert await state(stage) == ("Running", "RUNNING")
        dashboard.jobs[number] = {"status": "SUCCEEDED", "message": "done", "start_time": 1000, "end_time": 61000}
        await stage.pass_time(4)
        assert await state(stage) == ("Complete", "SUCCEEDED")
        status = (await stage.get(RAY_JOBS, "rj"))["status"]
        assert status["rayJobInfo"] == {"startTime": "1970-01-01T00:00:01Z", "endTime": "1970-01-01T00:01:01Z"}
        assert (status["succeeded"], status["message"], len(dashboard.requests)) == (1, "done", 1)

    play(dashboard.controllers, script)


def test_http_mode_fails_with_the_application_and_with_a_silent_dashboard() -> None:
    dashboard = FakeDashboard()

    async def failing(stage: Stage) -> None:
        await stage.create(RAY_JOBS, ray_job(submissionMode="HTTPMode"))
        await stage.run()
        await stage.pass_time(4)
        (number,) = dashboard.jobs
        dashboard.jobs[number] = {"status": "FAILED", "message": "exit 1"}
        await stage.pass_time(4)
        status = (await stage.get(RAY_JOBS, "rj"))["status"]
        assert (status["jobDeploymentStatus"], status["reason"], status["message"]) == ("Failed", "AppFailed", "exit 1")

    play(dashboard.controllers, failing)

    async def silent(stage: Stage) -> None:
        dashboard.silent = True
        await stage.create(RAY_JOBS, ray_job(submissionMode="HTTPMode"))
        await stage.run()
        await stage.pass_time(100)
        status = (await stage.get(RAY_JOBS, "rj"))["status"]
        assert status["jobDeploymentStatus"] == "Running"
        assert status["jobStatusCheckFailureStartTime"]
        await stage.pass_time(250)
        status = (await stage.get(RAY_JOBS, "rj"))["status"]
        assert (status["jobDeploymentStatus"], status["reason"]) == ("Failed", "JobStatusCheckTimeoutExceeded")

    play(dashboard.controllers, silent)


@pytest.mark.parametrize("mode", ["SidecarMode", "HTTPMode"])
def test_without_ray_a_container_beside_the_head_runs_the_entry_point(mode: str) -> None:
    async def script(stage: Stage) -> None:
        await stage.create(RAY_JOBS, ray_job(submissionMode=mode))
        (head,) = await stage.pods(**{"ray.io/node-type": "head"})
        sidecar = head["spec"]["containers"][1]
        assert (sidecar["name"], sidecar["args"]) == ("ray-job-submitter", ["python train.py"])
        assert sidecar["resources"]["requests"] == {"cpu": "500m", "memory": "200Mi"}
        assert head["spec"]["restartPolicy"] == "Never"
        await stage.run()
        assert await state(stage) == ("Running", "RUNNING")
        assert await stage.names(JOBS) == []
        await end_sidecar(stage, 0)
        assert await state(stage) == ("Complete", "SUCCEEDED")

    play(controllers, script)


def test_failed_sidecar_fails_the_job_and_a_lost_head_too() -> None:
    async def failing(stage: Stage) -> None:
        await stage.create(RAY_JOBS, ray_job(submissionMode="SidecarMode"))
        await stage.run()
        await end_sidecar(stage, 3)
        status = (await stage.get(RAY_JOBS, "rj"))["status"]
        assert (status["jobDeploymentStatus"], status["reason"]) == ("Failed", "AppFailed")

    play(controllers, failing)

    async def lost(stage: Stage) -> None:
        await stage.create(RAY_JOBS, ray_job(submissionMode="SidecarMode", shutdownAfterJobFinishes=False))
        await stage.run()
        (head,) = await stage.pods(**{"ray.io/node-type": "head"})
        await stage.fail(head["metadata"]["name"])
        await stage.pass_time(4)
        # The head is not made again: the job would run twice.
        assert [pod["metadata"]["uid"] for pod in await stage.pods(**{"ray.io/node-type": "head"})] == [
            head["metadata"]["uid"]
        ]
        assert (await stage.get(RAY_JOBS, "rj"))["status"]["jobDeploymentStatus"] == "Failed"

    play(controllers, lost)


def test_sidecar_with_ray_follows_the_dashboard() -> None:
    dashboard = FakeDashboard()

    async def script(stage: Stage) -> None:
        await stage.create(RAY_JOBS, ray_job(submissionMode="SidecarMode"))
        number = (await stage.get(RAY_JOBS, "rj"))["status"]["jobId"]
        await stage.run()
        dashboard.jobs[number] = {"status": "RUNNING"}
        await stage.pass_time(4)
        assert await state(stage) == ("Running", "RUNNING")
        dashboard.jobs[number] = {"status": "SUCCEEDED"}
        await stage.pass_time(4)
        assert await state(stage) == ("Running", "SUCCEEDED")  # its submitter still follows the log
        await end_sidecar(stage, 0)
        assert await state(stage) == ("Complete", "SUCCEEDED")

    play(dashboard.controllers, script)


@pytest.mark.parametrize(
    ("known", "fails", "want"),
    [
        ({"status": "FAILED", "message": "boom"}, True, ("Failed", "AppFailed", "boom")),
        (None, True, ("Failed", "SubmissionFailed", "Job has reached the specified backoff limit")),
        (None, False, ("Failed", "AppFailed", "Submitter completed but Ray job not found in RayCluster.")),
    ],
    ids=["application", "submission", "not found"],
)
def test_submitter_job_with_ray(known: Obj | None, fails: bool, want: tuple[str, str, str]) -> None:
    dashboard = FakeDashboard()

    async def script(stage: Stage) -> None:
        await stage.create(RAY_JOBS, ray_job(submitterConfig={"backoffLimit": 0}))
        await stage.run()
        if known is not None:
            dashboard.jobs[(await stage.get(RAY_JOBS, "rj"))["status"]["jobId"]] = known
        await (stage.fail if fails else stage.succeed)(*await submitters(stage))
        await stage.pass_time(8)
        status = (await stage.get(RAY_JOBS, "rj"))["status"]
        assert (status["jobDeploymentStatus"], status["reason"], status["message"]) == want

    play(dashboard.controllers, script)


def test_submitter_job_that_ends_before_the_job_has_a_grace_period() -> None:
    dashboard = FakeDashboard()

    async def script(stage: Stage) -> None:
        await stage.create(RAY_JOBS, ray_job())
        await stage.run()
        dashboard.jobs[(await stage.get(RAY_JOBS, "rj"))["status"]["jobId"]] = {"status": "RUNNING"}
        await stage.succeed(*await submitters(stage))
        await stage.pass_time(10)
        assert await state(stage) == ("Running", "RUNNING")
        await stage.pass_time(40)
        status = (await stage.get(RAY_JOBS, "rj"))["status"]
        assert status["reason"] == "JobDeploymentStatusTransitionGracePeriodExceeded"

    play(dashboard.controllers, script)


def test_deleted_job_is_stopped() -> None:
    dashboard = FakeDashboard()

    async def script(stage: Stage) -> None:
        await stage.create(RAY_JOBS, ray_job(submissionMode="HTTPMode"))
        await stage.run()
        await stage.pass_time(4)
        job = await stage.get(RAY_JOBS, "rj")
        assert job["metadata"]["finalizers"] == ["ray.io/rayjob-finalizer"]
        await stage.client.delete(RAY_JOBS, "rj", "default")
        await stage.pass_time(2)
        assert dashboard.stopped == [job["status"]["jobId"]]
        assert await stage.names(RAY_JOBS) == []

    play(dashboard.controllers, script)


def test_submission_uses_ray_where_it_is_installed() -> None:
    job = {"metadata": {"name": "rj"}, "spec": {"entrypoint": "python x.py", "entrypointNumCpus": 2}}
    assert submit_command(job, RaySettings(real=False)) == "python x.py"
    command = submit_command(job, RaySettings(real=True))
    assert 'ray job submit --address "http://$RAY_DASHBOARD_ADDRESS" --no-wait' in command
    assert "--entrypoint-num-cpus 2 -- python x.py; do" in command


def test_service_has_its_applications_deployed() -> None:
    dashboard = FakeDashboard()

    async def script(stage: Stage) -> None:
        config = "applications:\n- name: hello\n  import_path: hello:app\n"
        body = {
            "metadata": {"name": "rs"},
            "spec": {"serveConfigV2": config, "rayClusterConfig": cluster_spec(1), "excludeHeadPodFromServeSvc": True},
        }
        await stage.create(RAY_SERVICES, body)
        assert dashboard.configs == []
        deployments = {"App": {"status": "UPDATING", "message": ""}}
        dashboard.apps = {"hello": {"status": "DEPLOYING", "message": "", "deployments": deployments}}
        await stage.run()
        await stage.pass_time(3)
        assert dashboard.configs == [{"applications": [{"name": "hello", "import_path": "hello:app"}]}]
        starting = await stage.get(RAY_SERVICES, "rs")
        pending = starting["status"]["pendingServiceStatus"]
        assert pending["applicationStatuses"]["hello"]["deployments"]["App"]["status"] == "UPDATING"
        assert (conditions.find(starting, "Ready") or {})["reason"] == "Initializing"
        assert "activeServiceStatus" not in starting["status"]
        dashboard.apps = {"hello": {"status": "RUNNING", "message": "", "deployments": {"App": {"status": "HEALTHY"}}}}
        await stage.pass_time(3)
        serving = await stage.get(RAY_SERVICES, "rs")
        assert conditions.is_true(serving, "Ready")
        assert serving["status"]["serviceStatus"] == "Running"
        assert serving["status"]["numServeEndpoints"] == 1  # the head takes no requests
        assert serving["status"]["activeServiceStatus"]["applicationStatuses"]["hello"]["status"] == "RUNNING"
        assert len(dashboard.configs) == 1
        changed = config.replace("hello:app", "hello:other")
        await stage.patch(RAY_SERVICES, "rs", {"spec": {"serveConfigV2": changed}})
        await stage.pass_time(3)
        assert dashboard.configs[-1]["applications"][0]["import_path"] == "hello:other"
        assert len(await stage.names(RAY_CLUSTERS)) == 1  # in place
        (worker,) = await stage.pods(**{"ray.io/node-type": "worker"})
        await stage.client.patch(
            PODS,
            worker["metadata"]["name"],
            "default",
            {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
            subresource="status",
        )
        await stage.pass_time(3)
        assert (conditions.find(await stage.get(RAY_SERVICES, "rs"), "Ready") or {})["reason"] == "ZeroServeEndpoints"

    play(dashboard.controllers, script)


def test_service_keeps_the_old_cluster_until_the_new_one_serves() -> None:
    dashboard = FakeDashboard()

    async def script(stage: Stage) -> None:
        dashboard.apps = {"": {"status": "RUNNING"}}
        body = {"metadata": {"name": "rs"}, "spec": {"serveConfigV2": "{}", "rayClusterConfig": cluster_spec(1)}}
        await stage.create(RAY_SERVICES, body)
        await stage.run()
        await stage.pass_time(3)
        first = (await stage.get(RAY_SERVICES, "rs"))["status"]["activeServiceStatus"]
        assert first["applicationStatuses"] == {"default": {"status": "RUNNING", "message": ""}}
        dashboard.apps = {"": {"status": "DEPLOY_FAILED", "message": "no module"}}
        await stage.patch(RAY_SERVICES, "rs", {"spec": {"rayClusterConfig": {"rayVersion": "2.50.0"}}})
        await stage.run()
        await stage.pass_time(5)
        upgrading = (await stage.get(RAY_SERVICES, "rs"))["status"]
        assert upgrading["activeServiceStatus"]["rayClusterName"] == first["rayClusterName"]
        assert upgrading["pendingServiceStatus"]["applicationStatuses"]["default"]["status"] == "DEPLOY_FAILED"
        assert len(await stage.names(RAY_CLUSTERS)) == 2
        dashboard.apps = {"": {"status": "RUNNING"}}
        await stage.pass_time(40)
        assert await stage.names(RAY_CLUSTERS) == [upgrading["pendingServiceStatus"]["rayClusterName"]]

    play(dashboard.controllers, script)


def test_service_changes_its_cluster_in_place_where_it_can() -> None:
    async def script(stage: Stage) -> None:
        body = {"metadata": {"name": "rs"}, "spec": {"serveConfigV2": "{}", "rayClusterConfig": cluster_spec(1)}}
        await stage.create(RAY_SERVICES, body)
        first = await stage.names(RAY_CLUSTERS)
        config = cluster_spec(3)
        config["headGroupSpec"]["template"] = template("ray-head", tolerations=[{"key": "t", "operator": "Exists"}])
        await stage.patch(RAY_SERVICES, "rs", {"spec": {"rayClusterConfig": config}})
        await stage.pass_time(2)
        assert await stage.names(RAY_CLUSTERS) == first
        assert len(await stage.pods(**{"ray.io/node-type": "worker"})) == 3

    play(controllers, script)


@pytest.mark.parametrize("inside", [False, True], ids=["service", "cluster inside"])
def test_suspended_service_has_nothing(inside: bool) -> None:
    async def script(stage: Stage) -> None:
        body = {"metadata": {"name": "rs"}, "spec": {"serveConfigV2": "{}", "rayClusterConfig": cluster_spec(1)}}
        await stage.create(RAY_SERVICES, body)
        await stage.run()
        change: Obj = {"rayClusterConfig": {"suspend": True}} if inside else {"suspend": True}
        await stage.patch(RAY_SERVICES, "rs", {"spec": change})
        await stage.pass_time(60)
        assert await stage.names(PODS) == await stage.names(RAY_CLUSTERS) == []
        held = await stage.get(RAY_SERVICES, "rs")
        assert conditions.is_true(held, "Suspended")
        assert "activeServiceStatus" not in held["status"]
        again: Obj = {"rayClusterConfig": {"suspend": False}} if inside else {"suspend": False}
        await stage.patch(RAY_SERVICES, "rs", {"spec": again})
        await stage.run()
        assert conditions.is_true(await stage.get(RAY_SERVICES, "rs"), "Ready")

    play(controllers, script)


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


def test_a_cluster_that_is_larger_than_it_can_start_at_once_grows_in_steps() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(RAY_CLUSTERS, ray_cluster(workers=1200))
        assert len(await stage.pods()) == 1201

    play(controllers, script)


def without_ray(cluster: Any) -> list[Any]:
    settings = chosen_settings(None, installed=False, real_pods=True)
    return [JobController(cluster.manager), *ray_controllers(cluster.manager, settings)]


def test_a_job_whose_pods_would_need_ray_fails_where_it_is_not_installed() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(RAY_JOBS, ray_job())
        await stage.run()
        status = (await stage.get(RAY_JOBS, "rj"))["status"]
        assert (status["jobDeploymentStatus"], status["jobStatus"]) == ("Failed", "FAILED")
        assert status["reason"] == "RayNotInstalled"
        assert "pip install ray" in status["message"]
        assert "ray: false" in status["message"]
        assert await stage.names(PODS) == []

    play(without_ray, script)


def test_a_cluster_whose_pods_would_need_ray_is_failed_and_says_why() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(RAY_CLUSTERS, ray_cluster())
        await stage.run()
        status = (await stage.get(RAY_CLUSTERS, "rc"))["status"]
        assert (status["state"], "Ray is not installed" in status["reason"]) == ("failed", True)
        assert await stage.names(PODS) == []

    play(without_ray, script)


@pytest.mark.parametrize(
    ("wanted", "installed", "real_pods", "outcome"),
    [
        (None, True, True, "real"),
        (None, False, True, "missing"),
        (None, False, False, "stands in"),
        (False, True, True, "stands in"),
        (False, False, True, "stands in"),
        (True, False, True, "real"),
    ],
)
def test_stand_ins_for_ray_are_a_choice(wanted: bool | None, installed: bool, real_pods: bool, outcome: str) -> None:
    chosen = chosen_settings(wanted, installed, real_pods=real_pods)
    assert ("missing" if chosen.missing else "real" if chosen.real else "stands in") == outcome


def test_pods_that_stand_in_for_ray_say_so() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(RAY_CLUSTERS, ray_cluster())
        await stage.run()
        pods = (await stage.client.list(PODS, "default")).items
        assert pods
        assert all(is_simulated(pod) for pod in pods)

    play(controllers, script)
