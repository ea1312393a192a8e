"""Changes of a job on the manager, applied to the job on the worker that runs it; its adapter says which."""

from __future__ import annotations

from corral.controllers.dispatch.context import Context
from corral.controllers.dispatch.workers.remotes import Remote
from corral.core.errors import BadRequest, Forbidden, Invalid, NotFound
from corral.core.meta import Obj, key_of
from corral.decide.dispatch.workload_copy import is_ours
from corral.jobs.framework.adapter import JobAdapter
from corral.jobs.framework.followed_fields import changes
from corral.kinds.kueue import names


async def apply_changes(context: Context, remote: Remote, adapter: JobAdapter, job: Obj, workload: str) -> None:
    """Bring the worker's job in line; what the worker refuses is told and does not stop anything else."""
    key = key_of(job)
    found = remote.job(adapter.resource, key)
    if found is None or not is_ours(found, context.settings.origin):
        return
    patch = changes(adapter, job, found, workload)
    if patch is None:
        return
    try:
        await remote.client.patch(adapter.resource, key.name, key.namespace, patch, manager=names.MULTIKUEUE_MANAGER)
    except NotFound:
        return
    except (Invalid, Forbidden, BadRequest) as error:
        text = f"{remote.name}: refuses a change of the {adapter.resource.kind}: {error}"
        context.manager.recorder.event(job, "Warning", "ChangeRefused", text)
