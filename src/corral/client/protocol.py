"""The one client protocol. Controllers see only this: the same calls reach an API in this process, an embedded
cluster over HTTPS or a real Kubernetes.

Objects returned are shared: never mutate them. Every call raises `core.errors.ApiError` subclasses, and nothing else,
for what the server or the connection did.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal, NamedTuple, Protocol

from corral.core.meta import Obj
from corral.core.resource import Resource

Patch = Obj | list[Obj]
PatchKind = Literal["json", "merge", "strategic"]
Propagation = Literal["Background", "Foreground", "Orphan"]


class WatchEvent(NamedTuple):
    """One change: ADDED, MODIFIED or DELETED; a BOOKMARK carries only the resourceVersion reached."""

    type: str
    obj: Obj


class ObjectList(NamedTuple):
    items: list[Obj]
    resource_version: str
    continue_token: str = ""
    size: int = 0
    """Bytes the page had on its way here; 0 when it did not travel."""


INITIAL_EVENTS_END = "k8s.io/initial-events-end"


def ends_initial(event: WatchEvent) -> bool:
    """Whether what was there when the watch began has all come."""
    annotations = event.obj["metadata"].get("annotations") or {}
    return event.type == "BOOKMARK" and annotations.get(INITIAL_EVENTS_END) == "true"


class Client(Protocol):
    """A cluster's API."""

    @property
    def streams_lists(self) -> bool:
        """Whether `watch` may be asked to begin with what is there. False once the server has refused that."""
        ...

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Obj: ...

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
        """Objects of one namespace, or of all when `namespace` is empty."""
        ...

    def watch(
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
        """Changes after `resource_version`. Ends when the server closes the stream; raises Expired when the version is too old.

        With `initial` first comes what is there, each object as ADDED, up to the bookmark that `ends_initial`.
        """
        ...

    async def create(self, resource: Resource, obj: Obj, *, manager: str = "", dry_run: bool = False) -> Obj: ...

    async def update(self, resource: Resource, obj: Obj, *, subresource: str = "", manager: str = "") -> Obj:
        """Replace the object; Conflict when it carries a resourceVersion that is no longer current."""
        ...

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
    ) -> Obj: ...

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
        """Server-side apply; a dry run answers what it would store."""
        ...

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
    ) -> None: ...

    async def delete_collection(
        self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = ""
    ) -> None: ...

    async def get_subresource(self, resource: Resource, name: str, namespace: str, subresource: str) -> Obj: ...

    async def create_subresource(
        self, resource: Resource, name: str, namespace: str, subresource: str, body: Obj
    ) -> Obj:
        """POST to a subresource: pods/binding, pods/eviction, serviceaccounts/token."""
        ...

    def logs(
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
    ) -> AsyncIterator[bytes]: ...

    async def raw(self, method: str, path: str, body: Obj | None = None) -> Obj:
        """Any other JSON call, such as GET /version or an aggregated API."""
        ...

    async def close(self) -> None: ...
