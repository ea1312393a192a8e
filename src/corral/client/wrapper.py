"""A client in front of another one: every call is handed on, and a subclass says what happens to it on the way.

`_carry` is around every call that is answered once (its resource is None for `raw`), `_there`, `_out` and `_back` are what names and objects become on the
way there and back. What is not overridden passes as it is; options are handed on by name and typed in the protocol.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

from corral.client.protocol import Client, ObjectList, Patch, WatchEvent
from corral.core.meta import Obj
from corral.core.resource import Resource

T = TypeVar("T")


class ClientWrapper:
    """A `Client` that asks the client `target` gives: it may be another one each time."""

    def __init__(self, target: Callable[[], Client]) -> None:
        self._target = target

    # What a subclass may change

    async def _carry(self, resource: Resource | None, call: Callable[[], Awaitable[T]]) -> T:
        return await call()

    def _there(self, resource: Resource, name: str) -> str:
        return name

    def _out(self, resource: Resource, obj: Obj) -> Obj:
        return obj

    def _back(self, resource: Resource, obj: Obj) -> Obj:
        return obj

    # Client

    @property
    def streams_lists(self) -> bool:
        return self._target().streams_lists

    async def get(self, resource: Resource, name: str, namespace: str = "") -> Obj:
        there = self._there(resource, name)
        return self._back(resource, await self._carry(resource, lambda: self._target().get(resource, there, namespace)))

    async def list(self, resource: Resource, namespace: str = "", **options: Any) -> ObjectList:
        found = await self._carry(resource, lambda: self._target().list(resource, namespace, **options))
        return found._replace(items=[self._back(resource, item) for item in found.items])

    async def watch(self, resource: Resource, namespace: str = "", **options: Any) -> AsyncIterator[WatchEvent]:
        async for event in self._target().watch(resource, namespace, **options):
            yield event if event.type == "BOOKMARK" else event._replace(obj=self._back(resource, event.obj))

    async def create(self, resource: Resource, obj: Obj, **options: Any) -> Obj:
        wanted = self._out(resource, obj)
        return self._back(
            resource, await self._carry(resource, lambda: self._target().create(resource, wanted, **options))
        )

    async def update(self, resource: Resource, obj: Obj, **options: Any) -> Obj:
        wanted = self._out(resource, obj)
        return self._back(
            resource, await self._carry(resource, lambda: self._target().update(resource, wanted, **options))
        )

    async def patch(self, resource: Resource, name: str, namespace: str, patch: Patch, **options: Any) -> Obj:
        there = self._there(resource, name)
        done = await self._carry(resource, lambda: self._target().patch(resource, there, namespace, patch, **options))
        return self._back(resource, done)

    async def apply(self, resource: Resource, obj: Obj, **options: Any) -> Obj:
        wanted = self._out(resource, obj)
        return self._back(
            resource, await self._carry(resource, lambda: self._target().apply(resource, wanted, **options))
        )

    async def delete(self, resource: Resource, name: str, namespace: str = "", **options: Any) -> None:
        there = self._there(resource, name)
        await self._carry(resource, lambda: self._target().delete(resource, there, namespace, **options))

    async def delete_collection(self, resource: Resource, namespace: str = "", **options: Any) -> None:
        await self._carry(resource, lambda: self._target().delete_collection(resource, namespace, **options))

    async def get_subresource(self, resource: Resource, name: str, namespace: str, subresource: str) -> Obj:
        there = self._there(resource, name)
        return await self._carry(
            resource, lambda: self._target().get_subresource(resource, there, namespace, subresource)
        )

    async def create_subresource(
        self, resource: Resource, name: str, namespace: str, subresource: str, body: Obj
    ) -> Obj:
        there = self._there(resource, name)
        return await self._carry(
            resource, lambda: self._target().create_subresource(resource, there, namespace, subresource, body)
        )

    def logs(self, name: str, namespace: str, **options: Any) -> AsyncIterator[bytes]:
        return self._target().logs(name, namespace, **options)

    async def raw(self, method: str, path: str, body: Obj | None = None) -> Obj:
        return await self._carry(None, lambda: self._target().raw(method, path, body))

    async def close(self) -> None:
        await self._target().close()
