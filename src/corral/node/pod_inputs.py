"""What pods need from their cluster: ConfigMaps and Secrets they refer to, tokens, and the names of everybody else."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping

from corral.client.protocol import Client
from corral.core.errors import ApiError, NotFound
from corral.core.meta import Key, Obj, key_of, labels_of, name_of, namespace_of, spec_of, status_of, uid_of
from corral.core.resource import Resource
from corral.decide.apps.endpoints import CONTROLLER, MANAGED_BY, SERVICE_NAME
from corral.decide.pods.record import all_containers
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, ENDPOINTS, PODS, SECRETS, SERVICE_ACCOUNTS, SERVICES
from corral.kinds.kubernetes.networking.endpoint_slices import ENDPOINT_SLICES
from corral.node import endpoints, names
from corral.node.environment import MissingError, Sources
from corral.node.services import ServiceProxy
from corral.runtime.controller import Manager
from corral.runtime.informer import Informer

NAMES_DELAY_S = 0.05


class ClusterPodInputs:
    """Reads from the API; keeps the table of names current and says when it has changed."""

    def __init__(self, manager: Manager) -> None:
        self._client: Client = manager.client
        self._services: Informer = manager.informer(SERVICES)
        self._pods: Informer = manager.informer(PODS)
        self._pods.add_index("label", _label_pairs)
        self._services.add_index("namespace", lambda service: (namespace_of(service),))
        self._endpoints: Informer = manager.informer(ENDPOINTS)
        self._slices: Informer = manager.informer(ENDPOINT_SLICES)
        self._slices.add_index("written for", _written_for)
        self._services.on_change(self._service_changed)
        self._endpoints.on_change(self._endpoints_changed)
        self._slices.on_change(self._slice_changed)
        self._pods.on_change(self._pod_changed)
        self._timer: asyncio.TimerHandle | None = None
        self._records: list[names.Record] | None = None
        self._texts: dict[str, str] = {}
        self.on_names: Callable[[], None] = lambda: None
        self._proxy: ServiceProxy | None = None
        self._due = asyncio.Event()
        manager.run_task(self._follow_services, "service proxy")

    # Objects

    async def sources(self, pod: Obj) -> Sources:
        config_maps, secrets = referenced(pod)
        namespace = namespace_of(pod)
        return Sources(
            await self._fetch(CONFIG_MAPS, namespace, config_maps),
            await self._fetch(SECRETS, namespace, secrets),
            [self._reachable(service) for service in self._services.list(namespace)],
        )

    def _reachable(self, service: Obj) -> Obj:
        """The Service with the address at which pods can really reach it."""
        address = self._answered(service)
        return {**service, "spec": {**spec_of(service), "clusterIP": address}} if address else service

    async def _fetch(self, resource: Resource, namespace: str, wanted: list[str]) -> dict[str, Obj]:
        found: dict[str, Obj] = {}
        for name in wanted:
            try:
                found[name] = await self._client.get(resource, name, namespace)
            except NotFound:
                pass  # whether that matters depends on who asks for it
        return found

    async def token(self, pod: Obj, projection: Obj) -> str:
        account = str(spec_of(pod).get("serviceAccountName") or "default")
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": [projection["audience"]] if projection.get("audience") else [],
                "expirationSeconds": projection.get("expirationSeconds") or 3600,
                "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": name_of(pod), "uid": uid_of(pod)},
            },
        }
        try:
            reply = await self._client.create_subresource(SERVICE_ACCOUNTS, account, namespace_of(pod), "token", body)
        except ApiError as error:
            raise MissingError(f"failed to fetch token: {error.message}") from error
        return str(status_of(reply).get("token") or "")

    # Services

    def serve(self, network: str, api: tuple[str, int] | None) -> None:
        """Answer for Services at addresses of `network`; `api` is where the API server is."""
        self._proxy = ServiceProxy(network, api, self.pods_of, self.slices_of, self._changed)
        self._due.set()

    async def _follow_services(self) -> None:
        try:
            while True:
                await self._due.wait()
                self._due.clear()
                if self._proxy is not None:
                    await self._proxy.follow(self._services.list())
        finally:
            if self._proxy is not None:
                await self._proxy.close()

    def _answered(self, service: Obj) -> str:
        return self._proxy.address_of(service) if self._proxy is not None else ""

    # Names

    def hosts(self, namespace: str) -> str:
        text = self._texts.get(namespace)
        if text is None:
            text = self._texts[namespace] = names.hosts_text(self._all(), namespace)
        return text

    def lookup(self, namespace: str) -> Mapping[str, str]:
        return names.lookup_table(self._all(), namespace)

    def services_of(self, pod: Obj) -> list[Obj]:
        """The Services that select a pod."""
        return [service for service in self._services.list(namespace_of(pod)) if names.selects(service, pod)]

    def pods_of(self, service: Obj) -> list[Obj]:
        """The pods a Service selects, by way of one of its labels."""
        selector = spec_of(service).get("selector") or {}
        if not selector:
            return []
        key = min(selector)
        pods = self._pods.by_index("label", f"{namespace_of(service)}/{key}={selector[key]}")
        return [pod for pod in pods if names.selects(service, pod)]

    def slices_of(self, service: Obj) -> list[Obj]:
        """The endpoints written for a Service that selects no pods."""
        if not endpoints.is_written_by_hand(service):
            return []
        held = self._endpoints.get(key_of(service))
        return self._slices.by_index("written for", str(key_of(service))) or list(endpoints.as_slices(held or {}))

    def _all(self) -> list[names.Record]:
        if self._records is None:
            self._records = self._current()
        return self._records

    def _current(self) -> list[names.Record]:
        return names.records(self._services.list(), self.pods_of, self._answered, self._written)

    def _written(self, service: Obj) -> list[str]:
        return endpoints.addresses(self.slices_of(service))

    def _pod_changed(self, old: Obj | None, new: Obj | None) -> None:
        if old is not None and new is not None and _face(old) == _face(new):
            return
        pod = new or old or {}
        if any(names.selects(service, pod) for service in self._services.by_index("namespace", namespace_of(pod))):
            self._changed()

    def _service_changed(self, old: Obj | None, new: Obj | None) -> None:
        self._due.set()
        self._changed()

    def _slice_changed(self, old: Obj | None, new: Obj | None) -> None:
        if any(True for piece in (old, new) if piece is not None for _ in _written_for(piece)):
            self._service_changed(old, new)

    def _endpoints_changed(self, old: Obj | None, new: Obj | None) -> None:
        service = self._services.get(key_of(new or old or {}))
        if service is not None and endpoints.is_written_by_hand(service):
            self._service_changed(old, new)

    def _changed(self) -> None:
        if self._timer is None:
            # Together: a job of a hundred pods changes its names a hundred times within moments.
            self._timer = asyncio.get_running_loop().call_later(NAMES_DELAY_S, self._announce)

    def _announce(self) -> None:
        self._timer = None
        records = self._current()
        if records != self._records:
            self._records = records
            self._texts.clear()
            self.on_names()


def _label_pairs(pod: Obj) -> Iterator[str]:
    namespace = namespace_of(pod)
    return (f"{namespace}/{key}={value}" for key, value in labels_of(pod).items())


def _written_for(piece: Obj) -> Iterator[str]:
    """The Service an EndpointSlice is for, unless the slice follows the pods of one."""
    labels = labels_of(piece)
    if SERVICE_NAME in labels and labels.get(MANAGED_BY) != CONTROLLER:
        yield str(Key(namespace_of(piece), labels[SERVICE_NAME]))


def _face(pod: Obj) -> tuple[object, ...]:
    """What others can see of a pod by its name."""
    status = status_of(pod)
    ready = next((entry.get("status") for entry in status.get("conditions") or () if entry.get("type") == "Ready"), "")
    return status.get("podIP"), status.get("phase"), ready, labels_of(pod)


def referenced(pod: Obj) -> tuple[list[str], list[str]]:
    """The names of the ConfigMaps and Secrets a pod refers to."""
    config_maps: dict[str, None] = {}
    secrets: dict[str, None] = {}
    for container in all_containers(pod):
        for source in container.get("envFrom") or ():
            _note(source.get("configMapRef"), config_maps)
            _note(source.get("secretRef"), secrets)
        for entry in container.get("env") or ():
            source = entry.get("valueFrom") or {}
            _note(source.get("configMapKeyRef"), config_maps)
            _note(source.get("secretKeyRef"), secrets)
    for volume in spec_of(pod).get("volumes") or ():
        _note(volume.get("configMap"), config_maps)
        if secret := volume.get("secret"):
            secrets[secret["secretName"]] = None
        for part in (volume.get("projected") or {}).get("sources") or ():
            _note(part.get("configMap"), config_maps)
            _note(part.get("secret"), secrets)
    return list(config_maps), list(secrets)


def _note(reference: Obj | None, into: dict[str, None]) -> None:
    if reference and reference.get("name"):
        into[reference["name"]] = None
