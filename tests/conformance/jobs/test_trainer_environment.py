"""TrainJobs: processes per node and variables, of the job and of its runtime."""

from __future__ import annotations

import pytest
from tests.conformance.jobs.operator_stage import Stage, play
from tests.conformance.jobs.test_trainer import controllers, env_of, plugins, runtime, step, train_job

from corral.core.meta import Obj
from corral.jobs.jobset.kind import JOB_SETS
from corral.jobs.trainjob.kind import CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS


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
