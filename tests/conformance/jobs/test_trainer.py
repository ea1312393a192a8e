"""TrainJobs and their runtimes, scenario by scenario."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import yaml
from tests.conformance.jobs.operator_stage import Stage, play, summary, template
from tests.published import published

from corral.clusters.operators import operator_plugins
from corral.core.errors import ApiError, Forbidden, Invalid, NotFound
from corral.core.meta import Obj
from corral.jobs.batch_job.operator import JobController
from corral.jobs.framework.operators import OperatorContext
from corral.jobs.jobset.kind import JOB_SETS
from corral.jobs.jobset.operator import JobSetController
from corral.jobs.trainjob.kind import CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS, TRAINING_RUNTIMES
from corral.jobs.trainjob.operator import TrainJobController
from corral.jobs.trainjob.progress_endpoint import ProgressReports
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, EVENTS, PODS, SECRETS
from corral.kinds.kubernetes.rbac import ROLE_BINDINGS, ROLES


def controllers(cluster: Any) -> list[Any]:
    kinds = (JobController, JobSetController, TrainJobController)
    return [kind(cluster.manager) for kind in kinds]


def reporting_controllers(cluster: Any) -> list[Any]:
    """With the feature TrainJobStatus."""
    cluster.api.posts[ProgressReports.key] = ProgressReports(cluster.client)
    plain = [kind(cluster.manager) for kind in (JobController, JobSetController)]
    return [*plain, TrainJobController(cluster.manager, reports=True)]


def plugins(cluster: Any) -> list[Any]:
    return operator_plugins(OperatorContext(cluster.manager))


def step(name: str, container: str, ancestor: str = "", **job: Any) -> Obj:
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": ancestor} if ancestor else {}
    return {
        "name": name,
        "template": {"metadata": {"labels": labels}, "spec": {"template": template(container), **job}},
    }


def runtime(policy: Obj | None = None, *jobs: Obj, name: str = "rt") -> Obj:
    spec = {
        "mlPolicy": policy or {},
        "template": {"spec": {"replicatedJobs": list(jobs) or [step("node", "node", "trainer")]}},
    }
    return {"metadata": {"name": name}, "spec": spec}


def train_job(name: str = "t", kind: str = "ClusterTrainingRuntime", **spec: Any) -> Obj:
    return {"metadata": {"name": name}, "spec": {"runtimeRef": {"name": "rt", "kind": kind}, **spec}}


def env_of(job_set: Obj, job: str = "node", container: str = "node") -> dict[str, Any]:
    entry = next(item for item in job_set["spec"]["replicatedJobs"] if item["name"] == job)
    found = next(
        item for item in entry["template"]["spec"]["template"]["spec"]["containers"] if item["name"] == container
    )
    return {item["name"]: item.get("value", item.get("valueFrom")) for item in found.get("env") or ()}


def test_published_manifests_run_unmodified() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(CLUSTER_TRAINING_RUNTIMES, published("cluster-training-runtime"))
        made = await stage.create(TRAIN_JOBS, published("trainjob"))
        assert made["spec"]["managedBy"] == "trainer.kubeflow.org/trainjob-controller"
        assert made["spec"]["suspend"] is False
        job_set = await stage.get(JOB_SETS, "pytorch-multikueue")
        job = job_set["spec"]["replicatedJobs"][0]["template"]["spec"]
        assert (job["parallelism"], job["completions"]) == (2, 2)
        env = env_of(job_set)
        assert env["PET_NNODES"] == "2"
        assert env["PET_NPROC_PER_NODE"] == "auto"
        assert env["PET_MASTER_ADDR"] == "pytorch-multikueue-node-0-0.pytorch-multikueue"
        assert env["PET_MASTER_PORT"] == "29500"
        path = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
        assert env["PET_NODE_RANK"]["fieldRef"]["fieldPath"] == path
        snapshot = await stage.get(CONFIG_MAPS, "pytorch-multikueue-runtime-snapshot")
        assert "torch" in yaml.safe_load(snapshot["data"]["runtime"])["spec"]["mlPolicy"]
        assert len(await stage.names(PODS)) == 2
        await stage.run()
        running = await stage.get(TRAIN_JOBS, "pytorch-multikueue")
        assert running["status"]["jobsStatus"][0]["ready"] == 1
        assert "conditions" not in running["status"]
        await stage.succeed()
        await stage.pass_time(3)
        done = await stage.get(TRAIN_JOBS, "pytorch-multikueue")
        assert summary(done) == [("Complete", "True")]
        assert done["status"]["conditions"][0]["reason"] == "AllJobsCompleted"

    play(controllers, script, plugins=plugins)


@pytest.mark.parametrize(
    ("policy", "trainer", "want"),
    [
        pytest.param(
            {"torch": {}},
            {"resourcesPerNode": {"requests": {"cpu": "3500m"}}},
            {"PET_NPROC_PER_NODE": "4"},
            id="one process per cpu",
        ),
        pytest.param({"torch": {}}, {"numProcPerNode": 6}, {"PET_NPROC_PER_NODE": "6"}, id="as told"),
        pytest.param(
            {"numNodes": 3, "torch": {}}, {}, {"PET_NNODES": "3", "PET_NPROC_PER_NODE": "1"}, id="runtime's nodes"
        ),
        pytest.param(
            {"jax": {}},
            {"numNodes": 2},
            {"JAX_NUM_PROCESSES": "2", "JAX_COORDINATOR_ADDRESS": "t-node-0-0.t:29500"},
            id="jax",
        ),
        pytest.param(
            {"xgboost": {}},
            {"numNodes": 2, "resourcesPerNode": {"limits": {"nvidia.com/gpu": "4"}}},
            {"DMLC_NUM_WORKER": "8", "DMLC_TRACKER_URI": "t-node-0-0.t"},
            id="xgboost",
        ),
        pytest.param({}, {"env": [{"name": "A", "value": "1"}]}, {"A": "1"}, id="plain"),
    ],
)
def test_framework_environment(policy: Obj, trainer: Obj, want: dict[str, str]) -> None:
    async def script(stage: Stage) -> None:
        await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime(policy))
        await stage.create(TRAIN_JOBS, train_job(trainer=trainer))
        env = env_of(await stage.get(JOB_SETS, "t"))
        assert {name: env.get(name) for name in want} == want

    play(controllers, script, plugins=plugins)


def test_trainer_overrides_the_container_and_zero_nodes_are_allowed() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime({"torch": {}}))
        own = {"image": "mine:2", "command": ["run"], "args": ["x"], "numNodes": 0}
        await stage.create(TRAIN_JOBS, train_job(trainer=own))
        job = (await stage.get(JOB_SETS, "t"))["spec"]["replicatedJobs"][0]["template"]["spec"]
        container = job["template"]["spec"]["containers"][0]
        assert (container["image"], container["command"], container["args"]) == ("mine:2", ["run"], ["x"])
        assert job["parallelism"] == 0

    play(controllers, script, plugins=plugins)


def test_mpi_launcher_and_nodes() -> None:
    async def script(stage: Stage) -> None:
        jobs = (step("launcher", "node", "trainer"), step("node", "node"))
        await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime({"numNodes": 2, "mpi": {"numProcPerNode": 3}}, *jobs))
        await stage.create(TRAIN_JOBS, train_job())
        job_set = await stage.get(JOB_SETS, "t")
        hostfile = await stage.get(CONFIG_MAPS, "t-mpi-hostfile")
        assert hostfile["data"]["hostfile"] == "t-node-0-0.t slots=3\nt-node-0-1.t slots=3\n"
        assert (await stage.get(SECRETS, "t-mpi-ssh-auth"))["type"] == "kubernetes.io/ssh-auth"
        env = env_of(job_set, "launcher")
        assert env["OMPI_MCA_orte_default_hostfile"] == "/etc/mpi/hostfile"
        assert env["OMPI_MCA_orte_set_default_slots"] == "3"
        assert job_set["spec"]["replicatedJobs"][1]["template"]["spec"]["parallelism"] == 2

    play(controllers, script, plugins=plugins)


def test_mpi_hosts_that_do_not_fit_into_a_config_map_are_said_to() -> None:
    async def script(stage: Stage) -> None:
        jobs = (step("launcher", "node", "trainer"), step("node", "node"))
        await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime({"mpi": {}}, *jobs))
        await stage.create(TRAIN_JOBS, train_job(trainer={"numNodes": 2**31 - 1}))
        await stage.pass_time(1)
        said = [event for event in (await stage.client.list(EVENTS, "default")).items if "Too long" in event["message"]]
        assert said[0]["reason"] == "TrainJobResourcesCreationFailed"
        assert await stage.names(JOB_SETS) == []

    play(controllers, script, plugins=plugins)


@pytest.mark.parametrize(
    ("policy", "trainer", "hostfile", "nodes"),
    [
        ({}, {"numNodes": 3}, "t-node-0-0.t slots=1\nt-node-0-1.t slots=1\nt-node-0-2.t slots=1\n", 3),
        (
            {"runLauncherAsNode": True},
            {"numNodes": 3},
            "t-launcher-0-0.t slots=1\nt-node-0-0.t slots=1\nt-node-0-1.t slots=1\n",
            2,
        ),
        ({"runLauncherAsNode": True}, {"numNodes": 1}, "t-launcher-0-0.t slots=1\nt-node-0-0.t slots=1\n", 1),
        ({}, {"numProcPerNode": 4}, "t-node-0-0.t slots=4\n", 1),
        ({}, {"resourcesPerNode": {"limits": {"nvidia.com/gpu": "8"}}}, "t-node-0-0.t slots=8\n", 1),
        (
            {"numProcPerNode": 2},
            {"resourcesPerNode": {"limits": {"nvidia.com/gpu": "8"}}},
            "t-node-0-0.t slots=2\n",
            1,
        ),
    ],
    ids=["nodes", "launcher as node", "one node", "processes", "one process per gpu", "processes of the runtime"],
)
def test_mpi_hosts(policy: Obj, trainer: Obj, hostfile: str, nodes: int) -> None:
    async def script(stage: Stage) -> None:
        jobs = (step("launcher", "node", "trainer"), step("node", "node"))
        await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime({"mpi": policy}, *jobs))
        await stage.create(TRAIN_JOBS, train_job(trainer=trainer))
        assert (await stage.get(CONFIG_MAPS, "t-mpi-hostfile"))["data"]["hostfile"] == hostfile
        launcher, node = (
            entry["template"]["spec"] for entry in (await stage.get(JOB_SETS, "t"))["spec"]["replicatedJobs"]
        )
        assert (launcher.get("parallelism", 1), node["parallelism"], node["completions"]) == (1, nodes, nodes)
        mounts = {
            item["name"]: item["mountPath"] for item in launcher["template"]["spec"]["containers"][0]["volumeMounts"]
        }
        assert mounts == {"mpi-ssh-auth": "/root/.ssh", "mpi-hostfile": "/etc/mpi"}

    play(controllers, script, plugins=plugins)


TUNE = [
    "tune", "run", "--rdzv_endpoint=localhost:29500", "full_finetune_distributed", "--config", "llama3_2/1B_full",
    "dataset=torchtune.datasets.instruct_dataset", "output_dir=/workspace/output",
    "tokenizer.path=/workspace/tokenizer.model", "checkpointer.checkpoint_dir=/workspace/model",
]  # fmt: skip
KEPT = ["output_dir=/workspace/output", "tokenizer.path=/workspace/tokenizer.model"]
KEPT.append("checkpointer.checkpoint_dir=/workspace/model")
LORA = "model.lora_attn_modules=[q_proj]"
QLORA = "model.quantize_base=True"


def tune_runtime(name: str = "torchtune-llama3.2-1b", gpus: int = 2) -> Obj:
    job = step("node", "node", "trainer")
    container = job["template"]["spec"]["template"]["spec"]["containers"][0]
    container |= {"command": TUNE, "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    return runtime({"torch": {}}, job, name=name)


def tune_job(name: str = "torchtune-llama3.2-1b", **trainer: Any) -> Obj:
    spec = {"runtimeRef": {"name": name}, "trainer": {"command": ["tune", "run"], **trainer}}
    return {"metadata": {"name": "t"}, "spec": spec}


@pytest.mark.parametrize(
    ("gpus", "trainer", "words"),
    [
        (2, {}, ["--rdzv_endpoint=t-node-0-0.t:29500", "full_finetune_distributed", "--config", "llama3_2/1B_full"]),
        (1, {}, ["full_finetune_single_device", "--config", "llama3_2/1B_full_single_device"]),
        (2, {"numProcPerNode": 1}, ["full_finetune_single_device", "--config", "llama3_2/1B_full_single_device"]),
        (1, {"args": [LORA]}, ["lora_finetune_single_device", "--config", "llama3_2/1B_lora_single_device"]),
        (1, {"args": [LORA, QLORA]}, ["lora_finetune_single_device", "--config", "llama3_2/1B_qlora_single_device"]),
        (
            1,
            {"args": [LORA, QLORA, "model.use_dora=True"]},
            ["lora_finetune_single_device", "--config", "llama3_2/1B_lora_single_device"],
        ),
        (
            4,
            {"args": [LORA]},
            ["--rdzv_endpoint=t-node-0-0.t:29500", "lora_finetune_distributed", "--config", "llama3_2/1B_lora"],
        ),
    ],
    ids=["several devices", "one device", "one process", "lora", "qlora", "dora", "lora on several devices"],
)
def test_fine_tuning_command_is_completed(gpus: int, trainer: Obj, words: list[str]) -> None:
    async def script(stage: Stage) -> None:
        await stage.create(CLUSTER_TRAINING_RUNTIMES, tune_runtime(gpus=gpus))
        await stage.create(TRAIN_JOBS, tune_job(**trainer))
        job_set = await stage.get(JOB_SETS, "t")
        job = job_set["spec"]["replicatedJobs"][0]["template"]["spec"]
        container = job["template"]["spec"]["containers"][0]
        assert container["command"] == ["tune", "run", *words, *KEPT]
        assert container.get("args", []) == trainer.get("args", [])
        env = env_of(job_set)
        assert "PET_NNODES" in env
        assert "PET_MASTER_ADDR" not in env  # the rendezvous is in the command

    play(controllers, script, plugins=plugins)


@pytest.mark.parametrize(
    ("name", "trainer", "texts"),
    [
        ("torchtune-other-9b", {}, ["spec.runtimeRef.name", "invalid model configured: other/9B"]),
        ("torchtune-llama3.2-1b", {"numNodes": 2}, ["spec.trainer.numNodes", "must be 1 for llama3_2/1B model"]),
        ("torchtune-llama3.2-1b", {"args": [QLORA]}, ["must be auto or 1 for llama3_2/1B model when using QLoRA"]),
        ("torchtune-qwen2.5-1.5b", {"args": [QLORA]}, ["QLoRA is not supported for qwen2_5/1.5B model"]),
        (
            "torchtune-llama3.3-70b",
            {"numNodes": 2, "args": [LORA]},
            ["LoRA fine-tuning is not supported for multi-node"],
        ),
        (
            "torchtune-llama3.2-1b",
            {"args": ["epochs=1", "output_dir=/mine"]},
            ["spec.trainer.args[1]", 'must not set immutable config "output_dir" in trainer args'],
        ),
    ],
)
def test_fine_tuning_is_refused(name: str, trainer: Obj, texts: list[str]) -> None:
    async def script(stage: Stage) -> None:
        await stage.create(CLUSTER_TRAINING_RUNTIMES, tune_runtime(name))
        with pytest.raises(Forbidden) as refused:
            await stage.create(TRAIN_JOBS, tune_job(name, **trainer))
        assert all(text in refused.value.message for text in texts)

    play(controllers, script, plugins=plugins)


def test_other_containers_get_the_variables_they_ask_for() -> None:
    async def script(stage: Stage) -> None:
        job = step("node", "node", "trainer")
        pod = job["template"]["spec"]["template"]["spec"]
        pod["initContainers"] = [{"name": "preflight", "image": "img:1"}, {"name": "other", "image": "img:1"}]
        target = {"jobName": "node", "containerNames": ["preflight"]}
        policy = {"torch": {"envInjection": {"targets": [target]}}}
        await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime(policy, job))
        await stage.create(TRAIN_JOBS, train_job(trainer={"numNodes": 2}))
        made = (await stage.get(JOB_SETS, "t"))["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
        variables = {entry["name"] for entry in made["initContainers"][0]["env"]}
        assert variables == {"PET_NNODES", "PET_NPROC_PER_NODE", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT"}
        assert "env" not in made["initContainers"][1]

    play(controllers, script, plugins=plugins)

    async def refused(stage: Stage) -> None:
        policy = {"torch": {"envInjection": {"targets": [{"jobName": "node", "containerNames": ["none"]}]}}}
        await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime(policy))
        with pytest.raises(Forbidden, match='podSet "node" container "none" not found in runtime template'):
            await stage.create(TRAIN_JOBS, train_job())
        policy["torch"]["envInjection"]["targets"][0]["containerNames"] = ["node"]
        with pytest.raises(Invalid, match="containerNames must not include the main node container"):
            await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime(policy, name="other"))

    play(controllers, refused, plugins=plugins)


async def report(stage: Stage, body: Obj, name: str = "t") -> Obj:
    return await stage.client.create_subresource(TRAIN_JOBS, name, "default", "status", body)


def test_training_pods_can_report_their_progress() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime({"torch": {}}))
        await stage.create(TRAIN_JOBS, train_job())
        env = env_of(await stage.get(JOB_SETS, "t"))
        path = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/default/trainjobs/t/status"
        assert env["KUBEFLOW_TRAINER_SERVER_URL"].startswith("https://")
        assert env["KUBEFLOW_TRAINER_SERVER_URL"].endswith(path)
        folder = "/var/run/secrets/kubeflow/trainer"
        assert env["KUBEFLOW_TRAINER_SERVER_CA_CERT"] == f"{folder}/ca.crt"
        assert env["KUBEFLOW_TRAINER_SERVER_TOKEN"] == f"{folder}/token"
        (rule,) = (await stage.get(ROLES, "t-status"))["rules"]
        assert (rule["resources"], rule["resourceNames"], rule["verbs"]) == (["trainjobs/status"], ["t"], ["create"])
        subjects = (await stage.get(ROLE_BINDINGS, "t-status"))["subjects"]
        assert [entry["name"] for entry in subjects] == ["default"]
        await stage.run()

        first = {
            "progressPercentage": 10,
            "estimatedRemainingSeconds": 900,
            "metrics": [{"name": "loss", "value": "0.5"}],
            "lastUpdatedTime": "2026-01-02T03:04:05Z",
        }
        assert await report(stage, {"trainerStatus": first}) == {"trainerStatus": first}
        status = (await stage.get(TRAIN_JOBS, "t"))["status"]
        assert status["trainerStatus"] == first
        assert status["jobsStatus"][0]["ready"] == 1
        await report(stage, {})
        assert (await stage.get(TRAIN_JOBS, "t"))["status"]["trainerStatus"] == first
        second = {"progressPercentage": 20, "lastUpdatedTime": "2026-01-02T03:05:05Z"}
        await report(stage, {"trainerStatus": second})
        assert (await stage.get(TRAIN_JOBS, "t"))["status"]["trainerStatus"] == second
        for wrong in (
            {"progressPercentage": 101},
            {"progressPercentage": -1},
            {"metrics": [{"name": "", "value": "1"}]},
        ):
            with pytest.raises(Invalid):
                await report(stage, {"trainerStatus": wrong})
        with pytest.raises(Invalid, match="Invalid payload"):
            await report(stage, {"trainerStatus": "half"})
        with pytest.raises(NotFound, match="Train job not found"):
            await report(stage, {"trainerStatus": second}, "none")
        await stage.succeed()
        await stage.pass_time(3)
        done = await stage.get(TRAIN_JOBS, "t")
        assert done["status"]["trainerStatus"] == second
        assert summary(done) == [("Complete", "True")]

    play(reporting_controllers, script, plugins=plugins)


def test_initializers_are_told_where_to_read() -> None:
    async def script(stage: Stage) -> None:
        jobs = (
            step("dataset-initializer", "dataset-initializer", "dataset-initializer"),
            step("node", "node", "trainer"),
        )
        await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime({"torch": {}}, *jobs))
        config = {"dataset": {"storageUri": "hf://data", "secretRef": {"name": "token"}}}
        await stage.create(TRAIN_JOBS, train_job(initializer=config))
        job_set = await stage.get(JOB_SETS, "t")
        assert env_of(job_set, "dataset-initializer", "dataset-initializer") == {"STORAGE_URI": "hf://data"}
        container = job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0]
        assert container["envFrom"] == [{"secretRef": {"name": "token"}}]

    play(controllers, script, plugins=plugins)


def test_suspended_job_is_patched_and_resumed() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime({"torch": {}}))
        await stage.create(TRAIN_JOBS, train_job(suspend=True))
        assert summary(await stage.get(TRAIN_JOBS, "t")) == [("Suspended", "True")]
        assert (await stage.get(JOB_SETS, "t"))["spec"]["suspend"] is True
        pod = {"metadata": {"labels": {"l": "1"}}, "spec": {"nodeSelector": {"flavor": "a"}}}
        jobs = [{"name": "node", "template": {"spec": {"template": pod}}}]
        entry = {
            "manager": "kueue.x-k8s.io/manager",
            "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}},
        }
        patched = await stage.patch(TRAIN_JOBS, "t", {"spec": {"runtimePatches": [entry]}})
        assert patched["spec"]["runtimePatches"][0]["time"]
        await stage.patch(TRAIN_JOBS, "t", {"spec": {"suspend": False}})
        await stage.pass_time(3)
        resumed = await stage.get(TRAIN_JOBS, "t")
        assert [(c["status"], c["reason"], c["message"]) for c in resumed["status"]["conditions"]] == [
            ("False", "Resumed", "TrainJob is resumed")
        ]
        made = (await stage.pods())[0]
        assert made["spec"]["nodeSelector"] == {"flavor": "a"}
        assert made["metadata"]["labels"]["l"] == "1"
        with pytest.raises(Forbidden, match="runtimePatches can only be modified when the TrainJob is suspended"):
            await stage.patch(TRAIN_JOBS, "t", {"spec": {"runtimePatches": []}})

    play(controllers, script, plugins=plugins)


@pytest.mark.parametrize("field", ["podTemplateOverrides", "podSpecOverrides"])
def test_older_overrides_are_understood(field: str) -> None:
    async def script(stage: Stage) -> None:
        await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime({"torch": {}}))
        change = {"nodeSelector": {"a": "b"}}
        entry = {"targetJobs": [{"name": "node"}], **({"spec": change} if field == "podTemplateOverrides" else change)}
        await stage.create(TRAIN_JOBS, train_job(**{field: [entry]}))
        job = (await stage.get(JOB_SETS, "t"))["spec"]["replicatedJobs"][0]["template"]["spec"]
        assert job["template"]["spec"]["nodeSelector"] == {"a": "b"}

    play(controllers, script, plugins=plugins)


def test_snapshot_outlives_changes_of_the_runtime() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(TRAINING_RUNTIMES, runtime({"torch": {}}))
        await stage.create(TRAIN_JOBS, train_job(kind="TrainingRuntime", suspend=True))
        changed = runtime({"numNodes": 7, "torch": {}})["spec"]
        await stage.patch(TRAINING_RUNTIMES, "rt", {"spec": changed})
        await stage.client.delete(TRAINING_RUNTIMES, "rt", "default")
        await stage.patch(TRAIN_JOBS, "t", {"spec": {"suspend": False}})
        assert env_of(await stage.get(JOB_SETS, "t"))["PET_NNODES"] == "1"

    play(controllers, script, plugins=plugins)


def test_deadline_runs_only_while_not_suspended() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime({"torch": {}}))
        await stage.create(TRAIN_JOBS, train_job(suspend=True, activeDeadlineSeconds=30))
        await stage.pass_time(100)
        assert summary(await stage.get(TRAIN_JOBS, "t")) == [("Suspended", "True")]
        await stage.patch(TRAIN_JOBS, "t", {"spec": {"suspend": False}})
        await stage.pass_time(20)
        assert len(summary(await stage.get(TRAIN_JOBS, "t"))) == 1
        await stage.pass_time(15)
        last = (await stage.get(TRAIN_JOBS, "t"))["status"]["conditions"][-1]
        assert (last["type"], last["reason"], last["message"]) == (
            "Failed",
            "DeadlineExceeded",
            "TrainJob exceeded its active deadline",
        )
        assert await stage.is_gone(JOB_SETS, "t")

    play(controllers, script, plugins=plugins)


def test_another_manager_is_left_alone() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime({"torch": {}}))
        await stage.create(TRAIN_JOBS, train_job(managedBy="kueue.x-k8s.io/multikueue"))
        await stage.pass_time(5)
        assert await stage.names(JOB_SETS) == []
        assert "t-runtime-snapshot" not in await stage.names(CONFIG_MAPS)
        assert "status" not in await stage.get(TRAIN_JOBS, "t")

    play(controllers, script, plugins=plugins)


REFUSED = [
    pytest.param(
        train_job(managedBy="other.io/x"),
        Invalid,
        "ManagedBy must be trainer.kubeflow.org/trainjob-controller or kueue.x-k8s.io/multikueue if set",
        id="managedBy",
    ),
    pytest.param(train_job("0t"), Invalid, "metadata.name must match RFC 1035 DNS label format", id="name"),
    pytest.param(train_job("t" * 64), Invalid, "metadata.name must be no more than 63 characters", id="long name"),
    pytest.param(
        {"metadata": {"name": "t"}, "spec": {"runtimeRef": {"name": "none"}}},
        Forbidden,
        "specified clusterTrainingRuntime must be created before the TrainJob is created",
        id="missing runtime",
    ),
    pytest.param(
        train_job(kind="TrainingRuntime"),
        Forbidden,
        "specified trainingRuntime must be created before the TrainJob is created",
        id="missing namespaced runtime",
    ),
    pytest.param(
        train_job(initializer={"model": {"storageUri": "hf://x"}}),
        Forbidden,
        "model-initializer",
        id="no such initializer",
    ),
    pytest.param(
        train_job(initializer={"model": {"storageUri": "nonsense"}}),
        Invalid,
        "storageUri may be empty, or it must be a valid URI",
        id="storage uri",
    ),
    pytest.param(
        train_job(trainer={"env": [{"name": "PET_NNODES", "value": "9"}]}),
        Forbidden,
        "must not have reserved envs",
        id="reserved env",
    ),
    pytest.param(
        train_job(trainer={"numProcPerNode": 0}),
        Invalid,
        "numProcPerNode must be greater than or equal to 1",
        id="no processes",
    ),
]


@pytest.mark.parametrize(("body", "error", "text"), REFUSED)
def test_train_job_is_refused(body: Obj, error: type[ApiError], text: str) -> None:
    async def script(stage: Stage) -> None:
        await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime({"torch": {}}))
        with pytest.raises(error, match=text):
            await stage.create(TRAIN_JOBS, body)

    play(controllers, script, plugins=plugins)


@pytest.mark.parametrize(
    "change",
    [
        {"managedBy": "kueue.x-k8s.io/multikueue"},
        {"runtimeRef": {"name": "other"}},
        {"trainer": {"numNodes": 5}},
        {"activeDeadlineSeconds": 77},
    ],
    ids=lambda change: next(iter(change)),
)
def test_fields_do_not_change(change: Obj) -> None:
    async def script(stage: Stage) -> None:
        await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime({"torch": {}}))
        await stage.create(TRAIN_JOBS, train_job(trainer={"numNodes": 2}, activeDeadlineSeconds=60))
        with pytest.raises(Invalid, match="field is immutable"):
            await stage.patch(TRAIN_JOBS, "t", {"spec": change})

    play(controllers, script, plugins=plugins)


@pytest.mark.parametrize(
    ("body", "error", "text"),
    [
        (runtime({"torch": {}, "jax": {}}), Invalid, "Only one of the policy can be configured"),
        (runtime({}, {**step("node", "node", "trainer"), "replicas": 2}), Forbidden, "always must be 1"),
        (
            runtime({}, step("node", "main", "trainer")),
            Forbidden,
            "must have container with name - node in the node job",
        ),
    ],
    ids=["two policies", "replicas", "container name"],
)
def test_runtime_is_refused(body: Obj, error: type[ApiError], text: str) -> None:
    async def script(stage: Stage) -> None:
        with pytest.raises(error, match=text):
            await stage.create(CLUSTER_TRAINING_RUNTIMES, body)
        await asyncio.sleep(0)

    play(controllers, script, plugins=plugins)
