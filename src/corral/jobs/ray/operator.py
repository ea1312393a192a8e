"""The Ray operators. Here: RayClusters, their pods and their head's service."""

from __future__ import annotations

from importlib.util import find_spec
from shutil import which

from corral.core.errors import ApiError, NotFound
from corral.core.meta import (
    Key,
    Obj,
    is_deleting,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
    with_status,
)
from corral.jobs.framework.child_objects import slow_start, typed
from corral.jobs.framework.expectations import Expectations
from corral.jobs.framework.operators import OperatorContext
from corral.jobs.framework.ownership import controlled_by, index_by_controller
from corral.jobs.ray.child_objects import MANAGER, create_unless_held
from corral.jobs.ray.cluster_plan import RaySettings, is_managed_here, plan_ray_cluster
from corral.jobs.ray.dashboard import Dashboard
from corral.jobs.ray.job_operator import RayJobController
from corral.jobs.ray.kind import GROUP, RAY_CLUSTERS, cluster_errors
from corral.jobs.ray.service_operator import RayServiceController
from corral.kinds.kubernetes.core.kinds import PODS, SERVICES
from corral.runtime.controller import Manager, Result, Watch, owner_key


class RayClusterController:
    """Runs ray.io RayClusters."""

    name = "raycluster"

    def __init__(self, manager: Manager, settings: RaySettings) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._settings = settings
        self._clusters = manager.informer(RAY_CLUSTERS)
        self._pods = manager.informer(PODS)
        index_by_controller(self._pods)
        self._services = manager.informer(SERVICES)
        self._recorder = manager.recorder.named("raycluster-controller")
        self._expectations = Expectations(self._pods, self._clock)
        owners = owner_key("RayCluster", GROUP)
        watches = [
            Watch(RAY_CLUSTERS),
            Watch(PODS, map=owners),
            Watch(SERVICES, map=owners, when=lambda old, new: new is None),
        ]
        manager.add(self, watches=watches, workers=3)

    async def reconcile(self, key: Key) -> Result | None:
        found = self._clusters.get(key)
        if found is None:
            self._expectations.forget(key)
            return None
        if is_deleting(found) or not is_managed_here(found) or not self._expectations.met(key):
            return None
        cluster = typed(found, RAY_CLUSTERS.api_version, "RayCluster")
        errors = cluster_errors(spec_of(cluster))
        if errors:
            self._recorder.event(cluster, "Warning", "InvalidRayClusterSpec", str(errors[0]))
            return None
        pods = controlled_by(self._pods, cluster)
        plan = plan_ray_cluster(cluster, pods, self._clock.now(), self._settings)
        for kind, reason, message in plan.events:
            self._recorder.event(cluster, kind, reason, message)
        if plan.status != status_of(cluster):
            changed = with_status(cluster, plan.status)
            await self._client.update(RAY_CLUSTERS, changed, subresource="status", manager=MANAGER)
        if plan.service is not None and self._services.get(Key(key.namespace, name_of(plan.service))) is None:
            await create_unless_held(self._client, SERVICES, plan.service)
        for pod in plan.delete:
            self._expectations.removing(key, pod)
            try:
                await self._client.delete(PODS, name_of(pod), namespace_of(pod), uid=uid_of(pod))
            except NotFound:
                self._expectations.give_up(key, pod)
        await self._make(key, cluster, plan.create)
        return None

    async def _make(self, key: Key, cluster: Obj, bodies: tuple[Obj, ...]) -> None:
        async def make(body: Obj) -> Obj:
            kind = "Head" if labels_of(body).get("ray.io/node-type") == "head" else "Worker"
            try:
                pod = await self._client.create(PODS, body, manager=MANAGER)
            except ApiError as error:
                text = f"Failed to create {kind.lower()} Pod: {error.message}"
                self._recorder.event(cluster, "Warning", f"FailedToCreate{kind}Pod", text)
                raise
            self._expectations.made(key, pod)
            text = f"Created {kind.lower()} Pod {namespace_of(pod)}/{name_of(pod)}"
            self._recorder.event(cluster, "Normal", f"Created{kind}Pod", text)
            return pod

        _, failure = await slow_start(bodies, make)
        if failure is not None:
            raise failure


def ray_controllers(
    manager: Manager, settings: RaySettings | None = None, dashboard: Dashboard | None = None
) -> tuple[RayClusterController, RayJobController, RayServiceController]:
    """Register the three Ray operators."""
    chosen = settings or RaySettings()
    return (
        RayClusterController(manager, chosen),
        RayJobController(manager, chosen, dashboard),
        RayServiceController(manager, chosen, dashboard),
    )


def is_installed() -> bool:
    """Whether pods can really start Ray on this machine."""
    return find_spec("ray") is not None or which("ray") is not None


NOT_INSTALLED = (
    "Ray is not installed on this machine, so nothing of this would run: install it into Corral's environment (`pip install ray`) "
    "and start the cluster again, or choose stand-ins for Ray with `operators: {ray: false}` in fleet.yaml"
)


def chosen_settings(wanted: bool | None, installed: bool, *, real_pods: bool) -> RaySettings:
    """What the operators do by a cluster's choice (None: none was made) and by what its pods find."""
    if wanted is not None:
        return RaySettings(real=wanted)
    return RaySettings(real=installed, missing=NOT_INSTALLED if real_pods and not installed else "")


def operators(context: OperatorContext) -> None:
    settings = context.settings
    chosen = chosen_settings(settings.options.get("ray"), is_installed(), real_pods=settings.real_pods)
    ray_controllers(context.manager, chosen)
