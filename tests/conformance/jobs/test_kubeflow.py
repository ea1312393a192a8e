"""Training jobs of kubeflow.org/v1, scenario by scenario."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.conformance.jobs.operator_stage import Stage, play, summary, template

from corral.core.errors import NotFound
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.jobs.kubeflow.kind import FRAMEWORKS, GROUP, JAX, PADDLE, PYTORCH, TENSORFLOW, XGBOOST, Framework
from corral.jobs.kubeflow.operator import training_controllers
from corral.kinds.kubernetes.autoscaling import HORIZONTAL_POD_AUTOSCALERS
from corral.kinds.kubernetes.core.kinds import PODS, SERVICES


def resource(framework: Framework) -> Resource:
    return Resource(GROUP, "v1", framework.plural, framework.kind)


def job(framework: Framework, run: Obj | None = None, *, extra: Obj | None = None, **replicas: int | Obj) -> Obj:
    specs = {}
    for kind, value in replicas.items():
        base = {"replicas": value} if isinstance(value, int) else dict(value)
        specs[kind] = {"template": template(framework.container), **base}
    spec = {framework.field: specs, **(extra or {})}
    if run is not None:
        spec["runPolicy"] = run
    return {"metadata": {"name": "job"}, "spec": spec}


def controllers(cluster: Any) -> list[Any]:
    return training_controllers(cluster.manager)


USUAL = {
    "TFJob": {"Chief": 1, "Worker": 2},
    "PyTorchJob": {"Master": 1, "Worker": 2},
    "XGBoostJob": {"Master": 1, "Worker": 2},
    "PaddleJob": {"Master": 1, "Worker": 2},
    "JAXJob": {"Worker": 3},
}
each_framework = pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda entry: entry.kind)


@each_framework
def test_job_created_suspended_has_no_children(framework: Framework) -> None:
    async def script(stage: Stage) -> None:
        await stage.create(resource(framework), job(framework, {"suspend": True}, **USUAL[framework.kind]))
        made = await stage.get(resource(framework), "job")
        assert summary(made) == [("Created", "True"), ("Suspended", "True")]
        assert "startTime" not in made["status"]
        assert await stage.names(PODS) == await stage.names(SERVICES) == []

    play(controllers, script)


@each_framework
def test_job_is_suspended_and_resumed_while_running(framework: Framework) -> None:
    async def script(stage: Stage) -> None:
        where = resource(framework)
        await stage.create(where, job(framework, {"suspend": False}, **USUAL[framework.kind]))
        assert len(await stage.names(PODS)) == len(await stage.names(SERVICES)) == 3
        await stage.run()
        running = await stage.get(where, "job")
        assert summary(running) == [("Created", "True"), ("Running", "True")]
        started = running["status"]["startTime"]
        await stage.patch(where, "job", {"spec": {"runPolicy": {"suspend": True}}})
        await stage.pass_time(40)
        halted = await stage.get(where, "job")
        assert await stage.names(PODS) == await stage.names(SERVICES) == []
        assert summary(halted) == [("Created", "True"), ("Running", "False"), ("Suspended", "True")]
        assert halted["status"]["conditions"][-1]["reason"] == f"{framework.kind}Suspended"
        assert not any(counts.get("active") for counts in halted["status"]["replicaStatuses"].values())
        await stage.patch(where, "job", {"spec": {"runPolicy": {"suspend": False}}})
        resumed = await stage.get(where, "job")
        assert len(await stage.names(PODS)) == len(await stage.names(SERVICES)) == 3
        assert resumed["status"]["startTime"] > started
        assert resumed["status"]["conditions"][-1]["reason"] == f"{framework.kind}Resumed"
        reasons = await stage.reasons()
        assert {f"{framework.kind}Suspended", f"{framework.kind}Resumed"} <= set(reasons)

    play(controllers, script)


@each_framework
def test_job_of_another_manager_is_left_alone(framework: Framework) -> None:
    async def script(stage: Stage) -> None:
        where = resource(framework)
        run = {"managedBy": "kueue.x-k8s.io/multikueue", "suspend": False}
        await stage.create(where, job(framework, run, **USUAL[framework.kind]))
        await stage.patch(where, "job", {"spec": {"runPolicy": {"suspend": True}}})
        await stage.patch(where, "job", {"spec": {"runPolicy": {"suspend": False}}})
        await stage.pass_time(10)
        assert "status" not in await stage.get(where, "job")
        assert await stage.names(PODS) == await stage.names(SERVICES) == await stage.reasons() == []

    play(controllers, script)


@each_framework
def test_own_manager_behaves_as_none(framework: Framework) -> None:
    async def script(stage: Stage) -> None:
        run = {"managedBy": "kubeflow.org/training-operator"}
        await stage.create(resource(framework), job(framework, run, **USUAL[framework.kind]))
        assert len(await stage.names(PODS)) == 3

    play(controllers, script)


def env_of(pod: Obj, container: int = 0) -> dict[str, str]:
    entries = pod["spec"]["containers"][container].get("env") or []
    return {entry["name"]: entry.get("value", json.dumps(entry.get("valueFrom"))) for entry in entries}


def test_names_labels_and_ports_of_replicas() -> None:
    async def script(stage: Stage) -> None:
        labelled = {
            "replicas": 1,
            "template": {**template("pytorch"), "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}},
        }
        await stage.create(resource(PYTORCH), job(PYTORCH, Master=1, worker=labelled))
        assert await stage.names(PODS) == await stage.names(SERVICES) == ["job-master-0", "job-worker-0"]
        worker = await stage.get(PODS, "job-worker-0")
        prefix = "training.kubeflow.org"
        assert worker["metadata"]["labels"] == {
            "a": "b",
            f"{prefix}/operator-name": "pytorchjob-controller",
            f"{prefix}/job-name": "job",
            f"{prefix}/replica-type": "worker",
            f"{prefix}/replica-index": "0",
        }
        assert worker["metadata"]["annotations"]["c"] == "d"
        assert worker["spec"]["restartPolicy"] == "OnFailure"
        master = await stage.get(PODS, "job-master-0")
        assert master["metadata"]["labels"][f"{prefix}/job-role"] == "master"
        service = await stage.get(SERVICES, "job-master-0")
        assert service["spec"]["clusterIP"] == "None"
        assert [port["port"] for port in service["spec"]["ports"]] == [23456]
        assert service["spec"]["selector"][f"{prefix}/replica-type"] == "master"

    play(controllers, script)


def test_tensorflow_config_names_every_replica() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(resource(TENSORFLOW), job(TENSORFLOW, PS=1, Worker=2))
        pod = await stage.get(PODS, "job-worker-1")
        assert env_of(pod)["TF_CONFIG"] == (
            '{"cluster":{"ps":["job-ps-0.default.svc:2222"],'
            '"worker":["job-worker-0.default.svc:2222","job-worker-1.default.svc:2222"]},'
            '"task":{"type":"worker","index":1},"environment":"cloud"}'
        )

    play(controllers, script)


def test_tensorflow_config_is_absent_for_one_replica_and_sparse_for_dynamic_workers() -> None:
    async def alone(stage: Stage) -> None:
        await stage.create(resource(TENSORFLOW), job(TENSORFLOW, Worker=1))
        assert "TF_CONFIG" not in env_of(await stage.get(PODS, "job-worker-0"))

    async def dynamic(stage: Stage) -> None:
        extra = {"enableDynamicWorker": True}
        await stage.create(resource(TENSORFLOW), job(TENSORFLOW, extra=extra, PS=1, Worker=2))
        worker = json.loads(env_of(await stage.get(PODS, "job-worker-1"))["TF_CONFIG"])
        server = json.loads(env_of(await stage.get(PODS, "job-ps-0"))["TF_CONFIG"])
        assert worker["cluster"] == {
            "worker": {"1": "job-worker-1.default.svc:2222"},
            "ps": ["job-ps-0.default.svc:2222"],
        }
        assert server["cluster"] == {"worker": {}, "ps": ["job-ps-0.default.svc:2222"]}
        assert "environment" not in worker

    play(controllers, alone)
    play(controllers, dynamic)


def test_pytorch_environment_of_master_and_workers() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(resource(PYTORCH), job(PYTORCH, extra={"nprocPerNode": "2"}, Master=1, Worker=2))
        assert env_of(await stage.get(PODS, "job-worker-1")) == {
            "PYTHONUNBUFFERED": "1",
            "MASTER_PORT": "23456",
            "PET_MASTER_PORT": "23456",
            "MASTER_ADDR": "job-master-0",
            "PET_MASTER_ADDR": "job-master-0",
            "WORLD_SIZE": "6",
            "RANK": "2",
            "PET_NODE_RANK": "2",
            "PET_NPROC_PER_NODE": "2",
            "PET_NNODES": "3",
        }
        assert env_of(await stage.get(PODS, "job-master-0"))["RANK"] == "0"

    play(controllers, script)


def test_pytorch_environment_of_elastic_workers() -> None:
    async def script(stage: Stage) -> None:
        elastic = {
            "minReplicas": 1,
            "maxReplicas": 3,
            "maxRestarts": 5,
            "rdzvConf": [{"key": "a", "value": "1"}, {"key": "b", "value": "2"}],
        }
        await stage.create(resource(PYTORCH), job(PYTORCH, extra={"elasticPolicy": elastic}, Worker=2))
        assert env_of(await stage.get(PODS, "job-worker-1")) == {
            "PYTHONUNBUFFERED": "1",
            "PET_NPROC_PER_NODE": "auto",
            "PET_RDZV_ENDPOINT": "job-worker-0:23456",
            "PET_RDZV_BACKEND": "c10d",
            "PET_NNODES": "1:3",
            "PET_MAX_RESTARTS": "5",
            "PET_RDZV_CONF": "a=1,b=2",
        }

    play(controllers, script)


def test_xgboost_paddle_and_jax_environments() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(resource(XGBOOST), {**job(XGBOOST, Master=1, Worker=2), "metadata": {"name": "x"}})
        assert env_of(await stage.get(PODS, "x-worker-1")) == {
            "MASTER_PORT": "9999",
            "MASTER_ADDR": "x-master-0",
            "WORLD_SIZE": "3",
            "RANK": "2",
            "PYTHONUNBUFFERED": "1",
            "WORKER_PORT": "9999",
            "WORKER_ADDRS": "x-worker-0,x-worker-1",
        }
        await stage.create(resource(PADDLE), {**job(PADDLE, Master=1, Worker=1), "metadata": {"name": "p"}})
        master = env_of(await stage.get(PODS, "p-master-0"))
        assert master["PADDLE_MASTER"] == "$(POD_IP_DUMMY):36543"
        assert master["PADDLE_SERVER_NUM"] == "1"
        worker = env_of(await stage.get(PODS, "p-worker-0"))
        assert (worker["PADDLE_MASTER"], worker["PADDLE_TRAINER_NUM"]) == ("p-master-0:36543", "1")
        await stage.create(resource(JAX), {**job(JAX, Worker=2), "metadata": {"name": "j"}})
        assert env_of(await stage.get(PODS, "j-worker-1")) == {
            "PYTHONUNBUFFERED": "1",
            "COORDINATOR_PORT": "6666",
            "COORDINATOR_ADDRESS": "j-worker-0",
            "NUM_PROCESSES": "2",
            "PROCESS_ID": "1",
        }

    play(controllers, script)


@pytest.mark.parametrize(
    ("framework", "replicas", "extra", "winners", "message"),
    [
        pytest.param(
            PYTORCH,
            {"Master": 1, "Worker": 1},
            {},
            ["job-master-0"],
            "PyTorchJob job is successfully completed.",
            id="pytorch master",
        ),
        pytest.param(
            PYTORCH,
            {"Worker": 2},
            {},
            ["job-worker-0", "job-worker-1"],
            "PyTorchJob default/job successfully completed.",
            id="pytorch workers",
        ),
        pytest.param(
            PYTORCH,
            {"Worker": 2},
            {"elasticPolicy": {"minReplicas": 1}},
            ["job-worker-1"],
            "PyTorchJob default/job successfully completed.",
            id="elastic any worker",
        ),
        pytest.param(
            TENSORFLOW,
            {"Chief": 1, "Worker": 1},
            {},
            ["job-chief-0"],
            "TFJob default/job successfully completed.",
            id="tf chief",
        ),
        pytest.param(
            TENSORFLOW,
            {"PS": 1, "Worker": 2},
            {},
            ["job-worker-0"],
            "TFJob default/job successfully completed.",
            id="tf worker 0",
        ),
        pytest.param(
            TENSORFLOW,
            {"Worker": 2},
            {"successPolicy": "AllWorkers"},
            ["job-worker-0", "job-worker-1"],
            "TFJob default/job successfully completed.",
            id="tf all workers",
        ),
        pytest.param(
            XGBOOST,
            {"Master": 1, "Worker": 1},
            {},
            ["job-master-0"],
            "XGBoostJob job is successfully completed.",
            id="xgboost master",
        ),
        pytest.param(
            PADDLE,
            {"Worker": 2},
            {},
            ["job-worker-0", "job-worker-1"],
            "PaddleJob default/job successfully completed.",
            id="paddle workers",
        ),
        pytest.param(
            JAX,
            {"Worker": 2},
            {},
            ["job-worker-0", "job-worker-1"],
            "JAXJob default/job successfully completed.",
            id="jax workers",
        ),
    ],
)
def test_job_succeeds(
    framework: Framework, replicas: dict[str, int], extra: Obj, winners: list[str], message: str
) -> None:
    async def script(stage: Stage) -> None:
        where = resource(framework)
        await stage.create(where, job(framework, extra=extra, **replicas))
        await stage.run()
        for name in winners:
            done = await stage.get(where, "job")
            assert done["status"]["conditions"][-1]["type"] == "Running"
            await stage.succeed(name)
        done = await stage.get(where, "job")
        assert summary(done) == [("Created", "True"), ("Running", "False"), ("Succeeded", "True")]
        assert done["status"]["conditions"][-1]["message"] == message
        assert "completionTime" in done["status"]
        counts = done["status"]["replicaStatuses"]
        assert not any(entry.get("active") for entry in counts.values())
        total = sum(replicas.values())
        assert sum(entry.get("succeeded", 0) for entry in counts.values()) == total

    play(controllers, script)


def test_tf_all_workers_waits_for_the_last() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(resource(TENSORFLOW), job(TENSORFLOW, extra={"successPolicy": "AllWorkers"}, Worker=2))
        await stage.run()
        await stage.succeed("job-worker-0")
        assert (await stage.get(resource(TENSORFLOW), "job"))["status"]["conditions"][-1]["type"] == "Running"

    play(controllers, script)


@pytest.mark.parametrize(
    ("framework", "replicas", "message"),
    [
        (
            PYTORCH,
            {"Master": {"replicas": 1, "restartPolicy": "Never"}},
            "PyTorchJob job is failed because 1 Master replica(s) failed.",
        ),
        (TENSORFLOW, {"Worker": 1}, "TFJob default/job has failed because 1 Worker replica(s) failed."),
        (XGBOOST, {"Master": 1}, "XGBoostJob job is failed because 1 Master replica(s) failed."),
        (JAX, {"Worker": 1}, "JAXJob job is failed because 1 Worker replica(s) failed."),
    ],
    ids=lambda value: value.kind if isinstance(value, Framework) else "",
)
def test_job_fails_for_good(framework: Framework, replicas: dict[str, Any], message: str) -> None:
    async def script(stage: Stage) -> None:
        await stage.create(resource(framework), job(framework, **replicas))
        await stage.run()
        await stage.fail()
        failed = await stage.get(resource(framework), "job")
        assert summary(failed) == [("Created", "True"), ("Running", "False"), ("Failed", "True")]
        assert failed["status"]["conditions"][-1]["message"] == message
        assert failed["status"]["conditions"][-1]["reason"] == f"{framework.kind}Failed"
        assert "completionTime" in failed["status"]

    play(controllers, script)


def test_failed_replica_with_on_failure_is_replaced() -> None:
    async def script(stage: Stage) -> None:
        where = resource(PYTORCH)
        await stage.create(where, job(PYTORCH, Master=1, Worker=1))
        await stage.run()
        before = (await stage.get(PODS, "job-worker-0"))["metadata"]["uid"]
        await stage.fail("job-worker-0")
        assert (await stage.get(PODS, "job-worker-0"))["metadata"]["uid"] != before
        again = await stage.get(where, "job")
        assert ("Restarting", "True") in summary(again) or ("Running", "True") in summary(again)
        assert "PyTorchJobRestarting" in await stage.reasons()
        await stage.run()
        assert summary(await stage.get(where, "job"))[-1] == ("Running", "True")
        assert ("Restarting", "True") not in summary(await stage.get(where, "job"))

    play(controllers, script)


@pytest.mark.parametrize(
    ("code", "retried"), [(1, False), (127, False), (128, True), (130, True), (137, True), (143, True), (255, True)]
)
def test_exit_code_policy_retries_signals_only(code: int, retried: bool) -> None:
    async def script(stage: Stage) -> None:
        worker = {"replicas": 1, "restartPolicy": "ExitCode"}
        await stage.create(resource(TENSORFLOW), job(TENSORFLOW, Worker=worker))
        pod = await stage.get(PODS, "job-worker-0")
        assert pod["spec"]["restartPolicy"] == "Never"
        await stage.run()
        await stage.fail(code=code)
        assert ((await stage.get(PODS, "job-worker-0"))["metadata"]["uid"] != pod["metadata"]["uid"]) == retried
        failed = ("Failed", "True") in summary(await stage.get(resource(TENSORFLOW), "job"))
        assert failed != retried

    play(controllers, script)


def test_backoff_limit_counts_replaced_replicas() -> None:
    async def script(stage: Stage) -> None:
        run = {"backoffLimit": 2, "cleanPodPolicy": "All"}
        await stage.create(resource(PYTORCH), job(PYTORCH, run, Master=1))
        for _ in range(2):
            await stage.run()
            await stage.fail()
        failed = await stage.get(resource(PYTORCH), "job")
        last = failed["status"]["conditions"][-1]
        assert last["message"] == "Job job has failed because it has reached the specified backoff limit"
        await stage.pass_time(40)
        assert await stage.names(PODS) == []

    play(controllers, script)


def test_active_deadline_fails_the_job() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(resource(JAX), job(JAX, {"activeDeadlineSeconds": 30}, Worker=1))
        await stage.run()
        await stage.pass_time(31)
        last = (await stage.get(resource(JAX), "job"))["status"]["conditions"][-1]
        assert last["message"] == "Job job has failed because it was active longer than specified deadline"

    play(controllers, script)


@pytest.mark.parametrize(
    ("policy", "left"), [("None", ["job-master-0", "job-worker-0"]), ("Running", ["job-master-0"]), ("All", [])]
)
def test_clean_pod_policy_after_success(policy: str, left: list[str]) -> None:
    async def script(stage: Stage) -> None:
        await stage.create(resource(PYTORCH), job(PYTORCH, {"cleanPodPolicy": policy}, Master=1, Worker=1))
        await stage.run()
        await stage.succeed("job-master-0")
        await stage.pass_time(40)
        assert await stage.names(PODS) == await stage.names(SERVICES) == left

    play(controllers, script)


def test_finished_job_expires() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(resource(JAX), job(JAX, {"ttlSecondsAfterFinished": 180}, Worker=1))
        await stage.run()
        await stage.succeed()
        await stage.pass_time(170)
        await stage.get(resource(JAX), "job")
        await stage.pass_time(15)
        with pytest.raises(NotFound):
            await stage.get(resource(JAX), "job")

    play(controllers, script)


def test_scaling_down_removes_the_last_replicas_and_lost_services_return() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(resource(PYTORCH), job(PYTORCH, Worker=3))
        await stage.client.delete(SERVICES, "job-worker-0", "default")
        await stage.cluster.settle()
        assert "job-worker-0" in await stage.names(SERVICES)
        await stage.patch(resource(PYTORCH), "job", {"spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 1}}}})
        await stage.pass_time(40)
        assert await stage.names(PODS) == await stage.names(SERVICES) == ["job-worker-0"]

    play(controllers, script)


def test_template_restart_policy_is_overwritten_and_said_so() -> None:
    async def script(stage: Stage) -> None:
        worker = {"replicas": 1, "template": template("jax", restartPolicy="Always")}
        await stage.create(resource(JAX), job(JAX, Worker=worker))
        assert (await stage.get(PODS, "job-worker-0"))["spec"]["restartPolicy"] == "Never"
        assert "SetPodTemplateRestartPolicy" in await stage.reasons()

    play(controllers, script)


def test_elastic_job_with_metrics_is_scaled_by_an_autoscaler() -> None:
    async def script(stage: Stage) -> None:
        metric = {
            "type": "Resource",
            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
        }
        elastic = {"minReplicas": 1, "maxReplicas": 4, "metrics": [metric]}
        where = resource(PYTORCH)
        await stage.create(where, job(PYTORCH, {"suspend": False}, extra={"elasticPolicy": elastic}, Worker=2))
        scaler = await stage.get(HORIZONTAL_POD_AUTOSCALERS, "job")
        assert (scaler["spec"]["minReplicas"], scaler["spec"]["maxReplicas"]) == (1, 4)
        assert scaler["spec"]["scaleTargetRef"]["kind"] == "PyTorchJob"
        await stage.run()
        running = await stage.get(where, "job")
        assert running["status"]["replicaStatuses"]["Worker"]["selector"].startswith(
            "training.kubeflow.org/job-name=job"
        )
        await stage.patch(where, "job", {"spec": {"runPolicy": {"suspend": True}}})
        await stage.pass_time(1)
        assert await stage.names(HORIZONTAL_POD_AUTOSCALERS) == []

    play(controllers, script)
