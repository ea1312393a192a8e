"""The pods that stand for the queueing controllers, and who answers for the Services of their installation.

They run in the process of the API server, so no node has the pods of their Deployment. These are theirs to keep: while they
run, the pods of the restart that started them are shown running, with one container for the controllers, one for the metrics
they serve, and an address of its own. Pods of another restart, or of an earlier process, are not ready.
The EndpointSlices of the installation hold exactly the addresses of those that are ready.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from ipaddress import ip_address
from itertools import count

from corral.clusters.kueue_installation.objects import (
    DEPLOYMENT_NAME,
    POD_LABELS,
    SCHEDULER_NAME,
    endpoint_slices,
    restart_of,
)
from corral.core.conditions import is_true
from corral.core.errors import NotFound
from corral.core.meta import (
    Key,
    Obj,
    is_deleting,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
    with_metadata,
)
from corral.kinds.kubernetes.core.kinds import PODS, SERVICES
from corral.kinds.kubernetes.networking.endpoint_slices import ENDPOINT_SLICES
from corral.runtime.controller import Manager, Result, Watch
from corral.runtime.informer import Informer

INITIALIZED = ("Initialized", "PodScheduled")
READY = ("Ready", "ContainersReady")
API = Key("default", "kubernetes")


class OwnPods:
    """Shows the pods of the controllers' Deployment as running, and their addresses behind its Services."""

    name = "kueue-installation-pods"

    def __init__(self, manager: Manager, namespace: str, in_force: Callable[[], str | None]) -> None:
        """`in_force` is the restart whose controllers run now; None while none do."""
        self._in_force = in_force
        self._started: set[str] = set()
        self._key = Key(namespace, DEPLOYMENT_NAME)
        self._client, self._clock = manager.client, manager.clock
        self._pods = manager.informer(PODS)
        self._services = manager.informer(SERVICES)
        watches = [
            Watch(PODS, map=lambda pod: (self._key,) if is_own(pod, self._key.namespace) else ()),
            Watch(SERVICES, map=lambda service: (self._key,) if key_of(service) == API else ()),
        ]
        self._queue = manager.add(self, watches=watches).queue

    def wake(self) -> None:
        """The controllers have started or stopped."""
        self._queue.add(self._key)

    async def reconcile(self, key: Key) -> Result | None:
        pods = own_pods(self._pods, key.namespace)
        api = self._services.get(API)
        taken = {str(status_of(pod).get("podIP")) for pod in pods}
        ready = []
        self._started &= {uid_of(pod) for pod in pods}
        for pod in pods:
            status = {**status_of(pod), **self._shown(pod)}
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

    def _shown(self, pod: Obj) -> Obj:
        """What is to be written of a pod's state: nothing where that is said already."""
        now, said_ready = self._clock.timestamp(), is_true(pod, "Ready")
        if restart_of(pod) == self._in_force():
            is_started = uid_of(pod) in self._started
            self._started.add(uid_of(pod))
            return {} if said_ready and is_started else running_status(pod, now)
        self._started.discard(uid_of(pod))
        return waiting_status(pod, now) if said_ready or not status_of(pod).get("containerStatuses") else {}

    async def _write_slices(self, namespace: str, api: Obj, pods: Sequence[Obj]) -> None:
        for wanted in endpoint_slices(namespace, api, pods):
            try:
                held = await self._client.get(ENDPOINT_SLICES, name_of(wanted), namespace)
            except NotFound:
                await self._client.create(ENDPOINT_SLICES, wanted, manager=self.name)
                continue
            labels = {**labels_of(held), **labels_of(wanted)}
            if (held.get("endpoints") or []) != wanted["endpoints"] or labels != labels_of(held):
                changed = with_metadata({**held, "endpoints": wanted["endpoints"]}, labels=labels)
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


def running_status(pod: Obj, now: str) -> Obj:
    """What a pod whose work is done in this process says of itself from `now` on."""
    running = {"ready": True, "started": True, "state": {"running": {"startedAt": now}}}
    conditions = [_condition(type_, "True", now) for type_ in (*INITIALIZED, *READY)]
    containers = _containers(pod, running)
    return {"phase": "Running", "startTime": now, "conditions": conditions, "containerStatuses": containers}


def waiting_status(pod: Obj, now: str) -> Obj:
    """What a pod says of itself while nothing runs in this process that it stands for."""
    waiting = {"ready": False, "started": False, "state": {"waiting": {"reason": "ContainerCreating"}}}
    not_ready = [{**_condition(type_, "False", now), "reason": "ContainersNotReady"} for type_ in READY]
    conditions = [*(_condition(type_, "True", now) for type_ in INITIALIZED), *not_ready]
    phase = status_of(pod).get("phase") or "Pending"
    return {"phase": phase, "conditions": conditions, "containerStatuses": _containers(pod, waiting)}


def _condition(type_: str, status: str, now: str) -> Obj:
    return {"type": type_, "status": status, "lastTransitionTime": now}


def _containers(pod: Obj, state: Obj) -> list[Obj]:
    """The containers in a new state; one that was running until now has restarted by that."""
    held = {entry["name"]: entry for entry in status_of(pod).get("containerStatuses") or ()}
    found = []
    for container in spec_of(pod)["containers"]:
        old = held.get(container["name"]) or {}
        restarts = int(old.get("restartCount") or 0) + ("running" in (old.get("state") or {}))
        found.append(
            {"name": container["name"], "image": container["image"], "imageID": "", "restartCount": restarts, **state}
        )
    return found
