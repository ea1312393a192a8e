"""The Ray operator: RayClusters, RayJobs that bring their own cluster, and RayServices that keep one alive."""

from __future__ import annotations

from corral.client.protocol import Client
from corral.core import conditions
from corral.core.errors import AlreadyExists, ApiError, NotFound
from corral.core.meta import (
    Key,
    Obj,
    controller_of,
    generation_of,
    is_deleting,
    is_owned_by,
    labels_of,
    name_of,
    namespace_of,
    owner_ref,
    spec_of,
    status_of,
    uid_of,
    with_status,
)
from corral.core.resource import Resource
from corral.core.timestamps import format_time
from corral.decide.apps.revision import template_hash
from corral.decide.jobs.raycluster import (
    CLUSTER,
    PORTS,
    RaySettings,
    is_cluster_ready,
    is_ours,
    plan_ray_cluster,
)
from corral.decide.jobs.rayjob import ORIGIN_KIND, ORIGIN_NAME, RayJobPlan, plan_ray_job
from corral.kinds.batch import JOBS
from corral.kinds.core import PODS, SERVICES
from corral.kinds.ray import GROUP, RAY_CLUSTERS, RAY_JOBS, RAY_SERVICES, cluster_errors
from corral.operators.children import slow_start
from corral.operators.expectations import Expectations
from corral.operators.replicaset import typed
from corral.runtime.clock import Clock
from corral.runtime.controller import Manager, Result, Watch, owner_key

MANAGER = "kuberay-operator"
SPEC_HASH = "ray.io/hash-without-replicas-and-workers-to-delete"


async def create_unless_held(client: Client, resource: Resource, body: Obj) -> None:
    """Make an object; one of that name may be there already."""
    try:
        await client.create(resource, body, manager=MANAGER)
    except AlreadyExists:
        return


async def delete_if_held(client: Client, resource: Resource, name: str, namespace: str) -> None:
    """Delete an object and what it owns; it may be gone already."""
    try:
        await client.delete(resource, name, namespace, propagation="Background")
    except NotFound:
        return


class RayClusterController:
    """Runs ray.io RayClusters."""

    name = "raycluster"

    def __init__(self, client: Client, clock: Clock, settings: RaySettings) -> None:
        self._client = client
        self._clock = clock
        self._settings = settings

    def setup(self, manager: Manager) -> None:
        self._clusters = manager.informer(RAY_CLUSTERS)
        self._pods = manager.informer(PODS)
        self._pods.add_index("controller-uid", lambda pod: [ref["uid"]] if (ref := controller_of(pod)) else [])
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
        if is_deleting(found) or not is_ours(found) or not self._expectations.met(key):
            return None
        cluster = typed(found, RAY_CLUSTERS.api_version, "RayCluster")
        errors = cluster_errors(spec_of(cluster))
        if errors:
            self._recorder.event(cluster, "Warning", "InvalidRayClusterSpec", str(errors[0]))
            return None
        pods = self._pods.by_index("controller-uid", uid_of(cluster))
        plan = plan_ray_cluster(cluster, pods, self._clock.now(), self._settings)
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


class RayJobController:
    """Runs ray.io RayJobs."""

    name = "rayjob"

    def __init__(self, client: Client, clock: Clock, settings: RaySettings) -> None:
        self._client = client
        self._clock = clock
        self._settings = settings

    def setup(self, manager: Manager) -> None:
        self._ray_jobs = manager.informer(RAY_JOBS)
        self._clusters = manager.informer(RAY_CLUSTERS)
        self._submitters = manager.informer(JOBS)
        self._random = manager.random.fork("rayjob-names")
        self._recorder = manager.recorder.named("rayjob-controller")
        owners = owner_key("RayJob", GROUP)
        watches = [Watch(RAY_JOBS), Watch(RAY_CLUSTERS, map=owners), Watch(JOBS, map=owners)]
        manager.add(self, watches=watches, workers=3)

    async def reconcile(self, key: Key) -> Result | None:
        found = self._ray_jobs.get(key)
        if found is None or is_deleting(found) or not is_ours(found):
            return None
        job = typed(found, RAY_JOBS.api_version, "RayJob")
        cluster = self._clusters.get(Key(key.namespace, str(status_of(job).get("rayClusterName") or "")))
        submitter = self._submitters.get(key)
        if submitter is not None and not is_owned_by(submitter, uid_of(job)):
            submitter = None
        plan = plan_ray_job(job, cluster, submitter, self._clock.now(), self._random.suffix, self._settings)
        for kind, reason, message in plan.events:
            self._recorder.event(job, kind, reason, message)
        await self._act(job, plan, cluster)
        if plan.status != status_of(job):
            changed = with_status(job, plan.status)
            await self._client.update(RAY_JOBS, changed, subresource="status", manager=MANAGER)
        return Result(plan.wait_s)

    async def _act(self, job: Obj, plan: RayJobPlan, cluster: Obj | None) -> None:
        namespace = namespace_of(job)
        if plan.delete_cluster and cluster is not None and not is_deleting(cluster):
            await delete_if_held(self._client, RAY_CLUSTERS, name_of(cluster), namespace)
        if plan.delete_submitter:
            await delete_if_held(self._client, JOBS, name_of(job), namespace)
        if plan.create_cluster is not None:
            await create_unless_held(self._client, RAY_CLUSTERS, plan.create_cluster)
            text = f"Created RayCluster {namespace}/{name_of(plan.create_cluster)}"
            self._recorder.event(job, "Normal", "CreatedRayCluster", text)
        if plan.create_submitter is not None:
            await create_unless_held(self._client, JOBS, plan.create_submitter)
            text = f"Created Kubernetes Job {namespace}/{name_of(plan.create_submitter)}"
            self._recorder.event(job, "Normal", "CreatedRayJobSubmitter", text)


class RayServiceController:
    """Keeps the RayCluster of a RayService alive and moves traffic to a new one when its spec changes."""

    name = "rayservice"

    def __init__(self, client: Client, clock: Clock, settings: RaySettings) -> None:
        self._client = client
        self._clock = clock
        self._settings = settings

    def setup(self, manager: Manager) -> None:
        self._ray_services = manager.informer(RAY_SERVICES)
        self._clusters = manager.informer(RAY_CLUSTERS)
        self._clusters.add_index("controller-uid", lambda obj: [ref["uid"]] if (ref := controller_of(obj)) else [])
        self._recorder = manager.recorder.named("rayservice-controller")
        watches = [Watch(RAY_SERVICES), Watch(RAY_CLUSTERS, map=owner_key("RayService", GROUP))]
        manager.add(self, watches=watches, workers=2)

    async def reconcile(self, key: Key) -> Result | None:
        found = self._ray_services.get(key)
        if found is None or is_deleting(found) or not is_ours(found):
            return None
        service = typed(found, RAY_SERVICES.api_version, "RayService")
        clusters = self._clusters.by_index("controller-uid", uid_of(service))
        if spec_of(service).get("suspend"):
            await self._suspend(service, clusters)
            return None
        wanted = _service_cluster(service)
        fresh = next((cluster for cluster in clusters if name_of(cluster) == name_of(wanted)), None)
        if fresh is None:
            await create_unless_held(self._client, RAY_CLUSTERS, wanted)
        active = fresh if is_cluster_ready(fresh) else _serving(service, clusters)
        if active is not None:
            for body in _traffic(service, name_of(active)):
                await self._route(body)
        if is_cluster_ready(fresh):
            for old in clusters:
                if name_of(old) != name_of(wanted) and not is_deleting(old):
                    await delete_if_held(self._client, RAY_CLUSTERS, name_of(old), key.namespace)
        await self._report(service, fresh, active)
        return None

    async def _suspend(self, service: Obj, clusters: list[Obj]) -> None:
        for cluster in clusters:
            if not is_deleting(cluster):
                await delete_if_held(self._client, RAY_CLUSTERS, name_of(cluster), namespace_of(service))
        values = [("Ready", False, "Suspended"), ("Suspending", bool(clusters), "SuspendInProgress")]
        values.append(("Suspended", not clusters, "SuspendComplete"))
        await self._write(service, {"observedGeneration": generation_of(service)}, values)

    async def _route(self, body: Obj) -> None:
        """Point a service at the active cluster."""
        try:
            held = await self._client.get(SERVICES, name_of(body), namespace_of(body))
        except NotFound:
            await create_unless_held(self._client, SERVICES, body)
            return
        if spec_of(held).get("selector") != spec_of(body)["selector"]:
            changed = {**held, "spec": {**spec_of(held), "selector": spec_of(body)["selector"]}}
            await self._client.update(SERVICES, changed, manager=MANAGER)

    async def _report(self, service: Obj, fresh: Obj | None, active: Obj | None) -> None:
        status: Obj = {"observedGeneration": generation_of(service)}
        if active is not None:
            status["activeServiceStatus"] = {
                "rayClusterName": name_of(active),
                "rayClusterStatus": status_of(active),
            }
            status["numServeEndpoints"] = 1
        pending = fresh is None or active is None or name_of(fresh) != name_of(active)
        if pending and fresh is not None:
            status["pendingServiceStatus"] = {"rayClusterName": name_of(fresh), "rayClusterStatus": status_of(fresh)}
        ready = active is not None and is_cluster_ready(active)
        status["serviceStatus"] = "Running" if ready else ""
        upgrading = pending and active is not None
        values = [
            ("Ready", ready, "NonZeroServeEndpoints" if ready else "Initializing"),
            ("UpgradeInProgress", upgrading, "BothActivePendingClustersExist" if upgrading else "NoPendingCluster"),
            ("Suspending", False, "Resumed"),
            ("Suspended", False, "Resumed"),
        ]
        await self._write(service, status, values)

    async def _write(self, service: Obj, status: Obj, values: list[tuple[str, bool, str]]) -> None:
        entries = list(status_of(service).get("conditions") or [])
        for kind, value, reason in values:
            if not value and kind not in ("Ready", "UpgradeInProgress") and conditions.find(entries, kind) is None:
                continue
            entry = conditions.condition(kind, value, reason, "", generation_of(service))
            entries = conditions.set_condition(entries, entry, format_time(self._clock.now()))
        status = {**status, "conditions": entries}
        if status != status_of(service):
            changed = with_status(service, status)
            await self._client.update(RAY_SERVICES, changed, subresource="status", manager=MANAGER)


def _service_cluster(service: Obj) -> Obj:
    """The RayCluster of the current spec; its name is bound to the spec, so that a new spec means a new cluster."""
    spec = spec_of(service).get("rayClusterConfig") or {}
    suffix = template_hash(_fixed_part(spec), length=5)
    strategy = (spec_of(service).get("upgradeStrategy") or {}).get("type")
    name = f"{name_of(service)[:45]}-{suffix}" if strategy != "None" else f"{name_of(service)[:45]}-cluster"
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "RayCluster",
        "metadata": {
            "name": name,
            "namespace": namespace_of(service),
            "labels": {ORIGIN_NAME: name_of(service), ORIGIN_KIND: "RayService"},
            "annotations": {SPEC_HASH: suffix},
            "ownerReferences": [owner_ref(service)],
        },
        "spec": spec,
    }


def _fixed_part(spec: Obj) -> Obj:
    """The spec without what may change in place: the number of workers."""
    groups = [
        {name: value for name, value in group.items() if name not in ("replicas", "scaleStrategy")}
        for group in spec.get("workerGroupSpecs") or ()
    ]
    return {**spec, "workerGroupSpecs": groups}


def _serving(service: Obj, clusters: list[Obj]) -> Obj | None:
    name = ((status_of(service).get("activeServiceStatus") or {}).get("rayClusterName")) or ""
    return next((cluster for cluster in clusters if name_of(cluster) == name), None)


def _traffic(service: Obj, cluster: str) -> list[Obj]:
    """The services clients talk to: the head's, and the one that serves."""
    head = {CLUSTER: cluster, "ray.io/node-type": "head"}
    everybody = {CLUSTER: cluster}
    excluded = bool(spec_of(service).get("excludeHeadPodFromServeSvc"))
    serving = {**everybody, "ray.io/node-type": "worker"} if excluded else everybody
    result = []
    for name, selector, ports in (
        (f"{name_of(service)}-head-svc", head, PORTS),
        (f"{name_of(service)}-serve-svc", serving, {"serve": PORTS["serve"]}),
    ):
        result.append(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {
                    "name": name,
                    "namespace": namespace_of(service),
                    "labels": {ORIGIN_NAME: name_of(service), ORIGIN_KIND: "RayService"},
                    "ownerReferences": [owner_ref(service)],
                },
                "spec": {
                    "selector": selector,
                    "ports": [{"name": key, "port": number} for key, number in ports.items()],
                },
            }
        )
    return result


def ray_controllers(
    client: Client, clock: Clock, settings: RaySettings | None = None
) -> tuple[RayClusterController, RayJobController, RayServiceController]:
    """The three Ray operators."""
    chosen = settings or RaySettings()
    return (
        RayClusterController(client, clock, chosen),
        RayJobController(client, clock, chosen),
        RayServiceController(client, clock, chosen),
    )
