"""Jobs' status, CronJobs and the histories of sets, in detail."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance.operators.operator_stage import Stage, play, template
from tests.conformance.operators.test_apps import controllers, cron, labelled, roll, stateful

from corral.core.errors import Invalid
from corral.core.meta import Obj, labels_of, name_of
from corral.jobs.batch_job.kind import CRON_JOBS, JOBS
from corral.kinds.kubernetes.apps.kinds import CONTROLLER_REVISIONS, DAEMON_SETS, STATEFUL_SETS
from corral.kinds.kubernetes.core.kinds import NODES, PODS

# 31: what a manager of Jobs may not write into their status

MANAGED = {"managedBy": "acme.io/manager", "template": template(restartPolicy="Never")}


def true(*kinds: str) -> list[Obj]:
    return [{"type": kind, "status": "True", "reason": "r", "message": "m"} for kind in kinds]


START, LATER = "2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z"
SUCCEEDED = {"startTime": START, "completionTime": LATER, "conditions": true("SuccessCriteriaMet", "Complete")}


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ({**SUCCEEDED, "conditions": true("Complete")}, "without the SuccessCriteriaMet=true condition"),
        (
            {**SUCCEEDED, "conditions": true("SuccessCriteriaMet", "Complete", "FailureTarget", "Failed")},
            "cannot set Complete=True and Failed=true conditions",
        ),
        ({"startTime": START, "completionTime": LATER}, "cannot set completionTime when there is no Complete=True"),
        ({"startTime": START, "conditions": true("Failed")}, "without the FailureTarget=true condition"),
        ({**SUCCEEDED, "completionTime": "2025-01-01T00:00:00Z"}, "must be equal to or after `startTime`"),
        ({**SUCCEEDED, "active": 1}, "active>0 is invalid for finished job"),
        ({"completionTime": LATER, "conditions": true("SuccessCriteriaMet", "Complete")}, "startTime is required"),
        ({"startTime": START, "active": -1}, "must be greater than or equal to 0"),
        ({"startTime": START, "active": 1, "ready": 2}, "ready"),
        ({"startTime": START, "completedIndexes": "0"}, "when non-indexed completion mode"),
        ({"startTime": START, "failedIndexes": "0"}, "when backoffLimitPerIndex is null"),
    ],
)
def test_status_that_makes_no_sense_is_refused(status: Obj, text: str) -> None:
    async def script(stage: Stage) -> None:
        await stage.create(JOBS, {"metadata": {"name": "j"}, "spec": MANAGED})
        with pytest.raises(Invalid) as refused:
            await stage.client.patch(JOBS, "j", "default", {"status": status}, subresource="status")
        assert text in refused.value.message

    play(controllers, script)


def test_status_does_not_go_back() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(JOBS, {"metadata": {"name": "j"}, "spec": MANAGED})

        async def write(**status: Any) -> None:
            await stage.client.patch(JOBS, "j", "default", {"status": status}, subresource="status")

        await write(startTime=START, succeeded=2, failed=1)
        for less in ({"succeeded": 1}, {"failed": 0}):
            with pytest.raises(Invalid, match="cannot decrease"):
                await write(**less)
        await write(**SUCCEEDED)
        with pytest.raises(Invalid):
            await write(conditions=true("SuccessCriteriaMet"), completionTime=None)
        assert await stage.names(PODS) == []  # nobody else touched it

    play(controllers, script)


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


# 108: histories


def daemon_set(image: str = "img:1", **spec: Any) -> Obj:
    base = {"selector": {"matchLabels": {"app": "web"}}, "template": labelled(image)}
    return {"metadata": {"name": "agent"}, "spec": {**base, **spec}}


async def revisions(stage: Stage, image: bool = True) -> list[tuple[int, str]]:
    found = [await stage.get(CONTROLLER_REVISIONS, name) for name in await stage.names(CONTROLLER_REVISIONS)]
    return sorted(
        (entry["revision"], entry["data"]["spec"]["template"]["spec"]["containers"][0]["image"]) for entry in found
    )


def test_daemon_set_keeps_a_history_and_can_go_back() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(NODES, {"metadata": {"name": "a"}})
        await stage.create(DAEMON_SETS, daemon_set())
        await stage.run()
        assert await revisions(stage) == [(1, "img:1")]
        (pod,) = await stage.pods()
        (revision,) = await stage.names(CONTROLLER_REVISIONS)
        assert revision == f"agent-{labels_of(pod)['controller-revision-hash']}"
        owner = (await stage.get(CONTROLLER_REVISIONS, revision))["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("DaemonSet", "agent", True)
        await stage.patch(DAEMON_SETS, "agent", {"spec": {"template": labelled("img:2")}})
        await stage.pass_time(40)
        await stage.run()
        assert await revisions(stage) == [(1, "img:1"), (2, "img:2")]
        old = (await stage.get(CONTROLLER_REVISIONS, revision))["data"]
        await stage.client.patch(DAEMON_SETS, "agent", "default", old, kind="strategic")  # what `rollout undo` sends
        await stage.pass_time(40)
        assert await revisions(stage) == [(2, "img:2"), (3, "img:1")]
        (pod,) = await stage.pods()
        assert pod["spec"]["containers"][0]["image"] == "img:1"

    play(controllers, script)


def test_histories_are_limited() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(NODES, {"metadata": {"name": "a"}})
        await stage.create(DAEMON_SETS, daemon_set(revisionHistoryLimit=1))
        await stage.create(STATEFUL_SETS, stateful(1, revisionHistoryLimit=1))
        for number in range(2, 6):
            for resource, name in ((DAEMON_SETS, "agent"), (STATEFUL_SETS, "web")):
                await stage.patch(resource, name, {"spec": {"template": labelled(f"img:{number}")}})
            await stage.pass_time(40)
            await roll(stage, 2)
        held = [name.rpartition("-")[0] for name in await stage.names(CONTROLLER_REVISIONS)]
        assert sorted(held) == ["agent", "agent", "web", "web"]  # the one in use and one before

    play(controllers, script)


def test_stateful_set_that_goes_back_numbers_its_old_revision_anew() -> None:
    async def script(stage: Stage) -> None:
        await stage.create(STATEFUL_SETS, stateful(1))
        await roll(stage, 2)
        for image in ("img:2", "img:1"):
            await stage.patch(STATEFUL_SETS, "web", {"spec": {"template": labelled(image)}})
            await stage.pass_time(40)
            await roll(stage, 2)
        assert await revisions(stage) == [(2, "img:2"), (3, "img:1")]
        status = (await stage.get(STATEFUL_SETS, "web"))["status"]
        assert status["currentRevision"] == status["updateRevision"]
        assert [name_of(pod) for pod in await stage.pods()] == ["web-0"]

    play(controllers, script)
