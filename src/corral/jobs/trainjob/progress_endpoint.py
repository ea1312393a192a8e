"""Takes the progress reports of training pods: a POST to the status of their TrainJob."""

from __future__ import annotations

from typing import Any

from corral.client.protocol import Client
from corral.core.errors import Conflict, Invalid, NotFound
from corral.core.meta import Obj, status_of, with_status
from corral.jobs.framework.operators import OperatorContext
from corral.jobs.trainjob.kind import TRAIN_JOBS
from corral.jobs.trainjob.progress import with_report

MANAGER = "trainer-status"
ATTEMPTS = 5


class ProgressReports:
    """A handler of POST requests to trainjobs/status, for the API's table of those."""

    key = (TRAIN_JOBS.group_resource, "status")

    def __init__(self, client: Client) -> None:
        self._client = client

    async def __call__(self, user: object, namespace: str, name: str, body: Obj, options: Any) -> Obj:
        reported = body.get("trainerStatus")
        if reported is not None and not isinstance(reported, dict):
            raise Invalid("Invalid payload")
        for attempt in range(ATTEMPTS):
            try:
                await self._note(namespace, name, body)
                break
            except Conflict:
                if attempt == ATTEMPTS - 1:
                    raise
        return {field: value for field, value in body.items() if field == "trainerStatus"}

    async def _note(self, namespace: str, name: str, body: Obj) -> None:
        try:
            train_job = await self._client.get(TRAIN_JOBS, name, namespace)
        except NotFound:
            raise NotFound("Train job not found") from None
        status = with_report(train_job, body)
        if status != status_of(train_job):
            changed = with_status(train_job, status)
            await self._client.update(TRAIN_JOBS, changed, subresource="status", manager=MANAGER)


def posts(context: OperatorContext) -> dict[tuple[str, str], ProgressReports]:
    """The handler, where training pods may report."""
    reports = context.settings.has("TrainJobStatus")
    return {ProgressReports.key: ProgressReports(context.manager.client)} if reports else {}
