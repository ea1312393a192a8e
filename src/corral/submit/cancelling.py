"""Stopping a job for good, wherever it waits or runs, and keeping it to be looked at."""

from __future__ import annotations

import time
from typing import Final

from corral.client.sync import SyncClient
from corral.core import conditions
from corral.core.meta import Obj, labels_of, name_of, namespace_of
from corral.core.resource import Resource
from corral.inspect.lookup import workload_of
from corral.kinds.kueue import WORKLOADS, names
from corral.submit.errors import SubmitError
from corral.submit.submitting import target_of

WORKLOAD_S: Final = 2.0
"""How long the Workload of a job that was just created is waited for."""
POLL_S: Final = 0.1


def cancel(client: SyncClient, resource: Resource, job: Obj) -> bool:
    """Take a job out of its queue or off its cluster; False when it has ended already."""
    workload = _workload(client, resource, job)
    if workload is None:
        target = target_of(resource, job)
        raise SubmitError(f"{target} is in no queue; `corral delete {target}` stops and removes it")
    if conditions.is_true(workload, names.FINISHED):
        return False
    client.patch(WORKLOADS, name_of(workload), namespace_of(workload), {"spec": {"active": False}})
    return True


def _workload(client: SyncClient, resource: Resource, job: Obj) -> Obj | None:
    """The Workload of a job, also of one that is so new that it has none yet."""
    deadline = time.monotonic() + WORKLOAD_S
    is_queued = names.QUEUE_NAME in labels_of(job)
    while (found := workload_of(client, resource, job, namespace_of(job))) is None and is_queued:
        if time.monotonic() > deadline:
            break
        time.sleep(POLL_S)
    return found
