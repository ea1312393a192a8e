"""Training jobs: what is removed at the end, and when."""

from __future__ import annotations

import pytest
from tests.conformance.jobs.operator_stage import Stage, play, summary
from tests.conformance.jobs.test_kubeflow import controllers, job, resource

from corral.jobs.kubeflow.kind import PYTORCH, XGBOOST
from corral.kinds.kubernetes.autoscaling import HORIZONTAL_POD_AUTOSCALERS
from corral.kinds.kubernetes.core.kinds import PODS, SERVICES

# 51, 53: what is left after a failure


@pytest.mark.parametrize(
    ("policy", "left"),
    [("None", ["job-master-0", "job-worker-0"]), ("Running", ["job-worker-0"]), ("All", [])],
)
def test_clean_pod_policy_after_failure(policy: str, left: list[str]) -> None:
    async def script(stage: Stage) -> None:
        never = {"replicas": 1, "restartPolicy": "Never"}
        await stage.create(resource(PYTORCH), job(PYTORCH, {"cleanPodPolicy": policy}, Master=never, Worker=never))
        await stage.run()
        await stage.fail("job-worker-0")
        await stage.pass_time(40)
        assert summary(await stage.get(resource(PYTORCH), "job"))[-1] == ("Failed", "True")
        assert await stage.names(PODS) == await stage.names(SERVICES) == left

    play(controllers, script)


def test_clean_pod_policy_holds_at_the_backoff_limit() -> None:
    async def script(stage: Stage) -> None:
        run = {"cleanPodPolicy": "All", "backoffLimit": 1}
        await stage.create(resource(PYTORCH), job(PYTORCH, run, Master=1, Worker=1))
        await stage.run()
        await stage.fail("job-worker-0")
        await stage.pass_time(60)
        done = await stage.get(resource(PYTORCH), "job")
        assert done["status"]["conditions"][-1]["message"] == (
            "Job job has failed because it has reached the specified backoff limit"
        )
        assert await stage.names(PODS) == await stage.names(SERVICES) == []

    play(controllers, script)


# 54: time to live


@pytest.mark.parametrize(
    ("ttl", "after", "gone"), [(0, 2, True), (180, 150, False), (180, 200, True), (None, 9999, False)]
)
def test_time_to_live(ttl: int | None, after: float, gone: bool) -> None:
    async def script(stage: Stage) -> None:
        run = {} if ttl is None else {"ttlSecondsAfterFinished": ttl}
        await stage.create(resource(XGBOOST), job(XGBOOST, run, Master=1))
        await stage.run()
        await stage.succeed("job-master-0")
        await stage.pass_time(after)
        assert await stage.is_gone(resource(XGBOOST), "job") is gone

    play(controllers, script)


# 49, 59: scaling


def test_autoscaler_goes_with_suspension_and_scale_shows_the_workers() -> None:
    async def script(stage: Stage) -> None:
        metrics = [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
            }
        ]
        elastic = {"elasticPolicy": {"minReplicas": 1, "maxReplicas": 4, "metrics": metrics}}
        where = resource(PYTORCH)
        await stage.create(where, job(PYTORCH, {}, extra=elastic, Worker=2))
        assert await stage.names(HORIZONTAL_POD_AUTOSCALERS) == ["job"]
        await stage.run()
        scale = await stage.client.get_subresource(where, "job", "default", "scale")
        assert (scale["spec"]["replicas"], scale["status"]["replicas"]) == (2, 2)
        assert "training.kubeflow.org/replica-type=worker" in scale["status"]["selector"]
        await stage.client.patch(where, "job", "default", {"spec": {"replicas": 3}}, subresource="scale")
        await stage.cluster.settle()
        assert len(await stage.names(PODS)) == 3
        await stage.patch(where, "job", {"spec": {"runPolicy": {"suspend": True}}})
        await stage.pass_time(2)
        assert await stage.names(HORIZONTAL_POD_AUTOSCALERS) == []

    play(controllers, script)
