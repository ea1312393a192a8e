"""The training operator: one controller per kubeflow.org/v1 kind, all driven by `plan`."""

from __future__ import annotations

from dataclasses import replace

from corral.core.errors import AlreadyExists, ApiError, NotFound
from corral.core.meta import (
    Key,
    Obj,
    annotations_of,
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
from corral.core.whole_numbers import whole_number
from corral.jobs.framework.child_objects import typed
from corral.jobs.framework.expectations import Expectations
from corral.jobs.framework.gang_operator import GangGroups
from corral.jobs.framework.growth_pacing import Steps
from corral.jobs.framework.operators import OperatorContext
from corral.jobs.framework.ownership import controlled_by, index_by_controller
from corral.jobs.kubeflow.children import build_group
from corral.jobs.kubeflow.environment import elastic_bounds, replicas_of
from corral.jobs.kubeflow.kind import FRAMEWORKS, GROUP, Framework, replica_specs_of, run_policy_of
from corral.jobs.kubeflow.plan import RESTARTS, TrainingPlan, is_managed_here, plan_training
from corral.jobs.kubeflow.status import is_finished
from corral.jobs.kubeflow.view import Settings, TrainingView
from corral.kinds.kubernetes.autoscaling import HORIZONTAL_POD_AUTOSCALERS
from corral.kinds.kubernetes.core.kinds import PODS, SERVICES
from corral.runtime.controller import Manager, Result, Watch, owner_key

MANAGER = "manager"
"""The name upstream's operator writes under."""


class TrainingController:
    """Runs the jobs of one framework."""

    def __init__(
        self, manager: Manager, framework: Framework, settings: Settings | None = None, *, name: str = ""
    ) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._framework = framework
        self._settings = settings or Settings()
        self._steps = Steps(manager.clock)
        self._resource = Resource(GROUP, "v1", framework.plural, framework.kind)
        self.name = name or f"{framework.lower}-controller"
        scheduler = self._settings.gang_scheduler
        self._jobs = manager.informer(self._resource)
        self._pods = manager.informer(PODS)
        self._services = manager.informer(SERVICES)
        for informer in (self._pods, self._services):
            index_by_controller(informer)
        self._recorder = manager.recorder.named(self.name)
        self._expectations = Expectations(self._pods, self._clock)
        owners = owner_key(framework.kind, GROUP)
        self._gang = GangGroups(manager, scheduler, MANAGER, owners) if scheduler else None
        watches = [Watch(self._resource), Watch(PODS, map=owners), Watch(SERVICES, map=owners)]
        if self._gang is not None:
            watches.append(self._gang.watch)
        manager.add(self, watches=watches, workers=5)

    async def reconcile(self, key: Key) -> Result | None:
        found = self._jobs.get(key)
        if found is None:
            self._expectations.forget(key)
            self._steps.forget(key)
            return None
        if not is_managed_here(found) or is_deleting(found) or not self._expectations.met(key):
            return None
        job = typed(found, self._resource.api_version, self._framework.kind)
        return await self._step(key, job)

    async def _step(self, key: Key, job: Obj) -> Result | None:
        look = TrainingView(
            self._framework,
            job,
            controlled_by(self._pods, job),
            controlled_by(self._services, job),
            self._clock.now(),
            self._settings,
            room=self._steps.room(key),
        )
        if self._gang is not None:
            look = await self._with_group(look, self._gang)
        plan = plan_training(look)
        for kind, reason, message in plan.events:
            self._recorder.event(job, kind, reason, message)
        self._steps.made(key, max(len(plan.create_pods), len(plan.create_services)))
        job = await self._note_restarts(job, plan.restarts)
        if plan.status != status_of(job):
            changed = with_status(job, plan.status)
            job = await self._client.update(self._resource, changed, subresource="status", manager=MANAGER)
        await self._act(key, typed(job, self._resource.api_version, self._framework.kind), plan)
        if plan.expire:
            await self._client.delete(
                self._resource, key.name, key.namespace, propagation="Background", uid=uid_of(job)
            )
        return Result(self._steps.wait(key, plan.wait_s))

    async def _with_group(self, look: TrainingView, gang: GangGroups) -> TrainingView:
        """The look with the PodGroup of a job that is to run; of others it is deleted."""
        job = look.job
        over = is_finished(status_of(job))
        if not over and not run_policy_of(job).get("suspend"):
            return replace(look, group=await gang.ensure(build_group(look, gang.priority_of)))
        if await gang.remove(job):
            if over:
                text = "Job has been terminated. Deleting PodGroup"
                self._recorder.event(job, "Normal", "JobTerminated", text)
            self._recorder.event(job, "Normal", "SuccessfulDeletePodGroup", f"Deleted PodGroup: {name_of(job)}")
        return look

    async def _note_restarts(self, job: Obj, count: int) -> Obj:
        """Keep account of replaced replicas where a backoff limit asks for it; before they are gone."""
        if not count or run_policy_of(job).get("backoffLimit") is None:
            return job
        total = (whole_number(annotations_of(job).get(RESTARTS, "")) or 0) + count
        patch = {
            "metadata": {
                "resourceVersion": job["metadata"].get("resourceVersion"),
                "annotations": {RESTARTS: str(total)},
            }
        }
        changed = await self._client.patch(self._resource, name_of(job), namespace_of(job), patch, manager=MANAGER)
        return typed(changed, self._resource.api_version, self._framework.kind)

    async def _act(self, key: Key, job: Obj, plan: TrainingPlan) -> None:
        for pod in plan.delete_pods:
            self._expectations.removing(key, pod)
            if not await self._delete(job, PODS, pod):
                self._expectations.give_up(key, pod)
        for service in plan.delete_services:
            await self._delete(job, SERVICES, service)
        for body in plan.create_services:
            await self._create(job, SERVICES, body)
        for body in plan.create_pods:
            made = await self._create(job, PODS, body)
            if made is not None:
                self._expectations.made(key, made)
        await self._autoscale(job)

    async def _create(self, job: Obj, resource: Resource, body: Obj) -> Obj | None:
        kind = resource.kind
        try:
            made = await self._client.create(resource, body, manager=MANAGER)
        except AlreadyExists:
            # An earlier life of the same replica is still leaving; its departure wakes us.
            return None
        except ApiError as error:
            self._recorder.event(job, "Warning", f"FailedCreate{kind}", f"Error creating: {error.message}")
            raise
        text = f"Created {kind.lower()}: {name_of(made)}"
        self._recorder.event(job, "Normal", f"SuccessfulCreate{kind}", text)
        return made

    async def _delete(self, job: Obj, resource: Resource, child: Obj) -> bool:
        kind = resource.kind
        try:
            await self._client.delete(resource, name_of(child), namespace_of(child), uid=uid_of(child))
        except NotFound:
            return False
        except ApiError as error:
            self._recorder.event(job, "Warning", f"FailedDelete{kind}", f"Error deleting: {error.message}")
            raise
        text = f"Deleted {kind.lower()}: {name_of(child)}"
        self._recorder.event(job, "Normal", f"SuccessfulDelete{kind}", text)
        return True

    async def _autoscale(self, job: Obj) -> None:
        """An elastic job with metrics has an autoscaler on its scale subresource, except while suspended."""
        elastic = spec_of(job).get("elasticPolicy") or {}
        if not elastic.get("metrics"):
            return
        try:
            if run_policy_of(job).get("suspend"):
                held = await self._client.get(HORIZONTAL_POD_AUTOSCALERS, name_of(job), namespace_of(job))
                if is_owned_by(held, uid_of(job)):
                    await self._client.delete(
                        HORIZONTAL_POD_AUTOSCALERS, name_of(held), namespace_of(held), uid=uid_of(held)
                    )
            else:
                await self._client.create(HORIZONTAL_POD_AUTOSCALERS, self._autoscaler(job, elastic), manager=MANAGER)
        except (AlreadyExists, NotFound):
            return

    def _autoscaler(self, job: Obj, elastic: Obj) -> Obj:
        worker = replica_specs_of(self._framework, job).get("Worker") or {}
        low, high = elastic_bounds(elastic, replicas_of(self._framework, "Worker", worker))
        target = {"apiVersion": self._resource.api_version, "kind": self._framework.kind, "name": name_of(job)}
        return {
            "apiVersion": "autoscaling/v2",
            "kind": "HorizontalPodAutoscaler",
            "metadata": {
                "name": name_of(job),
                "namespace": namespace_of(job),
                "ownerReferences": [owner_ref(job)],
            },
            "spec": {
                "scaleTargetRef": target,
                "minReplicas": low,
                "maxReplicas": high,
                "metrics": elastic["metrics"],
            },
        }


def training_controllers(manager: Manager, settings: Settings | None = None) -> list[TrainingController]:
    """Register one controller per framework."""
    return [TrainingController(manager, framework, settings) for framework in FRAMEWORKS]


def operators(context: OperatorContext) -> None:
    training_controllers(context.manager, Settings(gang_scheduler=context.settings.gang_scheduler))
