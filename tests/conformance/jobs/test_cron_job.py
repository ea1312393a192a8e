"""CronJobs: Jobs made by hand and the length of the history."""

from __future__ import annotations

import pytest
from tests.conformance.jobs.operator_stage import Stage, play
from tests.conformance.jobs.test_apps import controllers, cron

from corral.jobs.batch_job.kind import CRON_JOBS, JOBS

# 35: CronJobs


def test_job_made_from_a_cron_job_by_hand_is_one_of_its_own() -> None:
    async def script(stage: Stage) -> None:
        made = await stage.create(CRON_JOBS, cron("0 0 1 1 *"))
        owner = {
            "apiVersion": "batch/v1", "kind": "CronJob", "name": "tick", "uid": made["metadata"]["uid"],
            "controller": True,
        }  # fmt: skip
        body = {
            "metadata": {
                "name": "by-hand",
                "annotations": {"cronjob.kubernetes.io/instantiate": "manual"},
                "ownerReferences": [owner],
            },
            "spec": made["spec"]["jobTemplate"]["spec"],
        }
        await stage.create(JOBS, body)
        await stage.run()
        await stage.succeed()
        await stage.pass_time(3)
        assert (await stage.get(JOBS, "by-hand"))["status"]["succeeded"] == 1
        assert await stage.names(JOBS) == ["by-hand"]

    play(controllers, script)


@pytest.mark.parametrize(
    ("succeeds", "field"), [(True, "successfulJobsHistoryLimit"), (False, "failedJobsHistoryLimit")]
)
def test_history_of_a_cron_job_is_limited(succeeds: bool, field: str) -> None:
    async def script(stage: Stage) -> None:
        await stage.create(CRON_JOBS, cron("* * * * *", **{field: 2}))
        for _ in range(5):
            await stage.pass_time(60)
            await stage.run()
            await (stage.succeed if succeeds else stage.fail)()
        await stage.pass_time(5)
        assert len(await stage.names(JOBS)) == 2

    play(controllers, script)
