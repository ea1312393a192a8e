"""What a viewer may do to a job from the page: what the command line does, with the viewer's own rights."""

from __future__ import annotations

from collections.abc import Callable

from corral.client.sync import SyncClient
from corral.core.errors import BadRequest
from corral.core.meta import Obj, name_of, namespace_of
from corral.core.resource import Resource
from corral.dashboard.details import check_names, job_of
from corral.kinds.kueue import WORKLOADS
from corral.submit.cancelling import cancel
from corral.submit.submitting import retry, target_of

Job = tuple[Resource, Obj]


def act(client: SyncClient, action: str, namespace: str, workload: str) -> str:
    """Carry out an action on the job of a Workload; what has become of it. Raises ApiError and SubmitError."""
    if action not in ACTIONS:
        raise BadRequest(f"there is no action {action!r}; there are {', '.join(ACTIONS)}")
    check_names(namespace=namespace, workload=workload)
    found = client.get(WORKLOADS, workload, namespace)
    return ACTIONS[action](client, found, job_of(client, found) or (WORKLOADS, found))


def _cancel(client: SyncClient, workload: Obj, job: Job) -> str:
    return f"{target_of(*job)} {'is cancelled' if cancel(client, *job) else 'has ended already'}"


def _resume(client: SyncClient, workload: Obj, job: Job) -> str:
    client.patch(WORKLOADS, name_of(workload), namespace_of(workload), {"spec": {"active": True}})
    return f"{target_of(*job)} is queued again"


def _retry(client: SyncClient, workload: Obj, job: Job) -> str:
    return f"{target_of(job[0], retry(client, *job))} is created"


def _delete(client: SyncClient, workload: Obj, job: Job) -> str:
    resource, obj = job
    client.delete(resource, name_of(obj), namespace_of(workload))
    return f"{target_of(*job)} is deleted"


ACTIONS: dict[str, Callable[[SyncClient, Obj, Job], str]] = {
    "cancel": _cancel,
    "resume": _resume,
    "retry": _retry,
    "delete": _delete,
}
