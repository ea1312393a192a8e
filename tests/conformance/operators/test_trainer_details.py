"""TrainJobs in detail: names, runtimes, patches, snapshots; what test_trainer.py leaves out."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.conformance.operators.operator_stage import Stage, play
from tests.conformance.operators.test_trainer import controllers, env_of, plugins, runtime, step, train_job

from corral.core.errors import ApiError, Forbidden, Invalid
from corral.core.meta import Obj, name_of
from corral.jobs.jobset.kind import JOB_SETS
from corral.jobs.trainjob.kind import CLUSTER_TRAINING_RUNTIMES, POLICIES, TRAIN_JOBS, TRAINING_RUNTIMES
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, NAMESPACES
from corral.server.local import LocalClient
from corral.server.verbs.options import WriteOptions

MANAGER = "kueue.x-k8s.io/manager"


# 70: defaults


def test_defaults() -> None:
    async def script(stage: Stage) -> None:
        made = await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime({"mpi": {}}))
        assert made["spec"]["mlPolicy"] == {
            "numNodes": 1,
            "mpi": {
                "numProcPerNode": 1,
                "mpiImplementation": "OpenMPI",
                "sshAuthMountPath": "/root/.ssh",
                "runLauncherAsNode": False,
            },
        }
        job = await stage.create(TRAIN_JOBS, {"metadata": {"name": "t"}, "spec": {"runtimeRef": {"name": "rt"}}})
        assert job["spec"] == {
            "runtimeRef": {"name": "rt", "apiGroup": "trainer.kubeflow.org", "kind": "ClusterTrainingRuntime"},
            "suspend": False,
            "managedBy": "trainer.kubeflow.org/trainjob-controller",
        }

    play(lambda cluster: [], script, plugins=plugins)


# 71: what does not change


@pytest.mark.parametrize(
    "change",
    [{"initializer": {"model": {"storageUri": "hf://b"}}}, {"runtimeRef": {"kind": "TrainingRuntime"}}],
    ids=["initializer", "kind of runtime"],
)
def test_more_fields_do_not_change(change: Obj) -> None:
    async def script(stage: Stage) -> None:
        jobs = (step("model-initializer", "model-initializer", "model-initializer"), step("node", "node", "trainer"))
        await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime({"torch": {}}, *jobs))
        await stage.create(TRAIN_JOBS, train_job(initializer={"model": {"storageUri": "hf://a"}}))
        with pytest.raises(Invalid, match="field is immutable"):
            await stage.patch(TRAIN_JOBS, "t", {"spec": change})

    play(controllers, script, plugins=plugins)


# 73 and 74: names and addresses


@pytest.mark.parametrize(
    ("name", "fine"),
    [("Upper", False), ("0digit", False), ("ends-", False), ("a" * 63, True), ("a" * 64, False), ("a-1", True)],
)
def test_names(name: str, fine: bool) -> None:
    async def script(stage: Stage) -> None:
        await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime({"torch": {}}))
        if fine:
            await stage.create(TRAIN_JOBS, train_job(name))
            return
        with pytest.raises(Invalid):
            await stage.create(TRAIN_JOBS, train_job(name))

    play(lambda cluster: [], script, plugins=plugins)


@pytest.mark.parametrize(
    ("uri", "fine"), [("", True), ("hf://org/model", True), ("s3://b", True), ("nonsense", False), ("s3://", False)]
)
def test_addresses(uri: str, fine: bool) -> None:
    async def script(stage: Stage) -> None:
        jobs = (step("model-initializer", "model-initializer", "model-initializer"), step("node", "node", "trainer"))
        await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime({"torch": {}}, *jobs))
        body = train_job(initializer={"model": {"storageUri": uri}})
        if fine:
            await stage.create(TRAIN_JOBS, body)
            return
        with pytest.raises(Invalid, match="storageUri may be empty, or it must be a valid URI"):
            await stage.create(TRAIN_JOBS, body)

    play(lambda cluster: [], script, plugins=plugins)


# 75: runtimes that are not there, or not for long


def test_runtime_of_another_namespace_is_none() -> None:
    async def script(stage: Stage) -> None:
        await stage.client.create(NAMESPACES, {"metadata": {"name": "other"}})
        there = runtime({"torch": {}})
        there["metadata"]["namespace"] = "other"
        await stage.client.create(TRAINING_RUNTIMES, there)
        with pytest.raises(Forbidden, match="specified trainingRuntime must be created before the TrainJob is created"):
            await stage.create(TRAIN_JOBS, train_job(kind="TrainingRuntime"))

    play(lambda cluster: [], script, plugins=plugins)


def test_deprecated_runtime_warns() -> None:
    async def script(stage: Stage) -> None:
        old = runtime({"torch": {}})
        old["metadata"]["labels"] = {"trainer.kubeflow.org/support": "deprecated"}
        await stage.create(CLUSTER_TRAINING_RUNTIMES, old)
        said: list[str] = []
        api = stage.cluster.api
        user = LocalClient(api)._user
        await api.create(user, TRAIN_JOBS, "default", train_job(), WriteOptions(warn=said.append))
        assert len(said) == 1
        assert 'ClusterTrainingRuntime "rt" is deprecated' in said[0]

    play(lambda cluster: [], script, plugins=plugins)


# 77: one policy only


@pytest.mark.parametrize("pair", list(combinations(POLICIES, 2)), ids=lambda pair: " and ".join(pair))
def test_a_runtime_has_one_policy(pair: tuple[str, str]) -> None:
    async def script(stage: Stage) -> None:
        with pytest.raises(Invalid, match="Only one of the policy can be configured"):
            await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime({name: {} for name in pair}))

    play(lambda cluster: [], script, plugins=plugins)


# 78 and 79: variables that frameworks keep for themselves


@pytest.mark.parametrize(
    ("policy", "name", "text"),
    [
        ("torch", "PET_NODE_RANK", "must not have reserved envs, invalid envs configured: [PET_NODE_RANK]"),
        (
            "mpi",
            "OMPI_MCA_plm_rsh_args",
            "must not have reserved envs, invalid envs configured: [OMPI_MCA_plm_rsh_args]",
        ),
        ("xgboost", "DMLC_TASK_ID", "spec.trainer.env[0]: Forbidden: DMLC_TASK_ID is reserved for the XGBoost runtime"),
    ],
)
def test_reserved_variables(policy: str, name: str, text: str) -> None:
    async def script(stage: Stage) -> None:
        await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime({policy: {}}))
        with pytest.raises(Forbidden) as refused:
            await stage.create(TRAIN_JOBS, train_job(trainer={"env": [{"name": name, "value": "1"}]}))
        assert text in refused.value.message

    play(lambda cluster: [], script, plugins=plugins)


def test_mpi_launcher_as_node_needs_both_jobs() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime({"mpi": {"runLauncherAsNode": True}}))
        with pytest.raises(Forbidden, match="must have 1 when MPI trainingRuntime with enabled runLauncherAsNode"):
            await stage.create(TRAIN_JOBS, train_job(trainer={"numNodes": 2}))
        await stage.create(TRAIN_JOBS, train_job(trainer={"numNodes": 1}))

    play(lambda cluster: [], script, plugins=plugins)


@pytest.mark.parametrize(
    ("trainer", "own", "want"),
    [
        ({}, {"limits": {"nvidia.com/gpu": "2"}}, "auto"),
        ({"resourcesPerNode": {"limits": {"example.com/gpu": "1"}}}, {}, "auto"),
        ({"numProcPerNode": 3}, {"limits": {"nvidia.com/gpu": "2"}}, "3"),
        ({"resourcesPerNode": {"limits": {"cpu": "6"}}}, {"limits": {"nvidia.com/gpu": "2"}}, "6"),
        ({}, {"requests": {"cpu": "2500m"}}, "3"),
        ({}, {}, "1"),
    ],
    ids=["gpus of the runtime", "own gpus", "told", "own resources replace the runtime's", "cpus", "nothing"],
)
def test_processes_per_node(trainer: Obj, own: Obj, want: str) -> None:
    async def script(stage: Stage) -> None:
        job = step("node", "node", "trainer")
        job["template"]["spec"]["template"]["spec"]["containers"][0]["resources"] = own
        await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime({"torch": {}}, job))
        await stage.create(TRAIN_JOBS, train_job(trainer=trainer))
        assert env_of(await stage.get(JOB_SETS, "t"))["PET_NPROC_PER_NODE"] == want

    play(controllers, script, plugins=plugins)


def test_variables_are_there_without_a_trainer_section() -> None:
    async def script(stage: Stage) -> None:
        for policy in ("torch", "jax", "xgboost"):
            await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime({policy: {}}, name=policy))
            body = {"metadata": {"name": policy}, "spec": {"runtimeRef": {"name": policy}}}
            await stage.create(TRAIN_JOBS, body)
        jobs = {name: env_of(await stage.get(JOB_SETS, name)) for name in ("torch", "jax", "xgboost")}
        assert jobs["torch"]["PET_MASTER_PORT"] == "29500"
        assert jobs["jax"]["JAX_COORDINATOR_ADDRESS"] == "jax-node-0-0.jax:29500"
        assert jobs["xgboost"]["DMLC_NUM_WORKER"] == "1"

    play(controllers, script, plugins=plugins)


def test_the_jobs_variables_win_over_the_runtimes() -> None:
    async def script(stage: Stage) -> None:
        job = step("node", "node", "trainer")
        container = job["template"]["spec"]["template"]["spec"]["containers"][0]
        container["env"] = [{"name": "A", "value": "runtime"}, {"name": "B", "value": "runtime"}]
        await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime({}, job))
        await stage.create(TRAIN_JOBS, train_job(trainer={"env": [{"name": "A", "value": "job"}], "numNodes": 3}))
        job_set = await stage.get(JOB_SETS, "t")
        assert env_of(job_set) == {"A": "job", "B": "runtime"}
        assert job_set["spec"]["replicatedJobs"][0]["template"]["spec"]["completions"] == 3

    play(controllers, script, plugins=plugins)


# 81: patches


def patch(manager: str, job: str = "node", **pod: Any) -> Obj:
    jobs = [{"name": job, "template": {"spec": {"template": pod}}}]
    return {"manager": manager, "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": jobs}}}}


def test_patches_are_laid_over_each_other_in_order() -> None:
    async def script(stage: Stage) -> None:
        jobs = (step("prepare", "c"), step("node", "node", "trainer"))
        await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime({"torch": {}}, *jobs))
        patches = [
            patch("a.io/one", spec={"nodeSelector": {"x": "1", "y": "1"}}, metadata={"labels": {"l": "1"}}),
            patch("b.io/two", spec={"nodeSelector": {"x": "2"}}),
            patch("c.io/three", "prepare", spec={"tolerations": [{"key": "k", "operator": "Exists"}]}),
        ]
        patches[0]["trainingRuntimeSpec"]["template"]["metadata"] = {"annotations": {"whole": "set"}}
        await stage.create(TRAIN_JOBS, train_job(runtimePatches=patches))
        job_set = await stage.get(JOB_SETS, "t")
        first, second = (entry["template"]["spec"]["template"] for entry in job_set["spec"]["replicatedJobs"])
        assert first["spec"]["tolerations"] == [{"key": "k", "operator": "Exists"}]
        assert second["spec"]["nodeSelector"] == {"x": "2", "y": "1"}
        assert second["metadata"]["labels"]["l"] == "1"
        assert job_set["metadata"]["annotations"]["whole"] == "set"
        assert [entry["name"] for entry in job_set["spec"]["replicatedJobs"]] == ["prepare", "node"]

    play(controllers, script, plugins=plugins)


def test_only_the_changed_patch_gets_a_new_time() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime({"torch": {}}))
        forged = {**patch("a.io/one", spec={"nodeSelector": {"x": "1"}}), "time": "1999-01-01T00:00:00Z"}
        made = await stage.create(TRAIN_JOBS, train_job(suspend=True, runtimePatches=[forged, patch("b.io/two")]))
        times = [entry["time"] for entry in made["spec"]["runtimePatches"]]
        assert times[0] == times[1] != "1999-01-01T00:00:00Z"
        await stage.pass_time(100)
        changed = [made["spec"]["runtimePatches"][0], patch("b.io/two", spec={"nodeSelector": {"y": "1"}})]
        after = await stage.patch(TRAIN_JOBS, "t", {"spec": {"runtimePatches": changed}})
        assert after["spec"]["runtimePatches"][0]["time"] == times[0]
        assert after["spec"]["runtimePatches"][1]["time"] > times[1]

    play(controllers, script, plugins=plugins)


def test_patches_may_not_set_variables_of_managed_containers() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime({"torch": {}}))
        env = {"containers": [{"name": "node", "env": [{"name": "A", "value": "1"}]}]}
        with pytest.raises(Forbidden, match="must not have envs for the node container"):
            await stage.create(TRAIN_JOBS, train_job(runtimePatches=[patch(MANAGER, spec=env)]))

    play(controllers, script, plugins=plugins)


@pytest.mark.parametrize("manager", ["", "no-domain", "UPPER.io/x"])
def test_a_patch_names_its_manager(manager: str) -> None:
    async def script(stage: Stage) -> None:
        await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime({"torch": {}}))
        with pytest.raises(ApiError):
            await stage.create(TRAIN_JOBS, train_job(runtimePatches=[patch(manager)]))

    play(controllers, script, plugins=plugins)


def test_what_a_patch_brought_into_the_pods_does_not_change() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime({"torch": {}}))
        spec = {"serviceAccountName": "a", "nodeSelector": {"x": "1"}}
        await stage.create(TRAIN_JOBS, train_job(suspend=True, runtimePatches=[patch(MANAGER, spec=spec)]))
        free = patch(MANAGER, spec={**spec, "nodeSelector": {"x": "2"}})
        await stage.patch(TRAIN_JOBS, "t", {"spec": {"runtimePatches": [free]}})
        fixed = patch(MANAGER, spec={**spec, "serviceAccountName": "b"})
        with pytest.raises(ApiError, match="field is immutable"):
            await stage.patch(TRAIN_JOBS, "t", {"spec": {"runtimePatches": [fixed]}})

    play(controllers, script, plugins=plugins)


# 82: snapshots


def test_snapshot_is_owned_and_made_for_older_jobs_too() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(CLUSTER_TRAINING_RUNTIMES, runtime({"torch": {}}))
        made = await stage.create(TRAIN_JOBS, train_job(suspend=True))
        snapshot = await stage.get(CONFIG_MAPS, "t-runtime-snapshot")
        (owner,) = snapshot["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (made["metadata"]["uid"], True)
        await stage.client.delete(CONFIG_MAPS, "t-runtime-snapshot", "default")
        await stage.patch(TRAIN_JOBS, "t", {"metadata": {"labels": {"touched": "yes"}}})
        await stage.pass_time(2)
        assert "t-runtime-snapshot" in await stage.names(CONFIG_MAPS)

    play(controllers, script, plugins=plugins)


# 84: a runtime of an unknown kind


def test_runtime_of_an_unknown_kind_fails_the_job() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(TRAIN_JOBS, train_job(kind="OtherRuntime"))
        (failed,) = (await stage.get(TRAIN_JOBS, "t"))["status"]["conditions"]
        assert (failed["type"], failed["reason"]) == ("Failed", "TrainingRuntimeNotSupported")

    play(controllers, script)  # without the webhook, which would not let it in


# The runtimes that ship


SHIPPED = list(yaml.safe_load_all((Path(__file__).parents[3] / "examples/training-runtimes.yaml").read_text()))


@pytest.mark.parametrize("body", SHIPPED, ids=name_of)
def test_shipped_runtimes_make_job_sets(body: Obj) -> None:
    async def script(stage: Stage) -> None:
        await stage.create(CLUSTER_TRAINING_RUNTIMES, body)
        framework = body["metadata"]["labels"]["trainer.kubeflow.org/framework"]
        trainer: Obj = {"command": ["tune", "run"]} if framework == "torchtune" else {"numNodes": 2}
        spec = {"runtimeRef": {"name": name_of(body)}, "trainer": trainer}
        await stage.create(TRAIN_JOBS, {"metadata": {"name": "t"}, "spec": spec})
        job_set = await stage.get(JOB_SETS, "t")
        env = env_of(job_set)
        if framework in ("deepspeed", "mlx"):
            assert [entry["name"] for entry in job_set["spec"]["replicatedJobs"]] == ["node", "launcher"]
            assert env_of(job_set, "launcher")["OMPI_MCA_orte_set_default_slots"] == "1"
        elif framework == "torchtune":
            pods = [entry["template"]["spec"]["template"]["spec"] for entry in job_set["spec"]["replicatedJobs"]]
            model = {"1b": "llama3_2/1B", "3b": "llama3_2/3B", "1.5b": "qwen2_5/1.5B"}[name_of(body).split("-")[-1]]
            assert f"{model}_full" in pods[-1]["containers"][0]["command"]
            (first,) = await stage.pods(**{"jobset.sigs.k8s.io/replicatedjob-name": "dataset-initializer"})
            assert "initializer-t" in str(first["spec"]["volumes"])
        else:
            counts = {"torch": "PET_NNODES", "jax": "JAX_NUM_PROCESSES", "xgboost": "DMLC_NUM_WORKER"}
            assert env[counts[framework]] == "2"

    play(controllers, script, plugins=plugins)
