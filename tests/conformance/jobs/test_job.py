"""batch/v1 Jobs, the scenarios of upstream's own tests that no recording covers."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance.jobs.operator_stage import NAMESPACE, Stage, play, summary, template

from corral.core.errors import Invalid, NotFound
from corral.core.meta import Obj, finalizers_of, is_owned_by, labels_of, name_of, uid_of
from corral.core.timestamps import parse_time
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.batch_job.operator import JobController
from corral.jobs.batch_job.ttl import TtlController
from corral.kinds.kubernetes.core.kinds import PODS
from corral.runtime.controller import Manager
from corral.runtime.random import Random

TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"


def controllers(cluster: Any) -> list[Any]:
    return [kind(cluster.manager) for kind in (JobController, TtlController)]


def job(name: str = "j", *, restart: str = "Never", pod: Obj | None = None, **spec: Any) -> Obj:
    body = pod or template(restartPolicy=restart)
    return {"metadata": {"name": name}, "spec": {"template": body, **spec}}


async def status(stage: Stage, name: str = "j") -> Obj:
    return (await stage.get(JOBS, name)).get("status") or {}


async def restart(stage: Stage) -> None:
    """The controller dies and another takes its place."""
    cluster = stage.cluster
    await cluster.manager.stop()
    cluster.manager = Manager(cluster.client, cluster.clock, Random("next"))
    controllers(cluster)
    await cluster.manager.start()
    await cluster.settle()


def test_pod_deleted_before_its_end_is_replaced() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(JOBS, job())
        [first] = await stage.names(PODS)
        await stage.run()
        await stage.client.delete(PODS, first, NAMESPACE)
        await stage.pass_time(45)
        [second] = await stage.names(PODS)
        assert second != first
        assert (await status(stage))["failed"] == 1

    play(controllers, script)


def test_work_queue_winds_down_after_the_first_success() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(JOBS, job(parallelism=3))
        first, second, third = await stage.names(PODS)
        await stage.run()
        await stage.succeed(first)
        assert (await status(stage))["active"] == 2
        assert len(await stage.names(PODS)) == 3
        await stage.succeed(second, third)
        assert (await status(stage))["succeeded"] == 3
        assert "Completed" in await stage.reasons()

    play(controllers, script)


def test_elastic_indexed_job_grows_and_shrinks() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(JOBS, job(completionMode="Indexed", parallelism=2, completions=2))
        await stage.patch(JOBS, "j", {"spec": {"parallelism": 4, "completions": 4}})
        assert sorted(labels_of(pod)[INDEX] for pod in await stage.pods()) == ["0", "1", "2", "3"]
        await stage.patch(JOBS, "j", {"spec": {"parallelism": 1, "completions": 1}})
        await stage.pass_time(40)
        assert [labels_of(pod)[INDEX] for pod in await stage.pods()] == ["0"]
        with pytest.raises(Invalid):
            await stage.patch(JOBS, "j", {"spec": {"completions": 3}})
        await stage.succeed()
        assert summary(await stage.get(JOBS, "j"))[-1] == ("Complete", "True")

    play(controllers, script)


def test_failed_index_is_tried_again() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(JOBS, job(completionMode="Indexed", parallelism=2, completions=2))
        await stage.run()
        zero = next(name_of(pod) for pod in await stage.pods() if labels_of(pod)[INDEX] == "0")
        await stage.fail(zero)
        await stage.pass_time(12)
        alive = [pod for pod in await stage.pods() if pod["status"]["phase"] in ("Pending", "Running")]
        assert sorted(labels_of(pod)[INDEX] for pod in alive) == ["0", "1"]

    play(controllers, script)


def test_restart_of_the_controller_during_suspension_makes_no_pods() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(JOBS, job(suspend=True))
        await restart(stage)
        await stage.pass_time(5)
        assert await stage.names(PODS) == []
        await stage.patch(JOBS, "j", {"spec": {"suspend": False}})
        assert len(await stage.names(PODS)) == 1

    play(controllers, script)


def test_failed_pod_deleted_while_the_controller_is_down_still_counts() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(JOBS, job(backoffLimit=6))
        [pod] = await stage.names(PODS)
        await stage.run()
        await stage.cluster.manager.stop()
        await stage._phase(pod, "Failed", False, {"terminated": {"exitCode": 1, "finishedAt": stage.now}})
        await stage.client.delete(PODS, pod, NAMESPACE)
        assert TRACKING in finalizers_of(await stage.get(PODS, pod))
        await restart(stage)
        await stage.pass_time(3)
        assert (await status(stage))["failed"] == 1

    play(controllers, script)


def test_pauses_double_and_reset_after_a_success() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(JOBS, job(parallelism=1, completions=5, backoffLimit=20))
        gaps = []
        for outcome in ("fail", "fail", "fail", "succeed", "fail"):
            known = set(await stage.names(PODS))
            await stage.run()
            ended = parse_time(stage.now)
            await getattr(stage, outcome)()
            while set(await stage.names(PODS)) <= known:
                await stage.pass_time(1)
            [fresh] = set(await stage.names(PODS)) - known
            born = parse_time((await stage.get(PODS, fresh))["metadata"]["creationTimestamp"])
            gaps.append(round(born - ended))
        assert [10 <= gaps[0] <= 12, 20 <= gaps[1] <= 22, 40 <= gaps[2] <= 42, gaps[3] <= 2, 10 <= gaps[4] <= 12] == [
            True
        ] * 5

    play(controllers, script)


def test_per_index_limit_lets_the_other_indexes_go_on() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(JOBS, job(completionMode="Indexed", parallelism=2, completions=2, backoffLimitPerIndex=1))

        async def of(index: str) -> str:
            pods = [pod for pod in await stage.pods() if labels_of(pod)[INDEX] == index]
            return name_of(max(pods, key=lambda pod: pod["metadata"]["creationTimestamp"]))

        await stage.run()
        await stage.fail(await of("0"))
        await stage.pass_time(15)
        retry = await stage.get(PODS, await of("0"))
        assert retry["metadata"]["annotations"]["batch.kubernetes.io/job-index-failure-count"] == "1"
        await stage.run()
        await stage.fail(await of("0"))
        assert (await status(stage))["failedIndexes"] == "0"
        assert summary(await stage.get(JOBS, "j")) == []
        await stage.succeed(await of("1"))
        done = await stage.get(JOBS, "j")
        assert summary(done) == [("FailureTarget", "True"), ("Failed", "True")]
        assert (done["status"]["completedIndexes"], done["status"]["failedIndexes"], done["status"]["failed"]) == (
            "1",
            "0",
            2,
        )

    play(controllers, script)


def test_all_pods_lose_the_finalizer_when_the_job_fails() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(JOBS, job(parallelism=3, completions=3, backoffLimit=0))
        first, *_ = await stage.names(PODS)
        await stage.run()
        await stage.fail(first)
        await stage.pass_time(40)
        assert summary(await stage.get(JOBS, "j"))[-1] == ("Failed", "True")
        assert not any(TRACKING in finalizers_of(pod) for pod in await stage.pods())

    play(controllers, script)


def test_replacement_waits_for_the_end_when_told_to() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(JOBS, job(podReplacementPolicy="Failed", pod=template(restartPolicy="Never", nodeName="n")))
        [first] = await stage.names(PODS)
        await stage.run()
        await stage.client.delete(PODS, first, NAMESPACE)
        await stage.pass_time(15)
        assert await stage.names(PODS) == [first]
        now = await status(stage)
        assert (now["terminating"], now.get("active", 0)) == (1, 0)
        await stage.fail(first)
        await stage.pass_time(15)
        assert len(set(await stage.names(PODS)) - {first}) == 1

    play(controllers, script)


@pytest.mark.parametrize("propagation", ["Background", "Foreground", "Orphan"])
def test_deleted_job_leaves_no_finalizer_behind(propagation: Any) -> None:
    async def script(stage: Stage) -> None:
        await stage.create(JOBS, job(parallelism=2, completions=2))
        await stage.run()
        await stage.client.delete(JOBS, "j", NAMESPACE, propagation=propagation)
        await stage.pass_time(40)
        left = await stage.pods()
        assert len(left) == (2 if propagation == "Orphan" else 0)
        assert not any(TRACKING in finalizers_of(pod) for pod in left)

    play(controllers, script)


def test_same_name_again_has_nothing_to_do_with_the_old_pods() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(JOBS, job(backoffLimit=0))
        await stage.run()
        await stage.client.delete(JOBS, "j", NAMESPACE, propagation="Background")
        await stage.pass_time(1)
        again = await stage.create(JOBS, job(backoffLimit=0))
        await stage.pass_time(2)
        mine = await stage.pods(**{"batch.kubernetes.io/controller-uid": again["metadata"]["uid"]})
        assert len(mine) == 1
        assert (await status(stage)).get("failed", 0) == 0

    play(controllers, script)


def test_job_of_another_manager_may_be_recreated_as_ours() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(JOBS, job(managedBy="acme.io/other"))
        await stage.pass_time(3)
        assert await stage.names(PODS) == []
        assert await status(stage) == {}
        await stage.client.delete(JOBS, "j", NAMESPACE, propagation="Background")
        await stage.create(JOBS, job())
        assert len(await stage.names(PODS)) == 1

    play(controllers, script)


@pytest.mark.parametrize(("ttl", "gone_after"), [(0, 3), (5, 8)])
def test_time_to_live(ttl: int, gone_after: float) -> None:
    async def script(stage: Stage) -> None:
        await stage.create(JOBS, job(ttlSecondsAfterFinished=ttl))
        await stage.succeed()
        await stage.pass_time(gone_after)
        assert await stage.is_gone(JOBS, "j")

    play(controllers, script)


def test_time_to_live_set_after_the_end() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(JOBS, job())
        await stage.succeed()
        await stage.pass_time(60)
        await stage.get(JOBS, "j")
        await stage.patch(JOBS, "j", {"spec": {"ttlSecondsAfterFinished": 10}})
        await stage.pass_time(2)
        with pytest.raises(NotFound):
            await stage.get(JOBS, "j")

    play(controllers, script)


@pytest.mark.parametrize("name", ["x" * 63, "y" * 50])
def test_long_names_give_valid_pods(name: str) -> None:
    async def script(stage: Stage) -> None:
        await stage.create(JOBS, job(name))
        [pod] = await stage.names(PODS)
        assert len(pod) <= 63

    play(controllers, script)


def test_index_variable_of_the_user_is_kept() -> None:
    async def script(stage: Stage) -> None:
        pod = template(restartPolicy="Never")
        pod["spec"]["containers"][0]["env"] = [{"name": "JOB_COMPLETION_INDEX", "value": "mine"}]
        pod["spec"]["initContainers"] = [{"name": "init", "image": "i"}]
        await stage.create(JOBS, job(completionMode="Indexed", completions=1, pod=pod))
        [made] = await stage.pods()
        assert made["spec"]["containers"][0]["env"] == [{"name": "JOB_COMPLETION_INDEX", "value": "mine"}]
        assert made["spec"]["initContainers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"

    play(controllers, script)


def test_quota_that_refuses_a_pod_is_said_and_retried() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(
            JOBS, job(parallelism=2, completions=2, pod=template(restartPolicy="Never", serviceAccountName="nobody"))
        )
        assert "FailedCreate" in await stage.reasons()
        assert await stage.names(PODS) == []

    play(controllers, script)


def test_more_pods_than_one_sync_handles() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(JOBS, job(parallelism=600, completions=600))
        await stage.pass_time(3)
        assert len(await stage.names(PODS)) == 600
        await stage.succeed()
        await stage.pass_time(5)
        done = await status(stage)
        assert (done["succeeded"], done["uncountedTerminatedPods"]) == (600, {})
        assert summary(await stage.get(JOBS, "j"))[-1] == ("Complete", "True")

    play(controllers, script)


def test_a_job_made_again_under_its_name_does_not_pay_for_the_failures_of_the_old_one() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(JOBS, job(backoffLimit=6))
        await stage.run()
        await stage.fail()
        await stage.pass_time(5)
        await stage.client.delete(JOBS, "j", NAMESPACE, propagation="Background")
        created = await stage.create(JOBS, job(backoffLimit=6))
        made = [pod for pod in await stage.pods() if is_owned_by(pod, uid_of(created))]
        assert len(made) == 1

    play(controllers, script)
