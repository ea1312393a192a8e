"""The endpoints operator: keeps EndpointSlices and Endpoints in step with a Service's pods."""

from __future__ import annotations

from itertools import zip_longest

from corral.core.errors import AlreadyExists, NotFound
from corral.core.meta import Key, Obj, labels_of, metadata_of, name_of, namespace_of, spec_of
from corral.core.selectors import from_labels
from corral.decide.apps.endpoints import CONTROLLER, MANAGED_BY, SERVICE_NAME, wanted_endpoints, wanted_slices
from corral.jobs.framework.child_objects import MANAGER, typed
from corral.kinds.kubernetes.core.kinds import ENDPOINTS, PODS, SERVICES
from corral.kinds.kubernetes.networking.endpoint_slices import ENDPOINT_SLICES
from corral.runtime.controller import Manager, Result, Watch

BATCH_S = 0.1


def _slice_owner(piece: Obj) -> list[Key]:
    labels = labels_of(piece)
    if labels.get(MANAGED_BY) != CONTROLLER or SERVICE_NAME not in labels:
        return []
    return [Key(namespace_of(piece), labels[SERVICE_NAME])]


class EndpointsController:
    """Publishes who answers for each Service that selects pods."""

    name = "endpoints"

    def __init__(self, manager: Manager) -> None:
        self._client = manager.client
        self._clock = manager.clock
        self._services = manager.informer(SERVICES)
        self._services.add_index("namespace", lambda service: [namespace_of(service)])
        self._pods = manager.informer(PODS)
        self._pods.add_index("namespace", lambda pod: [namespace_of(pod)])
        self._slices = manager.informer(ENDPOINT_SLICES)
        self._slices.add_index("service", lambda piece: map(str, _slice_owner(piece)))
        self._endpoints = manager.informer(ENDPOINTS)
        watches = [
            Watch(SERVICES),
            # A rollout changes many pods at once; a little patience saves looking at all of them for each.
            Watch(PODS, map=self._services_of, when=_matters, delay=BATCH_S),
            Watch(ENDPOINT_SLICES, map=_slice_owner, when=lambda old, new: old is not None),
            Watch(ENDPOINTS, when=lambda old, new: old is not None),
        ]
        manager.add(self, watches=watches, workers=2)

    def _services_of(self, pod: Obj) -> list[Key]:
        labels = labels_of(pod)
        found = self._services.by_index("namespace", namespace_of(pod))
        return [Key(namespace_of(pod), name_of(service)) for service in found if _selects(service, labels)]

    async def reconcile(self, key: Key) -> Result | None:
        service = self._services.get(key)
        if service is None:
            await self._forget(key)
            return None
        selector = spec_of(service).get("selector")
        if not selector or spec_of(service).get("type") == "ExternalName":
            return None
        chosen = from_labels(selector)
        pods = [pod for pod in self._pods.by_index("namespace", key.namespace) if chosen.matches(labels_of(pod))]
        service = typed(service, "v1", "Service")
        await self._write_slices(key, wanted_slices(service, pods))
        await self._write_endpoints(key, wanted_endpoints(service, pods))
        return None

    async def _write_slices(self, key: Key, wanted: list[Obj]) -> None:
        held = self._slices.by_index("service", str(key))
        for piece, old in zip_longest(wanted, held):
            if piece is None:
                await self._client.delete(ENDPOINT_SLICES, name_of(old), key.namespace)
            elif old is None:
                await self._client.create(ENDPOINT_SLICES, piece, manager=MANAGER)
            elif any(piece[field] != (old.get(field) or []) for field in ("endpoints", "ports")):
                changed = {**old, "endpoints": piece["endpoints"], "ports": piece["ports"]}
                await self._client.update(ENDPOINT_SLICES, changed, manager=MANAGER)

    async def _write_endpoints(self, key: Key, wanted: Obj) -> None:
        held = self._endpoints.get(key)
        if held is None:
            try:
                await self._client.create(ENDPOINTS, wanted, manager=MANAGER)
            except AlreadyExists:
                return
        elif (held.get("subsets") or []) != (wanted.get("subsets") or []):
            metadata = {**metadata_of(held), "labels": metadata_of(wanted)["labels"]}
            await self._client.update(ENDPOINTS, {**wanted, "metadata": metadata}, manager=MANAGER)

    async def _forget(self, key: Key) -> None:
        for piece in self._slices.by_index("service", str(key)):
            try:
                await self._client.delete(ENDPOINT_SLICES, name_of(piece), key.namespace)
            except NotFound:
                continue
        if self._endpoints.get(key) is not None:
            try:
                await self._client.delete(ENDPOINTS, key.name, key.namespace)
            except NotFound:
                return


def _selects(service: Obj, labels: dict[str, str]) -> bool:
    selector: dict[str, str] = spec_of(service).get("selector") or {}
    return bool(selector) and selector.items() <= labels.items()


def _matters(old: Obj | None, new: Obj | None) -> bool:
    """Changes of a pod that its Services can see."""
    if old is None or new is None:
        return True
    return _facts(old) != _facts(new)


def _facts(pod: Obj) -> tuple[object, ...]:
    status = pod.get("status") or {}
    ready = [entry.get("status") for entry in status.get("conditions") or () if entry.get("type") == "Ready"]
    return (
        status.get("podIP"),
        status.get("phase"),
        ready,
        labels_of(pod),
        metadata_of(pod).get("deletionTimestamp"),
        spec_of(pod).get("nodeName"),
    )
