"""Training jobs: which pods end the job, its conditions, and its counts."""

from __future__ import annotations

from tests.conformance.jobs.operator_stage import Stage, play, summary
from tests.conformance.jobs.test_kubeflow import controllers, job, resource

from corral.jobs.kubeflow.kind import PYTORCH, TENSORFLOW
from corral.kinds.kubernetes.core.kinds import PODS

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
