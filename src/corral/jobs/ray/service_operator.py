"""The RayService operator: keeps a cluster that serves, and moves traffic to a new one when its spec changes."""

from __future__ import annotations

from dataclasses import dataclass

import yaml

from corral.core import conditions, yaml_documents
from corral.core.errors import NotFound
from corral.core.meta import (
    Key,
    Obj,
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
from corral.core.timestamps import format_time
from corral.decide.apps.revision import template_hash
from corral.decide.pods.facts import is_ready
from corral.jobs.framework.child_objects import typed
from corral.jobs.framework.ownership import controlled_by, index_by_controller
from corral.jobs.ray.child_objects import MANAGER, create_unless_held, delete_if_held
from corral.jobs.ray.cluster_plan import CLUSTER, NODE_TYPE, PORTS, RaySettings, is_cluster_ready, is_managed_here
from corral.jobs.ray.dashboard import Dashboard, DashboardError, HttpDashboard, dashboard_of
from corral.jobs.ray.job_children import ORIGIN_KIND, ORIGIN_NAME
from corral.jobs.ray.kind import GROUP, RAY_CLUSTERS, RAY_SERVICES
from corral.kinds.kubernetes.core.kinds import PODS, SERVICES
from corral.runtime.controller import Manager, Result, Watch, owner_key

SPEC_HASH = "ray.io/hash-without-replicas-and-workers-to-delete"
SERVE_POLL_S = 2.0
_SCALED = ("replicas", "scaleStrategy")


class RayServiceController:
    """Keeps the RayCluster of a RayService alive, has it serve, and moves traffic to a new one when its spec changes."""

    name = "rayservice"

    def __init__(self, manager: Manager, settings: RaySettings, dashboard: Dashboard | None = None) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._settings = settings
        self._dashboard = dashboard or HttpDashboard()
        self._deployed: dict[str, str] = {}
        """Per cluster, by its uid, the configuration it was given last."""
        self._pods = manager.informer(PODS)
        index_by_controller(self._pods)
        self._ray_services = manager.informer(RAY_SERVICES)
        self._clusters = manager.informer(RAY_CLUSTERS)
        index_by_controller(self._clusters)
        self._recorder = manager.recorder.named("rayservice-controller")
        watches = [Watch(RAY_SERVICES), Watch(RAY_CLUSTERS, map=owner_key("RayService", GROUP))]
        manager.add(self, watches=watches, workers=2)

    async def reconcile(self, key: Key) -> Result | None:
        found = self._ray_services.get(key)
        if found is None or is_deleting(found) or not is_managed_here(found):
            return None
        service = typed(found, RAY_SERVICES.api_version, "RayService")
        clusters = controlled_by(self._clusters, service)
        # A queue suspends the cluster inside. Nothing of a suspended service may run, its former clusters included.
        if spec_of(service).get("suspend") or (spec_of(service).get("rayClusterConfig") or {}).get("suspend"):
            await self._suspend(service, clusters)
            return None
        wanted = _service_cluster(service)
        fresh = next((cluster for cluster in clusters if name_of(cluster) == name_of(wanted)), None)
        if fresh is None:
            await create_unless_held(self._client, RAY_CLUSTERS, wanted)
        else:
            await self._keep_up(fresh, wanted)
        serving = await self._serve(service, fresh)
        active = fresh if serving.ready else _serving(service, clusters)
        if active is not None:
            for body in _traffic(service, name_of(active)):
                await self._route(service, body)
        if serving.ready:
            for old in clusters:
                if name_of(old) != name_of(wanted) and not is_deleting(old):
                    await delete_if_held(self._client, RAY_CLUSTERS, name_of(old), key.namespace)
        await self._report(service, fresh, active, serving)
        return Result(SERVE_POLL_S) if self._settings.real else None

    async def _serve(self, service: Obj, cluster: Obj | None) -> ServeState:
        """Have a cluster serve what the RayService says; ready once all of its applications run.

        Where Ray is not installed nothing can be served, and a cluster is as ready as its pods.
        """
        if cluster is None or not is_cluster_ready(cluster):
            return ServeState()
        if not self._settings.real:
            return ServeState(ready=True)
        heads = controlled_by(self._pods, cluster)
        address = dashboard_of(next((pod for pod in heads if labels_of(pod).get(NODE_TYPE) == "head"), None))
        config = str(spec_of(service).get("serveConfigV2") or "")
        try:
            if self._deployed.get(uid_of(cluster)) != config:
                await self._dashboard.deploy(address, yaml_documents.load(config) or {})
                self._deployed[uid_of(cluster)] = config
                text = f"Updated serve applications to the RayCluster {namespace_of(cluster)}/{name_of(cluster)}"
                self._recorder.event(service, "Normal", "UpdatedServeApplications", text)
            found = await self._dashboard.applications(address)
        except (DashboardError, yaml.YAMLError, ValueError) as error:
            text = f"Failed to update serve applications to the RayCluster {name_of(cluster)}: {error}"
            self._recorder.event(service, "Warning", "FailedToUpdateServeApplications", text)
            return ServeState(ready=_was_serving(service, cluster))
        statuses = {name or "default": application_status(entry) for name, entry in sorted(found.items())}
        ready = bool(statuses) and all(entry["status"] == "RUNNING" for entry in statuses.values())
        return ServeState(ready or _was_serving(service, cluster), statuses)

    async def _keep_up(self, cluster: Obj, wanted: Obj) -> None:
        """Bring a cluster to what may change in place; how many workers there are is an autoscaler's, where there is one."""
        spec = dict(spec_of(wanted))
        if spec.get("enableInTreeAutoscaling"):
            held = {group.get("groupName"): group for group in spec_of(cluster).get("workerGroupSpecs") or ()}
            spec["workerGroupSpecs"] = [
                {
                    **group,
                    **{name: value for name, value in held.get(group.get("groupName"), {}).items() if name in _SCALED},
                }
                for group in spec.get("workerGroupSpecs") or ()
            ]
        if spec != spec_of(cluster) and not is_deleting(cluster):
            await self._client.update(RAY_CLUSTERS, {**cluster, "spec": spec}, manager=MANAGER)

    async def _suspend(self, service: Obj, clusters: list[Obj]) -> None:
        for cluster in clusters:
            if not is_deleting(cluster):
                await delete_if_held(self._client, RAY_CLUSTERS, name_of(cluster), namespace_of(service))
        values = [("Ready", False, "Suspended"), ("Suspending", bool(clusters), "SuspendInProgress")]
        values.append(("Suspended", not clusters, "SuspendComplete"))
        await self._write(service, {"observedGeneration": generation_of(service)}, values)

    async def _route(self, service: Obj, body: Obj) -> None:
        """Point a service at the active cluster. Who may create one of that name can be there first: it is left as it is."""
        try:
            held = await self._client.get(SERVICES, name_of(body), namespace_of(body))
        except NotFound:
            await create_unless_held(self._client, SERVICES, body)
            return
        if not is_owned_by(held, uid_of(service)):
            text = f'Service "{name_of(held)}" already exists and belongs to somebody else'
            self._recorder.event(service, "Warning", "FailedToCreateService", text)
        elif spec_of(held).get("selector") != spec_of(body)["selector"]:
            changed = {**held, "spec": {**spec_of(held), "selector": spec_of(body)["selector"]}}
            await self._client.update(SERVICES, changed, manager=MANAGER)

    def _endpoints(self, service: Obj, active: Obj | None) -> int:
        """How many pods take requests."""
        if active is None:
            return 0
        excluded = bool(spec_of(service).get("excludeHeadPodFromServeSvc"))
        pods = controlled_by(self._pods, active)
        return sum(is_ready(pod) and not (excluded and labels_of(pod).get(NODE_TYPE) == "head") for pod in pods)

    async def _report(self, service: Obj, fresh: Obj | None, active: Obj | None, serving: ServeState) -> None:
        old = status_of(service)
        status: Obj = {"observedGeneration": generation_of(service)}
        pending = fresh is None or active is None or name_of(fresh) != name_of(active)
        for cluster, place in ((active, "activeServiceStatus"), (fresh if pending else None, "pendingServiceStatus")):
            if cluster is not None:
                status[place] = {"rayClusterName": name_of(cluster), "rayClusterStatus": status_of(cluster)}
                known = serving.applications if cluster is fresh else None
                if known is None:
                    held = old.get(place) or {}
                    known = held.get("applicationStatuses") if held.get("rayClusterName") == name_of(cluster) else None
                if known:
                    status[place]["applicationStatuses"] = known
        endpoints = self._endpoints(service, active)
        status["numServeEndpoints"] = endpoints
        ready = active is not None and endpoints > 0
        status["serviceStatus"] = "Running" if ready else ""
        upgrading = pending and active is not None
        was_ready = conditions.is_true(service, "Ready") or _reason(service, "Ready") == "ZeroServeEndpoints"
        values = [
            (
                "Ready",
                ready,
                "NonZeroServeEndpoints" if ready else "ZeroServeEndpoints" if was_ready else "Initializing",
            ),
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


@dataclass(frozen=True, slots=True)
class ServeState:
    """What a cluster serves."""

    ready: bool = False
    """It takes the traffic."""
    applications: dict[str, Obj] | None = None
    """Status by name; None when it is not known now."""


def application_status(entry: Obj) -> Obj:
    deployments = {
        name: {"status": item.get("status", ""), "message": item.get("message", "")}
        for name, item in sorted((entry.get("deployments") or {}).items())
    }
    return {
        "status": entry.get("status", ""),
        "message": entry.get("message", ""),
        **({"deployments": deployments} if deployments else {}),
    }


def _was_serving(service: Obj, cluster: Obj) -> bool:
    """A cluster that has the traffic keeps it while there is no better one."""
    return bool((status_of(service).get("activeServiceStatus") or {}).get("rayClusterName") == name_of(cluster))


def _reason(service: Obj, kind: str) -> str:
    return str((conditions.find(service, kind) or {}).get("reason") or "")


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
    """The spec without what may change in place: the number of workers, and what a queue adds to the pods."""
    groups = [
        {**_without(group, ("replicas", "minReplicas", "maxReplicas", "scaleStrategy")), "template": _unqueued(group)}
        for group in spec.get("workerGroupSpecs") or ()
    ]
    head = spec.get("headGroupSpec") or {}
    rest = _without(spec, ("suspend", "upgradeStrategy"))
    return {**rest, "headGroupSpec": {**head, "template": _unqueued(head)}, "workerGroupSpecs": groups}


def _unqueued(group: Obj) -> Obj:
    template = group.get("template") or {}
    return {**template, "spec": _without(template.get("spec") or {}, ("tolerations", "schedulingGates"))}


def _without(obj: Obj, names: tuple[str, ...]) -> Obj:
    return {name: value for name, value in obj.items() if name not in names}


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
