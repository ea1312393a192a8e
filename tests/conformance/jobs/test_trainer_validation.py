"""TrainJobs and runtimes: defaults, names, and what is refused."""

from __future__ import annotations

from itertools import combinations

import pytest
from tests.conformance.jobs.operator_stage import Stage, play
from tests.conformance.jobs.test_trainer import controllers, plugins, runtime, step, train_job

from corral.core.errors import Forbidden, Invalid
from corral.core.meta import Obj
from corral.jobs.trainjob.kind import CLUSTER_TRAINING_RUNTIMES, POLICIES, TRAIN_JOBS

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
