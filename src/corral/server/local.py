"""The client of an API in the same process: the verbs of `client.protocol.Client` as plain calls, no HTTP, no copies.

Returned objects are the store's own and shared by everybody who reads them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from corral.client.protocol import ObjectList, Patch, PatchKind, Propagation, WatchEvent
from corral.core.admission import SERVER, UserInfo
from corral.core.errors import ApiError, ServiceUnavailable
from corral.core.meta import Obj, name_of, namespace_of
from corral.core.resource import Resource
from corral.core.selectors import FieldSelector, Selector, parse_field_selector, parse_label_selector
from corral.core.streams import LogOptions, PodStreams
from corral.kinds.kubernetes.core.kinds import PODS
from corral.server.access.permissions import Permissions
from corral.server.api import Api
from corral.server.content.discovery import Discovery
from corral.server.non_resource_paths import version
from corral.server.verbs.options import DeleteOptions, ListOptions, WatchOptions, WriteOptions

DEFAULT_MANAGER = "corral"


class LocalClient:
    """A `Client` on an Api of this process, as `user`; with `permissions` it may do what those allow, without them anything."""

    def __init__(
        self,
        api: Api,
        user: UserInfo = SERVER,
        *,
        permissions: Permissions | None = None,
        streams: PodStreams | None = None,
        now: Callable[[], float] | None = None,
    ) -> None:
        self._api = api
        self._user = user
        self._permissions = permissions
        self._streams = streams
        self._now = now or api.clock.now

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Obj:
        self._require("get", resource, namespace, name)
        return (await self._api.get(self._user, resource, namespace, name)).obj

    @property
    def streams_lists(self) -> bool:
        """Never: a list costs no more than its objects here."""
        return False

    async def list(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        limit: int = 0,
        continue_token: str = "",
        resource_version: str = "",
    ) -> ObjectList:
        self._require("list", resource, namespace, _only_name(fields))
        options = ListOptions(
            namespace,
            _labels(labels),
            _fields(fields),
            limit=limit,
            continue_token=continue_token,
            resource_version=resource_version,
        )
        listing = await self._api.list(self._user, resource, options)
        return ObjectList([item.obj for item in listing.items], listing.resource_version, listing.continue_token)

    async def watch(
        self,
        resource: Resource,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        resource_version: str = "",
        timeout: float | None = None,
        initial: bool = False,
    ) -> AsyncIterator[WatchEvent]:
        self._require("watch", resource, namespace, _only_name(fields))
        options = WatchOptions(
            namespace,
            _labels(labels),
            _fields(fields),
            resource_version=resource_version,
            timeout=timeout,
            bookmarks=initial,
            send_initial_events=initial or None,
            resource_version_match="NotOlderThan" if initial else "",
        )
        watch = self._api.watch(self._user, resource, options)
        try:
            async for batch in watch:
                for event in batch:
                    yield WatchEvent(event.type, event.stored.obj)
        finally:
            watch.close()

    async def create(self, resource: Resource, obj: Obj, *, manager: str = "", dry_run: bool = False) -> Obj:
        self._require("create", resource, namespace_of(obj))
        options = WriteOptions(dry_run=dry_run, manager=manager or DEFAULT_MANAGER)
        return (await self._api.create(self._user, resource, namespace_of(obj), obj, options)).obj

    async def update(self, resource: Resource, obj: Obj, *, subresource: str = "", manager: str = "") -> Obj:
        self._require("update", resource, namespace_of(obj), name_of(obj), subresource)
        options = WriteOptions(manager=manager or DEFAULT_MANAGER)
        stored, _ = await self._api.update(
            self._user, resource, namespace_of(obj), name_of(obj), obj, options, subresource
        )
        return stored.obj

    async def patch(
        self,
        resource: Resource,
        name: str,
        namespace: str,
        patch: Patch,
        *,
        kind: PatchKind = "merge",
        subresource: str = "",
        manager: str = "",
    ) -> Obj:
        self._require("patch", resource, namespace, name, subresource)
        options = WriteOptions(manager=manager or DEFAULT_MANAGER)
        stored, _ = await self._api.patch(self._user, resource, namespace, name, kind, patch, options, subresource)
        return stored.obj

    async def apply(
        self,
        resource: Resource,
        obj: Obj,
        *,
        manager: str,
        force: bool = True,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Obj:
        self._require("patch", resource, namespace_of(obj), name_of(obj), subresource)
        options = WriteOptions(dry_run=dry_run, manager=manager, force=force)
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        stored, _ = await self._api.patch(
            self._user, resource, namespace_of(obj), name_of(obj), "apply", body, options, subresource
        )
        return stored.obj

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        propagation: Propagation | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        grace: int | None = None,
    ) -> None:
        self._require("delete", resource, namespace, name)
        options = DeleteOptions(grace=grace, propagation=propagation, uid=uid, resource_version=resource_version)
        await self._api.delete(self._user, resource, namespace, name, options)

    async def delete_collection(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> None:
        self._require("deletecollection", resource, namespace, _only_name(fields))
        options = ListOptions(namespace, _labels(labels), _fields(fields))
        await self._api.delete_collection(self._user, resource, options)

    async def get_subresource(self, resource: Resource, name: str, namespace: str, subresource: str) -> Obj:
        self._require("get", resource, namespace, name, subresource)
        return (await self._api.get(self._user, resource, namespace, name, subresource=subresource)).obj

    async def create_subresource(
        self, resource: Resource, name: str, namespace: str, subresource: str, body: Obj
    ) -> Obj:
        self._require("create", resource, namespace, name, subresource)
        options = WriteOptions(manager=DEFAULT_MANAGER)
        return await self._api.post(self._user, resource, namespace, name, subresource, body, options)

    async def logs(
        self,
        name: str,
        namespace: str,
        *,
        container: str = "",
        follow: bool = False,
        previous: bool = False,
        timestamps: bool = False,
        tail_lines: int | None = None,
        since_seconds: int | None = None,
    ) -> AsyncIterator[bytes]:
        if self._streams is None:
            raise ServiceUnavailable("this cluster runs no pods, so there are no logs")
        self._require("get", PODS, namespace, name, "log")
        pod = await self.get(PODS, name, namespace)
        since = None if since_seconds is None else self._now() - since_seconds
        options = LogOptions(follow, previous, timestamps, tail_lines, since)
        async for chunk in self._streams.logs(pod, container, options):
            yield chunk

    async def raw(self, method: str, path: str, body: Obj | None = None) -> Obj:
        if method == "GET" and path == "/version":
            return version()
        if method == "GET" and path.startswith(("/api/", "/apis")):
            document = Discovery(self._api.registry, (), "").document(path)
            if document is not None:
                return document
        raise ApiError(f"{method} {path} is only served over HTTP", code=404, reason="NotFound")

    def _require(
        self, verb: str, resource: Resource, namespace: str = "", name: str = "", subresource: str = ""
    ) -> None:
        if self._permissions is not None:
            self._permissions.require(verb, resource, namespace, name, subresource)

    async def close(self) -> None:
        """Nothing is held open."""


def _labels(text: str) -> Selector | None:
    return parse_label_selector(text) if text else None


def _fields(text: str) -> FieldSelector | None:
    return parse_field_selector(text) if text else None


def _only_name(fields: str) -> str:
    """The one object that is selected: whoever may read that by its name may list it."""
    selected = _fields(fields)
    return (selected.exact("metadata.name") or "") if selected is not None else ""
