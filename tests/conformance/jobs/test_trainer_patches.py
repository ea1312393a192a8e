"""TrainJobs: runtime patches, who may set what, and in which order they hold."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance.jobs.operator_stage import Stage, play
from tests.conformance.jobs.test_trainer import controllers, plugins, runtime, step, train_job

from corral.core.errors import ApiError, Forbidden
from corral.core.meta import Obj
from corral.jobs.jobset.kind import JOB_SETS
from corral.jobs.trainjob.kind import CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS

MANAGER = "kueue.x-k8s.io/manager"


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
