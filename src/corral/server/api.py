"""The Kubernetes API of one cluster, minus HTTP: every verb on every kind, from a user to the store and back.

    api = Api(Store(now=clock.now), builtin_registry(), clock=clock, random=random, plugins=[...])
    stored = await api.create(user, CONFIG_MAPS, "default", {"metadata": {"name": "a"}, "data": {"k": "v"}})

The caller is already known and allowed: authentication and authorization belong to HTTP. Objects passed in are copied
where they are kept; objects handed out are shared and must not be mutated. Every refusal is a `core.errors.ApiError`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from corral.core import errors
from corral.core.admission import AdmissionPlugin, UserInfo
from corral.core.errors import MethodNotAllowed, NotFound
from corral.core.meta import Key, Obj
from corral.core.resource import Resource
from corral.kinds.machinery.definition import SUBRESOURCE_VERBS
from corral.kinds.machinery.registry import Registry
from corral.runtime.aside import Aside
from corral.server.admission.builtin import builtin_plugins, final_plugins
from corral.server.admission.chain import Chain
from corral.server.pods.binding_and_eviction import PodPosts
from corral.server.served_resources import Served, ServedResources
from corral.server.verbs.apply import Applier
from corral.server.verbs.codec import Shapes
from corral.server.verbs.create_update import Writer
from corral.server.verbs.delete import SHOWN_WHEN_GONE, Deleter, success
from corral.server.verbs.intake import Writing
from corral.server.verbs.managed_fields import TRACKED, UNTRACKED
from corral.server.verbs.options import (  # fmt: skip
    PLAIN_DELETE,
    PLAIN_LIST,
    PLAIN_WATCH,
    PLAIN_WRITE,
    Clock,
    DeleteOptions,
    Listing,
    ListOptions,
    Random,
    WatchOptions,
    WriteOptions,
)
from corral.server.verbs.patch import Patcher
from corral.server.verbs.read import Reader
from corral.server.verbs.scale import scale_of
from corral.server.verbs.steps import Steps
from corral.server.verbs.watch import Watch
from corral.store import Event, Store, Stored

TOGETHER = 64  # deletions of a collection that share a commit
List = list  # the class below has a method of that name
SubresourceHandler = Callable[[UserInfo, str, str, Obj, WriteOptions], Awaitable[Obj]]
"""Answers a POST to a subresource: (user, namespace, name, body, options)."""


class Api:
    """One cluster's API over one store. Without `track_fields` ordinary writes leave managedFields alone, which saves
    simulations a third of their time; apply still keeps its own. With `aside`, what is long is done beside the event loop."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        *,
        clock: Clock,
        random: Random,
        plugins: Sequence[AdmissionPlugin] = (),
        builtin_admission: bool = True,
        track_fields: bool = True,
        aside: Aside | None = None,
    ):
        self.store = store
        self.registry = registry
        self.clock = clock
        self.random = random
        first = builtin_plugins(store, random) if builtin_admission else []
        last = final_plugins(store) if builtin_admission else []
        self.chain = Chain([*first, *plugins], last)
        self.shapes = Shapes()
        self.serving = ServedResources(registry, self.shapes)
        self.root_ca = ""
        """The certificate bundle that clients inside the cluster verify this server with; set by whoever serves."""
        self.after_create: dict[str, Callable[[Key], Awaitable[object]]] = {}
        """What is done before a create is answered, by bucket: a definition is established at once."""
        self.posts: dict[tuple[str, str], SubresourceHandler] = {}
        """POST handlers by (group-resource, subresource); others may add theirs, such as serviceaccounts/token."""
        self._reader = Reader(store, clock)
        self.aside = aside
        self.steps = Steps(aside)
        management = TRACKED if track_fields else UNTRACKED
        self._writer = Writer(store, self.chain, clock, random, management, self.steps)
        self._deleter = Deleter(store, self.chain, clock)
        self._patcher = Patcher(store, self._writer)
        self._applier = Applier(store, self._writer, clock)
        pods = PodPosts(self)
        self.posts["pods", "binding"] = pods.bind
        self.posts["pods", "eviction"] = pods.evict

    # -- reading ------------------------------------------------------------------------------------------------------

    async def get(
        self,
        user: UserInfo,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        subresource: str = "",
        resource_version: str = "",
    ) -> Stored:
        served = self._find(resource, "get", subresource, name)
        stored = await self._reader.get(served, namespace, name, resource_version)
        return self._shown(served, stored, subresource)

    async def list(self, user: UserInfo, resource: Resource, options: ListOptions = PLAIN_LIST) -> Listing:
        return await self._reader.list(self._find(resource, "list"), options)

    def watch(self, user: UserInfo, resource: Resource, options: WatchOptions = PLAIN_WATCH) -> Watch:
        return Watch(self.store, self._find(resource, "watch"), options)

    # -- writing ------------------------------------------------------------------------------------------------------

    async def create(
        self, user: UserInfo, resource: Resource, namespace: str, obj: Obj, options: WriteOptions = PLAIN_WRITE
    ) -> Stored:
        """Create an object. `namespace` may be left to the object; answers the stored object."""
        served = self._find(resource, "create")
        stored = await self._writer.create(self._begin(user, served, namespace, "", options), obj)
        then = self.after_create.get(served.bucket)
        if then is not None and not options.dry_run:
            await then(Key(stored.key.namespace, stored.key.name))
        return stored

    async def update(
        self,
        user: UserInfo,
        resource: Resource,
        namespace: str,
        name: str,
        obj: Obj,
        options: WriteOptions = PLAIN_WRITE,
        subresource: str = "",
    ) -> tuple[Stored, bool]:
        """Replace an object; the flag says that it was created, which few kinds allow."""
        served = self._find(resource, "update", subresource, name)
        writing = self._begin(user, served, namespace, name, options, subresource)
        stored, created = await self._writer.update(writing, obj)
        return self._shown(served, stored, subresource), created

    async def patch(
        self,
        user: UserInfo,
        resource: Resource,
        namespace: str,
        name: str,
        patch_type: str,
        patch: Any,
        options: WriteOptions = PLAIN_WRITE,
        subresource: str = "",
    ) -> tuple[Stored, bool]:
        """Change an object by a patch of type json, merge, strategic or apply; the flag says that apply created it."""
        served = self._find(resource, "patch", subresource, name)
        writing = self._begin(user, served, namespace, name, options, subresource)
        if patch_type == "apply":
            stored, created = await self._applier.apply(writing, patch)
        else:
            stored, created = await self._patcher.patch(writing, patch_type, patch), False
        return self._shown(served, stored, subresource), created

    async def post(
        self,
        user: UserInfo,
        resource: Resource,
        namespace: str,
        name: str,
        subresource: str,
        body: Obj,
        options: WriteOptions = PLAIN_WRITE,
    ) -> Obj:
        """POST to a subresource, such as pods/binding; answers what its handler makes of it."""
        served = self.serving.find(resource)
        handler = self.posts.get((served.kind.group_resource, subresource))
        if handler is None:
            self._find(resource, "create", subresource, name)
            raise _not_served()
        return await handler(user, namespace, name, body, options)

    async def delete(
        self,
        user: UserInfo,
        resource: Resource,
        namespace: str,
        name: str,
        options: DeleteOptions = PLAIN_DELETE,
    ) -> Obj:
        """Delete an object: answers a Status when it is gone, else the object, which finalizers or its grace still hold."""
        served = self._find(resource, "delete")
        writing = self._begin(user, served, namespace, name, _as_write(options))
        stored, gone = await self._deleter.delete(writing, options)
        return success(writing, stored) if gone and served.bucket not in SHOWN_WHEN_GONE else stored.obj

    async def delete_collection(
        self,
        user: UserInfo,
        resource: Resource,
        options: ListOptions = PLAIN_LIST,
        delete: DeleteOptions = PLAIN_DELETE,
    ) -> Sequence[Stored]:
        """Delete everything a list would show; answers the objects as they were or are."""
        served = self._find(resource, "deletecollection")
        found = (await self._reader.list(served, options)).items
        gone: List[Stored | None] = []
        for start in range(0, len(found), TOGETHER):
            part = found[start : start + TOGETHER]
            gone += await asyncio.gather(*(self._delete_one(user, served, stored, delete) for stored in part))
        return [stored for stored in gone if stored is not None]

    async def _delete_one(
        self, user: UserInfo, served: Served, stored: Stored, options: DeleteOptions
    ) -> Stored | None:
        writing = self._begin(user, served, stored.key.namespace, stored.key.name, _as_write(options))
        try:
            return (await self._deleter.delete(writing, options))[0]
        except NotFound:
            return None  # somebody else was faster

    # -- inside -------------------------------------------------------------------------------------------------------

    def _find(self, resource: Resource, verb: str, subresource: str = "", name: str = "") -> Served:
        served = self.serving.find(resource)
        kind, version = served.kind, served.version
        if not subresource:
            allowed = verb in kind.verbs
        elif (subresource == "status" and version.status) or (subresource == "scale" and version.scale is not None):
            allowed = verb in SUBRESOURCE_VERBS
        else:
            extra = next((found for found in kind.subresources if found.name == subresource), None)
            if extra is None:
                raise _not_served() if kind.builtin else errors.not_found(resource, name)
            allowed = verb in extra.verbs
        if not allowed:
            raise MethodNotAllowed("the server does not allow this method on the requested resource", details={})
        return served

    def _shown(self, served: Served, stored: Stored, subresource: str) -> Stored:
        """What a request for a subresource answers with."""
        paths = served.version.scale
        if subresource != "scale" or paths is None:
            return stored
        return Stored(stored.key, stored.revision, obj=scale_of(stored, paths))

    def _begin(
        self, user: UserInfo, served: Served, namespace: str, name: str, options: WriteOptions, subresource: str = ""
    ) -> Writing:
        shape = self.shapes.of(served.kind, served.version)
        return Writing(user, served, shape, namespace, name, options, subresource)


def _not_served() -> NotFound:
    return NotFound("the server could not find the requested resource", details={})


def _as_write(options: DeleteOptions) -> WriteOptions:
    return WriteOptions(dry_run=options.dry_run, warn=options.warn)


__all__ = [
    "Api", "DeleteOptions", "Event", "ListOptions", "Listing", "Stored", "Watch", "WatchOptions",
    "WriteOptions",
]  # fmt: skip
