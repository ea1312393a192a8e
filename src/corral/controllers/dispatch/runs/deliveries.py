"""Whether a job has on its worker what its pods need: sent where the manager is told to, and named here where it lacks.

Kubernetes says only in events of pods that a ConfigMap is missing, and those stay on the worker. So what is not there is a condition
and an Event of the Workload here, an Event of the job, and looked for again until it is there.
"""

from __future__ import annotations

from typing import Final

from corral.controllers.dispatch.context import DispatchContext, DispatchedWorkload
from corral.controllers.dispatch.runs.dependencies import missing, send_named
from corral.controllers.dispatch.workers.remotes import Remote
from corral.core import conditions
from corral.core.errors import NotFound
from corral.core.meta import Key, Obj, key_of, uid_of
from corral.decide.dispatch.workload_copy import has_origin
from corral.kinds.kueue import names

AGAIN_S: Final = 10.0
"""How often to look for what was missing."""


class Deliveries:
    """What jobs need on their workers. After a restart of the manager every job whose pods are not ready is looked at once more."""

    def __init__(self, context: DispatchContext) -> None:
        self._context = context
        self._complete: dict[Key, set[str]] = {}
        """The uids of remote jobs that lack nothing, by their Workload."""

    def forget(self, workload: Key) -> None:
        self._complete.pop(workload, None)

    async def deliver(self, remote: Remote, subject: DispatchedWorkload) -> bool:
        """Send what is to be sent and say what is missing; True when nothing is."""
        workload = self._context.current(subject.workload)
        if conditions.is_true(workload, names.PODS_READY) and not conditions.is_false(workload, names.DEPENDENCIES):
            return True
        complete = self._complete.setdefault(key_of(workload), set())
        problems: list[str] = []
        for job in subject.jobs:
            made = await self._on_worker(remote, subject, job)
            if made is None or uid_of(made) in complete:
                continue
            if lacking := await self._lacking(remote, job, made):
                problems += lacking
            else:
                complete.add(uid_of(made))
        await self._tell(subject, remote.name, list(dict.fromkeys(problems)))
        return not problems

    async def _on_worker(self, remote: Remote, subject: DispatchedWorkload, job: Obj) -> Obj | None:
        key, resource = key_of(job), subject.adapter.resource
        try:
            made = remote.job(resource, key) or await remote.client.get(resource, key.name, key.namespace)
        except NotFound:
            return None
        return made if has_origin(made, self._context.settings.origin) else None

    async def _lacking(self, remote: Remote, job: Obj, made: Obj) -> list[str]:
        settings, refused = self._context.settings, dict[str, str]()
        if settings.propagate:
            refused = await send_named(self._context.manager.client, remote, job, made, settings.origin)
        absent = await missing(remote, job)
        why = "there is none here to send" if settings.propagate else "nothing is sent there (propagateDependencies)"
        return [f"{name} ({refused.get(name, why)})" for name in absent]

    async def _tell(self, subject: DispatchedWorkload, cluster: str, problems: list[str]) -> None:
        workload = self._context.current(subject.workload)
        held = conditions.find(workload, names.DEPENDENCIES)
        if not problems:
            if held is not None and held["status"] == "False":
                message = f"{cluster} has what the pods need"
                await self._context.set_condition(workload, names.DEPENDENCIES, True, "Present", message)
            return
        message = f"{cluster} has no {', no '.join(problems)}: pods that need it do not start before it is there"
        if held is not None and held["status"] == "False" and held["message"] == message:
            return
        await self._context.set_condition(workload, names.DEPENDENCIES, False, "Missing", message)
        for subject_of_event in (workload, *subject.jobs):
            self._context.recorder.event(subject_of_event, "Warning", "MissingDependency", message)
