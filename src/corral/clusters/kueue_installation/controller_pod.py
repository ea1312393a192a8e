"""The pods that stand for the queueing controllers, and who answers for the Services of their installation.

They run in the process of the API server, so no node has the pods of their Deployment. These are theirs to keep: while they
run each is shown running, with one container for the controllers, one for the metrics they serve, and an address of its own.
The EndpointSlices of the installation hold exactly the addresses of those that are ready.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from ipaddress import ip_address
from itertools import count

from corral.clusters.kueue_installation.objects import DEPLOYMENT_NAME, POD_LABELS, SCHEDULER_NAME, endpoint_slices
from corral.core.conditions import is_true
from corral.core.errors import NotFound
from corral.core.meta import Key, Obj, is_deleting, key_of, labels_of, name_of, namespace_of, spec_of, status_of
from corral.kinds.kubernetes.core.kinds import PODS, SERVICES
from corral.kinds.kubernetes.networking.endpoint_slices import ENDPOINT_SLICES
from corral.runtime.controller import Manager, Result, Watch
from corral.runtime.informer import Informer

READY = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
API = Key("default", "kubernetes")


class OwnPods:
    """Shows the pods of the controllers' Deployment as running, and their addresses behind its Services."""

    name = "kueue-installation-pods"

    def __init__(self, manager: Manager, namespace: str) -> None:
        self._key = Key(namespace, DEPLOYMENT_NAME)
        self._client, self._clock = manager.client, manager.clock
        self._pods = manager.informer(PODS)
        self._services = manager.informer(SERVICES)
        watches = [
            Watch(PODS, map=lambda pod: (self._key,) if is_own(pod, self._key.namespace) else ()),
            Watch(SERVICES, map=lambda service: (self._key,) if key_of(service) == API else ()),
        ]
        manager.add(self, watches=watches)

    async def reconcile(self, key: Key) -> Result | None:
        pods = own_pods(self._pods, key.namespace)
        api = self._services.get(API)
        taken = {str(status_of(pod).get("podIP")) for pod in pods}
        ready = []
        for pod in pods:
            status = dict(status_of(pod))
            if status.get("phase") != "Running":
                status |= _running(pod, self._clock.timestamp())
            if api is not None and not status.get("podIP"):
                status |= _addresses(str(spec_of(api)["clusterIP"]), taken)
                taken.add(status["podIP"])
            if status != status_of(pod):
                new = {**pod, "status": status}
                await self._client.update(PODS, new, subresource="status", manager=self.name)
            if is_true({"status": status}, "Ready"):
                ready.append({**pod, "status": status})
        if api is not None:
            await self._write_slices(key.namespace, api, ready)
        return None

    async def _write_slices(self, namespace: str, api: Obj, pods: Sequence[Obj]) -> None:
        for wanted in endpoint_slices(namespace, api, pods):
            try:
                held = await self._client.get(ENDPOINT_SLICES, name_of(wanted), namespace)
            except NotFound:
                await self._client.create(ENDPOINT_SLICES, wanted, manager=self.name)
                continue
            if (held.get("endpoints") or []) != wanted["endpoints"]:
                changed = {**held, "endpoints": wanted["endpoints"]}
                await self._client.update(ENDPOINT_SLICES, changed, manager=self.name)


def is_own(pod: Obj, namespace: str) -> bool:
    """Whether a pod stands for the queueing controllers."""
    in_process = spec_of(pod).get("schedulerName") == SCHEDULER_NAME and namespace_of(pod) == namespace
    return in_process and POD_LABELS.items() <= labels_of(pod).items()


def own_pods(pods: Informer, namespace: str) -> list[Obj]:
    """The pods that stand for the controllers and are not leaving, oldest first."""
    found = [pod for pod in pods.list(namespace) if is_own(pod, namespace) and not is_deleting(pod)]
    return sorted(found, key=lambda pod: (pod["metadata"]["creationTimestamp"], name_of(pod)))


def _addresses(host: str, taken: Collection[str]) -> Obj:
    """The pod is in the API server's process, so its host is that; its address the first free one from there on.

    Services are given theirs far above, so these stay free.
    """
    first = ip_address(host)
    address = next(str(first + offset) for offset in count() if str(first + offset) not in taken)
    return {"hostIP": host, "hostIPs": [{"ip": host}], "podIP": address, "podIPs": [{"ip": address}]}


def _running(pod: Obj, now: str) -> Obj:
    containers = [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": True,
            "started": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": now}},
        }
        for container in spec_of(pod)["containers"]
    ]
    conditions = [{"type": type_, "status": "True", "lastTransitionTime": now} for type_ in READY]
    return {"phase": "Running", "startTime": now, "conditions": conditions, "containerStatuses": containers}
