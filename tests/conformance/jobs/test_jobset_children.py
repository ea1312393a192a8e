"""JobSets: the Jobs of a set, which are its own, how they are counted, and what is passed on to them."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from tests.conformance.jobs.operator_stage import Stage, play, template
from tests.conformance.jobs.test_jobset import controllers, counts, job_set, pods_of, replicated

from corral.clusters.operators import operator_plugins
from corral.core.errors import Invalid
from corral.core.meta import annotations_of, labels_of
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.framework.operators import OperatorContext
from corral.jobs.jobset.kind import JOB_SETS
from corral.kinds.kubernetes.core.kinds import PODS


def plugins(cluster: Any) -> list[Any]:
    return operator_plugins(OperatorContext(cluster.manager))


# 94: templates change only while suspended


def test_scheduling_of_a_running_set_does_not_change() -> None:
    async def script(stage: Stage) -> None:
        made = await stage.create(JOB_SETS, job_set(replicated("w")))
        job = deepcopy(made["spec"]["replicatedJobs"][0])
        job["template"]["spec"]["template"]["spec"]["nodeSelector"] = {"a": "b"}
        with pytest.raises(Invalid, match="field is immutable"):
            await stage.patch(JOB_SETS, "js", {"spec": {"replicatedJobs": [job]}})
        await stage.patch(JOB_SETS, "js", {"spec": {"suspend": True}})
        changed = await stage.patch(JOB_SETS, "js", {"spec": {"replicatedJobs": [job]}})
        assert changed["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["nodeSelector"] == {
            "a": "b"
        }
        job = deepcopy(job)
        job["template"]["spec"]["template"]["spec"]["containers"][0]["image"] = "other:1"
        with pytest.raises(Invalid, match="field is immutable"):
            await stage.patch(JOB_SETS, "js", {"spec": {"replicatedJobs": [job]}})

    play(controllers, script, plugins=plugins)


# 99: children of a namesake


def test_jobs_of_an_earlier_set_of_that_name_are_not_ours() -> None:
    async def script(stage: Stage) -> None:
        owner = {
            "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "name": "js", "uid": "gone", "controller": True,
        }  # fmt: skip
        spec = {"template": template(restartPolicy="Never"), "suspend": True}
        labels = {"jobset.sigs.k8s.io/jobset-name": "js", "jobset.sigs.k8s.io/replicatedjob-name": "w"}
        stray = {"metadata": {"name": "stray", "labels": labels, "ownerReferences": [owner]}, "spec": spec}
        await stage.create(JOBS, stray)
        await stage.create(JOB_SETS, job_set(replicated("w")))
        held = await stage.get(JOB_SETS, "js")
        assert counts(held, "w").get("suspended") is None
        assert {"js-w-0"} <= set(await stage.names(JOBS))

    play(controllers, script, plugins=plugins)


# 100: what is counted


def test_jobs_are_counted_in_every_state_they_are_in() -> None:
    async def script(stage: Stage) -> None:
        policy = {"operator": "All", "targetReplicatedJobs": ["never"]}
        await stage.create(JOB_SETS, job_set(replicated("w", 3, pods=2), replicated("never"), successPolicy=policy))
        await stage.pass_time(2)
        assert counts(await stage.get(JOB_SETS, "js"), "w") == {"active": 3}
        await stage.run(*await pods_of(stage, "js-w-0"))
        assert counts(await stage.get(JOB_SETS, "js"), "w") == {"active": 3, "ready": 1}
        await stage.succeed(*await pods_of(stage, "js-w-1"))
        await stage.pass_time(3)
        assert counts(await stage.get(JOB_SETS, "js"), "w") == {"active": 2, "ready": 1, "succeeded": 1}
        await stage.patch(JOB_SETS, "js", {"spec": {"suspend": True}})
        await stage.pass_time(60)
        assert counts(await stage.get(JOB_SETS, "js"), "w") == {"succeeded": 1, "suspended": 2}

    play(controllers, script, plugins=plugins)


# 101: places


def test_groups_and_exclusive_placement_are_passed_on() -> None:
    async def script(stage: Stage) -> None:
        jobs = [
            {**replicated("a", 2), "groupName": "one"},
            {**replicated("b", 1), "groupName": "two"},
            {**replicated("c"), "groupName": "one"},
        ]
        body = job_set(*jobs)
        topology = {"alpha.jobset.sigs.k8s.io/exclusive-topology": "rack"}
        body["metadata"]["annotations"] = topology
        await stage.create(JOB_SETS, body)
        labels = labels_of(await stage.get(JOBS, "js-c-0"))
        place = {
            name: labels[f"jobset.sigs.k8s.io/{name}"]
            for name in ("job-global-index", "group-replicas", "job-group-index")
        }
        assert place == {"job-global-index": "3", "group-replicas": "3", "job-group-index": "2"}
        (pod,) = await stage.pods(**{"batch.kubernetes.io/job-name": "js-c-0"})
        assert topology.items() <= annotations_of(pod).items()
        field = "requiredDuringSchedulingIgnoredDuringExecution"
        (near,) = pod["spec"]["affinity"]["podAffinity"][field]
        assert near["topologyKey"] == "rack"
        assert near["labelSelector"]["matchExpressions"][0]["values"] == [labels["jobset.sigs.k8s.io/job-key"]]
        assert "podAntiAffinity" in pod["spec"]["affinity"]

    play(controllers, script, plugins=plugins)


# 102: apply


def test_applying_the_same_again_changes_nothing() -> None:
    async def script(stage: Stage) -> None:
        body = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", **job_set(replicated("w"))}
        body["metadata"]["namespace"] = "default"
        first = await stage.client.apply(JOB_SETS, body, manager="me")
        await stage.run()
        second = await stage.client.apply(JOB_SETS, body, manager="me")
        assert first["metadata"]["generation"] == second["metadata"]["generation"] == 1
        assert await stage.names(PODS)

    play(controllers, script, plugins=plugins)
