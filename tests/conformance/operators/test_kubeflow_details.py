"""Training jobs in detail: environments, conditions, counts, cleaning up; what test_kubeflow.py leaves out."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.conformance.operators.operator_stage import Controllers, Stage, play, summary, template
from tests.conformance.operators.test_kubeflow import controllers, env_of, job, resource

from corral.core.meta import Obj
from corral.jobs.kubeflow.kind import JAX, PADDLE, PYTORCH, TENSORFLOW, XGBOOST, Framework
from corral.jobs.kubeflow.operator import training_controllers
from corral.jobs.kubeflow.view import Settings
from corral.kinds.kubernetes.autoscaling import HORIZONTAL_POD_AUTOSCALERS
from corral.kinds.kubernetes.core.kinds import PODS, SERVICES


def with_settings(**settings: Any) -> Controllers:
    return lambda cluster: training_controllers(cluster.manager, Settings(**settings))


# 43: TF_CONFIG


def test_tensorflow_config_with_chief_evaluator_domain_and_port() -> None:
    async def script(stage: Stage) -> None:
        own = template("tensorflow")
        own["spec"]["containers"][0]["ports"] = [{"name": "tfjob-port", "containerPort": 5555}]
        await stage.create(
            resource(TENSORFLOW), job(TENSORFLOW, Chief=1, Evaluator=1, Worker={"replicas": 1, "template": own})
        )
        config = json.loads(env_of(await stage.get(PODS, "job-evaluator-0"))["TF_CONFIG"])
        assert config["cluster"] == {
            "chief": ["job-chief-0.default.svc.example.com:2222"],
            "evaluator": ["job-evaluator-0.default.svc.example.com:2222"],
            "worker": ["job-worker-0.default.svc.example.com:5555"],
        }
        assert config["task"] == {"type": "evaluator", "index": 0}

    play(with_settings(domain="example.com"), script)


# 44: torch's variables


@pytest.mark.parametrize(
    ("extra", "replicas", "want"),
    [
        ({}, {"Master": 1, "Worker": 2}, {"WORLD_SIZE": "3", "PET_NPROC_PER_NODE": "auto", "PET_NNODES": "3"}),
        ({"nprocPerNode": "gpu"}, {"Master": 1, "Worker": 2}, {"WORLD_SIZE": "3", "PET_NPROC_PER_NODE": "gpu"}),
        ({"nprocPerNode": "4"}, {"Master": 1, "Worker": 2}, {"WORLD_SIZE": "12", "PET_NPROC_PER_NODE": "4"}),
        ({}, {"Worker": 2}, {"WORLD_SIZE": None, "RANK": None, "MASTER_ADDR": None, "PET_NNODES": "2"}),
        (
            {"elasticPolicy": {"rdzvBackend": "etcd", "rdzvHost": "etcd.example", "rdzvPort": 2379, "rdzvId": "7"}},
            {"Worker": 2},
            {
                "PET_RDZV_ENDPOINT": "etcd.example:2379",
                "PET_RDZV_BACKEND": "etcd",
                "PET_RDZV_ID": "7",
                "PET_NNODES": "2:2",
            },
        ),
        (
            {"elasticPolicy": {"standalone": True, "minReplicas": 1}},
            {"Worker": 2},
            {"PET_STANDALONE": "", "PET_NNODES": "1:1"},
        ),
    ],
    ids=["auto", "gpu", "number", "workers only", "etcd", "standalone"],
)
def test_torch_environment(extra: Obj, replicas: dict[str, int], want: dict[str, str | None]) -> None:
    async def script(stage: Stage) -> None:
        await stage.create(resource(PYTORCH), job(PYTORCH, extra=extra, **replicas))
        env = {
            name: "" if value == "null" else value
            for name, value in env_of(await stage.get(PODS, "job-worker-0")).items()
        }
        assert {name: env.get(name) for name in want} == want

    play(controllers, script)


# 45: Paddle without a master


def test_paddle_workers_by_themselves() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(resource(PADDLE), job(PADDLE, Worker=2))
        first, second = [env_of(await stage.get(PODS, f"job-worker-{index}")) for index in (0, 1)]
        assert (first["PADDLE_MASTER"], second["PADDLE_MASTER"]) == ("$(POD_IP_DUMMY):36543", "job-worker-0:36543")
        assert first["PADDLE_NNODES"] == "2"
        assert "PADDLE_TRAINER_NUM" not in first
        assert not await stage.pods(**{"training.kubeflow.org/job-role": "master"})

    play(controllers, script)


# 46: the replica that speaks for the job


@pytest.mark.parametrize(
    ("framework", "replicas", "speaker"),
    [
        (PYTORCH, {"Master": 1, "Worker": 2}, "job-master-0"),
        (PYTORCH, {"Worker": 2}, "job-worker-0"),
        (TENSORFLOW, {"Chief": 1, "Worker": 2}, "job-chief-0"),
        (TENSORFLOW, {"Master": 1, "Worker": 2}, "job-master-0"),
        (TENSORFLOW, {"PS": 1, "Worker": 2}, "job-worker-0"),
        (XGBOOST, {"Master": 1, "Worker": 2}, "job-master-0"),
        (PADDLE, {"Master": 1, "Worker": 2}, "job-master-0"),
        (JAX, {"Worker": 2}, "job-worker-0"),
    ],
    ids=lambda value: value.kind if isinstance(value, Framework) else "",
)
def test_one_replica_has_the_role(framework: Framework, replicas: dict[str, int], speaker: str) -> None:
    async def script(stage: Stage) -> None:
        marked = {kind: {"replicas": count} for kind, count in replicas.items()}
        for replica in marked.values():
            body = template(framework.container)
            body["metadata"] = {"labels": {"team": "a"}, "annotations": {"note": "b"}}
            replica["template"] = body  # type: ignore[assignment]
        await stage.create(resource(framework), job(framework, **marked))  # type: ignore[arg-type]
        found = await stage.pods(**{"training.kubeflow.org/job-role": "master"})
        assert [pod["metadata"]["name"] for pod in found] == [speaker]
        assert found[0]["metadata"]["labels"]["team"] == "a"
        assert found[0]["metadata"]["annotations"]["note"] == "b"

    play(controllers, script)


# 47: the waiting init container


def test_init_container_only_for_workers_of_a_master() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(resource(PYTORCH), job(PYTORCH, Master=1, Worker=1))
        worker, master = await stage.get(PODS, "job-worker-0"), await stage.get(PODS, "job-master-0")
        (waiting,) = worker["spec"]["initContainers"]
        assert (waiting["name"], waiting["image"]) == ("init-pytorch", "mirror/alpine:3")
        assert "nslookup job-master-0" in waiting["command"][-1]
        assert waiting["resources"]["limits"] == {"cpu": "100m", "memory": "20Mi"}
        assert "initContainers" not in master["spec"]

    play(with_settings(init_container=True, init_image="mirror/alpine:3"), script)

    async def alone(stage: Stage) -> None:
        await stage.create(resource(PYTORCH), job(PYTORCH, Worker=2))
        assert all("initContainers" not in pod["spec"] for pod in await stage.pods())

    play(with_settings(init_container=True), alone)


# 51, 53: what is left after a failure


@pytest.mark.parametrize(
    ("policy", "left"),
    [("None", ["job-master-0", "job-worker-0"]), ("Running", ["job-worker-0"]), ("All", [])],
)
def test_clean_pod_policy_after_failure(policy: str, left: list[str]) -> None:
    async def script(stage: Stage) -> None:
        never = {"replicas": 1, "restartPolicy": "Never"}
        await stage.create(resource(PYTORCH), job(PYTORCH, {"cleanPodPolicy": policy}, Master=never, Worker=never))
        await stage.run()
        await stage.fail("job-worker-0")
        await stage.pass_time(40)
        assert summary(await stage.get(resource(PYTORCH), "job"))[-1] == ("Failed", "True")
        assert await stage.names(PODS) == await stage.names(SERVICES) == left

    play(controllers, script)


def test_clean_pod_policy_holds_at_the_backoff_limit() -> None:
    async def script(stage: Stage) -> None:
        run = {"cleanPodPolicy": "All", "backoffLimit": 1}
        await stage.create(resource(PYTORCH), job(PYTORCH, run, Master=1, Worker=1))
        await stage.run()
        await stage.fail("job-worker-0")
        await stage.pass_time(60)
        done = await stage.get(resource(PYTORCH), "job")
        assert done["status"]["conditions"][-1]["message"] == (
            "Job job has failed because it has reached the specified backoff limit"
        )
        assert await stage.names(PODS) == await stage.names(SERVICES) == []

    play(controllers, script)


# 54: time to live


@pytest.mark.parametrize(
    ("ttl", "after", "gone"), [(0, 2, True), (180, 150, False), (180, 200, True), (None, 9999, False)]
)
def test_time_to_live(ttl: int | None, after: float, gone: bool) -> None:
    async def script(stage: Stage) -> None:
        run = {} if ttl is None else {"ttlSecondsAfterFinished": ttl}
        await stage.create(resource(XGBOOST), job(XGBOOST, run, Master=1))
        await stage.run()
        await stage.succeed("job-master-0")
        await stage.pass_time(after)
        assert await stage.is_gone(resource(XGBOOST), "job") is gone

    play(controllers, script)


# 55: TensorFlow


def test_failed_evaluator_fails_the_job() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(resource(TENSORFLOW), job(TENSORFLOW, Chief=1, Evaluator=1, Worker=1))
        await stage.run()
        await stage.fail("job-evaluator-0")
        failed = (await stage.get(resource(TENSORFLOW), "job"))["status"]["conditions"][-1]
        assert failed["message"] == "TFJob default/job has failed because 1 Evaluator replica(s) failed."

    play(controllers, script)


def test_dynamic_workers_may_fail() -> None:
    async def script(stage: Stage) -> None:
        extra = {"enableDynamicWorker": True}
        await stage.create(resource(TENSORFLOW), job(TENSORFLOW, extra=extra, PS=1, Worker=2))
        await stage.run()
        await stage.fail("job-worker-1")
        assert summary(await stage.get(resource(TENSORFLOW), "job"))[-1] == ("Running", "True")

    play(controllers, script)


# 56: PyTorch


def test_any_worker_of_an_elastic_job_may_end_it() -> None:
    async def script(stage: Stage) -> None:
        elastic = {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 3}}
        await stage.create(resource(PYTORCH), job(PYTORCH, extra=elastic, Worker=3))
        await stage.run()
        await stage.succeed("job-worker-2")
        assert summary(await stage.get(resource(PYTORCH), "job"))[-1] == ("Succeeded", "True")

    play(controllers, script)


# 57: conditions


def test_running_and_restarting_exclude_each_other_and_failed_is_final() -> None:
    async def script(stage: Stage) -> None:
        where = resource(PYTORCH)
        await stage.create(where, job(PYTORCH, Master={"replicas": 1, "restartPolicy": "ExitCode"}, Worker=1))
        await stage.run()
        await stage.fail("job-master-0", code=137)
        assert summary(await stage.get(where, "job")) == [("Created", "True"), ("Restarting", "True")]
        await stage.pass_time(40)
        await stage.run()
        assert summary(await stage.get(where, "job")) == [("Created", "True"), ("Running", "True")]
        await stage.fail("job-master-0", code=2)
        ended = summary(await stage.get(where, "job"))
        assert ended == [("Created", "True"), ("Running", "False"), ("Failed", "True")]
        await stage.succeed("job-worker-0")
        await stage.pass_time(5)
        assert summary(await stage.get(where, "job")) == ended

    play(controllers, script)


# 58: counts


def test_replicas_are_counted_and_a_running_one_that_is_deleted_counts_as_failed() -> None:
    async def script(stage: Stage) -> None:
        where = resource(PYTORCH)
        await stage.create(where, job(PYTORCH, {"cleanPodPolicy": "All"}, Master=1, Worker=3))
        counts = (await stage.get(where, "job"))["status"]["replicaStatuses"]
        selector = (
            "training.kubeflow.org/job-name=job,training.kubeflow.org/operator-name=pytorchjob-controller,"
            "training.kubeflow.org/replica-type=worker"
        )
        assert counts["Worker"] == {"selector": selector}  # pending counts nowhere
        await stage.run("job-master-0", "job-worker-0", "job-worker-1")
        await stage.succeed("job-worker-2")
        counts = (await stage.get(where, "job"))["status"]["replicaStatuses"]["Worker"]
        assert (counts["active"], counts["succeeded"]) == (2, 1)
        held = {"metadata": {"finalizers": ["example.com/hold"]}}
        await stage.client.patch(PODS, "job-worker-1", "default", held)
        await stage.client.delete(PODS, "job-worker-1", "default", grace=30)
        await stage.cluster.settle()
        counts = (await stage.get(where, "job"))["status"]["replicaStatuses"]["Worker"]
        assert (counts["active"], counts["failed"], counts["succeeded"]) == (1, 1, 1)

    play(controllers, script)


def test_what_still_ran_at_the_end_counts_as_succeeded() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(resource(PYTORCH), job(PYTORCH, {"cleanPodPolicy": "All"}, Master=1, Worker=2))
        await stage.run()
        await stage.succeed("job-master-0")
        await stage.pass_time(5)
        counts = (await stage.get(resource(PYTORCH), "job"))["status"]["replicaStatuses"]
        assert (counts["Worker"].get("active"), counts["Worker"]["succeeded"]) == (None, 2)

    play(controllers, script)


# 49, 59: scaling


def test_autoscaler_goes_with_suspension_and_scale_shows_the_workers() -> None:
    async def script(stage: Stage) -> None:
        metrics = [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
            }
        ]
        elastic = {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 4, "metrics": metrics}}
        where = resource(PYTORCH)
        await stage.create(where, job(PYTORCH, {}, extra=elastic, Worker=2))
        assert await stage.names(HORIZONTAL_POD_AUTOSCALERS) == ["job"]
        await stage.run()
        scale = await stage.client.get_subresource(where, "job", "default", "scale")
        assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (2, 2)
        assert "training.kubeflow.org/replica-type=worker" in scale["status"]["selector"]
        await stage.client.patch(where, "job", "default", {"spec": {"replicas": 3}}, subresource="scale")
        await stage.cluster.settle()
        assert len(await stage.names(PODS)) == 3
        await stage.patch(where, "job", {"spec": {"runPolicy": {"suspend": True}}})
        await stage.pass_time(2)
        assert await stage.names(HORIZONTAL_POD_AUTOSCALERS) == []

    play(controllers, script)
