"""The trainer: turns TrainJobs into JobSets with the runtime they name, and reports back what the JobSet does."""

from __future__ import annotations

import yaml

from corral.core import yaml_documents
from corral.core.errors import AlreadyExists, ApiError, NotFound
from corral.core.meta import (
    Key,
    Obj,
    is_deleting,
    is_owned_by,
    name_of,
    namespace_of,
    owner_ref,
    spec_of,
    status_of,
    uid_of,
    with_status,
)
from corral.core.resource import Resource
from corral.jobs.framework.child_objects import typed
from corral.jobs.framework.operators import OperatorContext
from corral.jobs.framework.pod_group_kinds import PLUGINS_POD_GROUPS, VOLCANO_POD_GROUPS
from corral.jobs.jobset.kind import JOB_SETS
from corral.jobs.mpijob.operator import agent_program
from corral.jobs.mpijob.ssh_keys import ssh_secret
from corral.jobs.trainjob.kind import CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS, TRAINING_RUNTIMES
from corral.jobs.trainjob.plan import SNAPSHOT_KEY, compose, is_managed_here, snapshot_name
from corral.jobs.trainjob.progress import access
from corral.jobs.trainjob.status import deadline_left, failed_status, is_finished, is_suspended, train_job_status
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, SECRETS
from corral.kinds.kubernetes.rbac import ROLE_BINDINGS, ROLES
from corral.runtime.controller import Manager, Result, Watch, owner_key

MANAGER = "trainer"
STATUS_MANAGER = "manager"
"""The names upstream's controller applies and updates under."""


class TrainJobController:
    """Runs trainer.kubeflow.org TrainJobs."""

    name = "trainjob"

    def __init__(self, manager: Manager, *, reports: bool = False) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._reports = reports
        self._train_jobs = manager.informer(TRAIN_JOBS)
        self._job_sets = manager.informer(JOB_SETS)
        self._private_key = manager.private_key
        self._recorder = manager.recorder.named("trainer")
        watches = [Watch(TRAIN_JOBS), Watch(JOB_SETS, map=owner_key("TrainJob", TRAIN_JOBS.group))]
        manager.add(self, watches=watches, workers=5)

    async def reconcile(self, key: Key) -> Result | None:
        found = self._train_jobs.get(key)
        if found is None or is_deleting(found) or not is_managed_here(found) or is_finished(found):
            return None
        train_job = typed(found, TRAIN_JOBS.api_version, "TrainJob")
        now = self._clock.now()
        left = deadline_left(train_job, now)
        if left == 0:
            await self._expire(train_job, now)
            return None
        job_set = await self._converge(train_job)
        status = train_job_status(train_job, job_set, now)
        if status != status_of(train_job):
            await self._write(train_job, status)
        return Result(left)

    async def _converge(self, train_job: Obj) -> Obj | None:
        """Write the JobSet unless it runs already; a running JobSet cannot be changed."""
        key = Key(namespace_of(train_job), name_of(train_job))
        held = self._job_sets.get(key)
        try:
            if held is not None:
                _check_own(train_job, JOB_SETS, held)
            if held is not None and not is_suspended(train_job) and not spec_of(held).get("suspend"):
                return held
            runtime = await self._runtime(train_job)
            if runtime is None:
                return held
            composed = compose(train_job, runtime, agent_program(), reports=self._reports)
            await self._make_group(train_job, composed.pod_group)
            if self._reports:
                await self._allow_reports(train_job, composed.job_set)
            if composed.hostfile is not None:
                await self._apply(train_job, CONFIG_MAPS, composed.hostfile)
            if composed.ssh_secret:
                await self._make_keys(train_job, composed.ssh_secret)
            return await self._apply(train_job, JOB_SETS, composed.job_set)
        except ApiError as error:
            text = f"Failed to create resources: {error.message}"
            self._recorder.event(train_job, "Warning", "TrainJobResourcesCreationFailed", text)
            raise

    async def _own(self, train_job: Obj, resource: Resource, name: str) -> Obj | None:
        """The TrainJob's own object of that name, or None; AlreadyExists when it is somebody else's."""
        try:
            held = await self._client.get(resource, name, namespace_of(train_job))
        except NotFound:
            return None
        _check_own(train_job, resource, held)
        return held

    async def _apply(self, train_job: Obj, resource: Resource, body: Obj) -> Obj:
        """Bring an object up to date. Who may create one of that name can be there first: it is not taken over."""
        await self._own(train_job, resource, name_of(body))
        return await self._client.apply(resource, body, manager=MANAGER)

    async def _make_group(self, train_job: Obj, body: Obj | None) -> None:
        """The PodGroup, where the runtime asks for one; while the TrainJob runs it stays as it is."""
        if body is None:
            return
        resource = VOLCANO_POD_GROUPS if body["apiVersion"] == VOLCANO_POD_GROUPS.api_version else PLUGINS_POD_GROUPS
        if is_suspended(train_job) or await self._own(train_job, resource, name_of(body)) is None:
            await self._apply(train_job, resource, body)

    async def _allow_reports(self, train_job: Obj, job_set: Obj) -> None:
        accounts = sorted(
            {
                str(
                    ((job["template"]["spec"].get("template") or {}).get("spec") or {}).get("serviceAccountName")
                    or "default"
                )
                for job in job_set["spec"]["replicatedJobs"]
            }
        )
        role, binding = access(train_job, accounts)
        await self._apply(train_job, ROLES, role)
        await self._apply(train_job, ROLE_BINDINGS, binding)

    async def _make_keys(self, train_job: Obj, name: str) -> None:
        if await self._own(train_job, SECRETS, name) is None:
            body = {**ssh_secret(train_job, name, self._private_key), "immutable": True}
            await self._client.create(SECRETS, body, manager=MANAGER)

    async def _runtime(self, train_job: Obj) -> Obj | None:
        """The runtime as it was when this TrainJob was first seen."""
        namespace, name = namespace_of(train_job), snapshot_name(train_job)
        snapshot = await self._own(train_job, CONFIG_MAPS, name)
        if snapshot is not None:
            loaded: Obj = yaml_documents.load(snapshot["data"][SNAPSHOT_KEY])
            return loaded
        runtime = await self._live_runtime(train_job)
        if runtime is None:
            return None
        kept = {
            "apiVersion": runtime.get("apiVersion"),
            "kind": runtime.get("kind"),
            "metadata": {
                field: runtime["metadata"][field] for field in ("name", "labels") if field in runtime["metadata"]
            },
            "spec": runtime["spec"],
        }
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace, "ownerReferences": [owner_ref(train_job)]},
            "data": {SNAPSHOT_KEY: yaml.safe_dump(kept, sort_keys=False)},
        }
        await self._client.create(CONFIG_MAPS, body, manager=MANAGER)
        return kept

    async def _live_runtime(self, train_job: Obj) -> Obj | None:
        reference = spec_of(train_job).get("runtimeRef") or {}
        kind = reference.get("kind") or "ClusterTrainingRuntime"
        if kind == "ClusterTrainingRuntime":
            return await self._client.get(CLUSTER_TRAINING_RUNTIMES, reference["name"])
        if kind == "TrainingRuntime":
            return await self._client.get(TRAINING_RUNTIMES, reference["name"], namespace_of(train_job))
        text = f"TrainingRuntime {kind} is not supported"
        status = failed_status(train_job, "TrainingRuntimeNotSupported", text, self._clock.now())
        await self._write(train_job, status)
        return None

    async def _expire(self, train_job: Obj, now: float) -> None:
        held = self._job_sets.get(Key(namespace_of(train_job), name_of(train_job)))
        if held is not None and is_owned_by(held, uid_of(train_job)):
            try:
                await self._client.delete(
                    JOB_SETS, name_of(held), namespace_of(held), propagation="Background", uid=uid_of(held)
                )
            except NotFound:
                pass  # somebody else was faster
        text = "TrainJob exceeded its active deadline"
        await self._write(train_job, failed_status(train_job, "DeadlineExceeded", text, now))

    async def _write(self, train_job: Obj, status: Obj) -> None:
        changed = with_status(train_job, status)
        await self._client.update(TRAIN_JOBS, changed, subresource="status", manager=STATUS_MANAGER)


def _check_own(train_job: Obj, resource: Resource, held: Obj) -> None:
    if not is_owned_by(held, uid_of(train_job)):
        text = f'{resource.plural} "{name_of(held)}" already exists and belongs to somebody else'
        raise AlreadyExists(text)


def operators(context: OperatorContext) -> None:
    TrainJobController(context.manager, reports=context.settings.has("TrainJobStatus"))
