"""What a cluster serves right now: a requested resource resolved to its kind, version and place in the store."""

from __future__ import annotations

from collections.abc import Sequence

from corral.core.errors import ApiError, NotFound
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.kinds.kubernetes import events
from corral.kinds.machinery.definition import KindDef, VersionDef
from corral.kinds.machinery.registry import Registry
from corral.server.extension.conversion import Ask, Conversion
from corral.server.verbs.codec import Shapes
from corral.store import Event, ObjectKey, Stored

# Two APIs over one set of objects: the newer group is a view of what the older one stores.
_NEW_EVENTS = "events.events.k8s.io"


class Served:
    """One kind in one served version. Where it `needs_webhook`, objects must be prepared before they are viewed."""

    __slots__ = (
        "api_version",
        "bucket",
        "conversion",
        "converts",
        "is_alias",
        "kind",
        "needs_webhook",
        "registry",
        "resource",
        "stored_as",
        "version",
    )

    def __init__(self, kind: KindDef, version: VersionDef, registry: Registry, conversion: Conversion | None = None):
        self.conversion = conversion
        self.needs_webhook = conversion is not None and conversion.needs_webhook
        self.registry = registry
        self.kind = kind
        self.version = version
        self.resource = kind.resource(version.name)
        self.api_version = kind.api_version(version.name)
        self.is_alias = kind.group_resource == _NEW_EVENTS
        self.bucket = "events" if self.is_alias else kind.group_resource
        self.stored_as = "v1" if self.is_alias else kind.api_version(kind.storage_version.name)
        # Objects may still be stored in a version that was the storage version when they were written.
        self.converts = self.is_alias or conversion is not None or len(kind.versions) > 1

    def key(self, namespace: str, name: str) -> ObjectKey:
        return ObjectKey(self.bucket, namespace if self.kind.namespaced else "", name)

    def view(self, stored: Stored) -> Stored:
        """`stored` in this version."""
        if self.conversion is not None:
            return self.conversion.view(stored, self.api_version)
        if not self.converts or stored.is_in(self.api_version):
            return stored
        obj = self.kind.at_version(stored.obj, self.version.name)
        return stored if obj is stored.obj else Stored(stored.key, stored.revision, obj=obj)

    async def prepare(self, *items: Stored | None) -> None:
        """Have these objects converted, if that means asking somebody."""
        if self.needs_webhook and self.conversion is not None:
            await self.conversion.prepare([stored for stored in items if stored is not None], self.api_version)

    async def to_storage(self, obj: Obj) -> Obj:
        """`obj`, in this version, as it is stored."""
        if self.api_version == self.stored_as:
            return obj
        if self.conversion is not None:
            return await self.conversion.to_storage(obj)
        if self.is_alias:
            return events.to_core(obj)
        return self.kind.at_version(obj, self.kind.storage_version.name)

    def event_view(self, event: Event) -> Event:
        """`event` with its object in this version."""
        stored = self.view(event.stored)
        return event if stored is event.stored else Event(event.type, stored, event.previous)


class ServedResources:
    """Resolves resources against the registry, remembering the answers until it changes."""

    def __init__(self, registry: Registry, shapes: Shapes):
        self.registry = registry
        self.ask: Ask = _cannot_ask
        """How conversion webhooks are called; set by whoever can."""
        self._shapes = shapes
        self._known: dict[tuple[str, str, str], Served] = {}
        self._revision = -1

    def find(self, resource: Resource) -> Served:
        """What serves `resource`; NotFound when nothing does."""
        if self._revision != self.registry.revision:
            self._known.clear()
            self._revision = self.registry.revision
        path = (resource.group, resource.version, resource.plural)
        served = self._known.get(path)
        if served is None:
            kind = self.registry.get(resource.group, resource.plural)
            version = kind.version(resource.version) if kind is not None else None
            if kind is None or version is None or not version.served:
                raise NotFound("the server could not find the requested resource", details={})
            served = self._known[path] = Served(kind, version, self.registry, self._conversion(kind))
        return served

    def _conversion(self, kind: KindDef) -> Conversion | None:
        """Kinds of third parties are seen through their definitions. All versions of one share what was converted."""
        if kind.since is None or kind.builtin:
            return None
        known = next((served for served in self._known.values() if served.kind is kind), None)
        return known.conversion if known is not None else Conversion(kind, self._shapes, lambda *call: self.ask(*call))

    async def convert(self, kind: KindDef, obj: Obj, version: str) -> Obj:
        """`obj` in another version of its kind."""
        conversion = self._conversion(kind)
        return await conversion.convert(obj, version) if conversion is not None else kind.at_version(obj, version)

    def storage(self, kind: KindDef) -> Served:
        """`kind` in the version it is stored in, served or not."""
        return Served(kind, kind.storage_version, self.registry)


async def _cannot_ask(kind: KindDef, objects: Sequence[Obj], api_version: str) -> list[Obj]:
    subject = f"conversion webhook for {objects[0]['apiVersion']}, Kind={kind.kind}"
    raise ApiError(f"{subject} failed: this API makes no calls", code=500, reason="")
