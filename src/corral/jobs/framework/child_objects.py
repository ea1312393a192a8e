"""Making, deleting and claiming the children of an object, with the events Kubernetes' controllers write."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from corral.client.protocol import Client
from corral.core.errors import ApiError, NotFound
from corral.core.meta import Obj, controller_of, is_deleting, labels_of, name_of, namespace_of, owner_ref, uid_of
from corral.core.resource import Resource
from corral.core.selectors import Selector
from corral.runtime.events import Recorder

MANAGER = "kube-controller-manager"
"""The field manager of Kubernetes' own controllers."""


def typed(obj: Obj, api_version: str, kind: str) -> Obj:
    """`obj` with the apiVersion and kind that items of a list may lack."""
    return {"apiVersion": api_version, "kind": kind, **obj}


class Children:
    """The children of one kind that one controller makes."""

    def __init__(self, client: Client, recorder: Recorder, resource: Resource, manager: str) -> None:
        self._client = client
        self._recorder = recorder
        self._resource = resource
        self._manager = manager
        self._word = resource.kind.lower()

    async def create(self, owner: Obj, body: Obj) -> Obj:
        """Make a child and say so on the owner."""
        try:
            made = await self._client.create(self._resource, body, manager=self._manager)
        except ApiError as error:
            if not _is_namespace_going(error):
                self._recorder.event(owner, "Warning", "FailedCreate", f"Error creating: {error.message}")
            raise
        self._recorder.event(owner, "Normal", "SuccessfulCreate", f"Created {self._word}: {name_of(made)}")
        return made

    async def delete(self, owner: Obj, child: Obj) -> bool:
        """Delete a child and say so on the owner; False when it was gone already."""
        try:
            await self._client.delete(self._resource, name_of(child), namespace_of(child), uid=uid_of(child))
        except NotFound:
            return False
        except ApiError as error:
            self._recorder.event(owner, "Warning", "FailedDelete", f"Error deleting: {error.message}")
            raise
        self._recorder.event(owner, "Normal", "SuccessfulDelete", f"Deleted {self._word}: {name_of(child)}")
        return True

    async def claim(self, owner: Obj, selector: Selector, candidates: Iterable[Obj]) -> list[Obj]:
        """The candidates that belong to `owner`: its own that still match, and orphans that match, now adopted."""
        claimed = []
        for child in candidates:
            reference = controller_of(child)
            matches = selector.matches(labels_of(child))
            if reference is not None:
                if reference.get("uid") != uid_of(owner):
                    continue
                if matches:
                    claimed.append(child)
                elif not is_deleting(owner):
                    await self._disown(owner, child)
            elif matches and not is_deleting(owner) and not is_deleting(child):
                claimed.append(await self._adopt(owner, child))
        return claimed

    async def _adopt(self, owner: Obj, child: Obj) -> Obj:
        references = [*(child["metadata"].get("ownerReferences") or []), owner_ref(owner)]
        return await self._patch(child, references)

    async def _disown(self, owner: Obj, child: Obj) -> None:
        kept = [ref for ref in child["metadata"].get("ownerReferences") or [] if ref.get("uid") != uid_of(owner)]
        await self._patch(child, kept)

    async def _patch(self, child: Obj, references: list[Obj]) -> Obj:
        patch = {"metadata": {"uid": uid_of(child), "ownerReferences": references or None}}
        return await self._client.patch(
            self._resource, name_of(child), namespace_of(child), patch, manager=self._manager
        )


def _is_namespace_going(error: ApiError) -> bool:
    return "because it is being terminated" in error.message


async def slow_start(items: Sequence[Obj], make: Callable[[Obj], Awaitable[Obj]]) -> tuple[list[Obj], ApiError | None]:
    """Make `items` in batches of 1, 2, 4, …; stop after the first batch with a failure.

    A quota or an admission plug-in that refuses one child refuses all of them: doubling finds out with one request.
    """
    made: list[Obj] = []
    position, size = 0, 1
    while position < len(items):
        batch = items[position : position + size]
        results = await asyncio.gather(*(make(item) for item in batch), return_exceptions=True)
        error: ApiError | None = None
        for result in results:
            if isinstance(result, ApiError):
                error = error or result
            elif isinstance(result, BaseException):
                raise result
            else:
                made.append(result)
        if error is not None:
            return made, error
        position += size
        size *= 2
    return made, None
