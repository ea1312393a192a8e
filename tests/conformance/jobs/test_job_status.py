"""What a status of a Job may say, and that it does not go back."""

from __future__ import annotations

from typing import Any

import pytest
from tests.conformance.jobs.operator_stage import Stage, play, template
from tests.conformance.jobs.test_apps import controllers

from corral.core.errors import Invalid
from corral.core.meta import Obj
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.core.kinds import PODS

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
