"""TrainJobs: which runtime a job takes, its snapshot, and the runtimes that are shipped."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from tests.conformance.jobs.operator_stage import Stage, play
from tests.conformance.jobs.test_trainer import controllers, env_of, plugins, runtime, train_job

from corral.core.errors import Forbidden
from corral.core.meta import Obj, name_of
from corral.jobs.jobset.kind import JOB_SETS
from corral.jobs.trainjob.kind import CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS, TRAINING_RUNTIMES
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, NAMESPACES
from corral.server.local import LocalClient
from corral.server.verbs.options import WriteOptions

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
