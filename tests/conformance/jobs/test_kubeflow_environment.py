"""Training jobs: environments, roles and init containers of their pods."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.conformance.jobs.operator_stage import Controllers, Stage, play, template
from tests.conformance.jobs.test_kubeflow import controllers, env_of, job, resource

from corral.core.meta import Obj
from corral.jobs.kubeflow.kind import JAX, PADDLE, PYTORCH, TENSORFLOW, XGBOOST, Framework
from corral.jobs.kubeflow.operator import training_controllers
from corral.jobs.kubeflow.view import Settings
from corral.kinds.kubernetes.core.kinds import PODS


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
