"""Objects of kinds that third parties defined, in the versions they are read and stored in.

What is stored is completed and pruned by the definition of the day, converted, and pruned by the schema of the version
that was asked for; what is written goes the same way back. Without a webhook versions differ in their apiVersion only.
With one, conversion means asking another server, so whoever reads calls `prepare` first; what came back is kept with
the stored version and shared by all its readers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from corral.core.errors import ApiError
from corral.core.meta import Obj
from corral.core.schema.resource import ResourceSchema
from corral.kinds.machinery.definition import KindDef
from corral.server.verbs.codec import Shapes
from corral.store import Stored

TOGETHER = 500  # objects of one review
Ask = Callable[[KindDef, Sequence[Obj], str], Awaitable[list[Obj]]]
"""Asks the webhook of a kind for objects in another apiVersion."""


class Conversion:
    """One kind of a third party. `ask` is how its webhook is called, if it has one."""

    def __init__(self, kind: KindDef, shapes: Shapes, ask: Ask) -> None:
        self.kind = kind
        self.needs_webhook = kind.conversion is not None
        self._shapes = shapes
        self._ask = ask
        self._versions = {kind.api_version(version.name): version for version in kind.versions}
        self._running: dict[tuple[int, str], asyncio.Task[list[Obj]]] = {}

    # -- reading ------------------------------------------------------------------------------------------------------

    def view(self, stored: Stored, api_version: str) -> Stored:
        """`stored` in this version; where a webhook converts it has been prepared."""
        if self._is_current(stored) and stored.is_in(api_version):
            return stored
        kept = self._kept(stored)
        found = kept.get(api_version)
        if found is None:
            base = self._completed(stored)
            if base.is_in(api_version):
                found = base
            elif self.needs_webhook:
                raise ApiError(f"{stored.key} was not converted to {api_version}", code=500, reason="")
            else:
                found = _variant(stored, self._renamed(base.obj, api_version))
            kept[api_version] = found
        return found

    async def prepare(self, items: Iterable[Stored], api_version: str) -> None:
        """Convert what has to be asked for, so that `view` finds it."""
        missing = [stored for stored in items if not self._has(stored, api_version)]
        for start in range(0, len(missing), TOGETHER):
            await self._fetch(missing[start : start + TOGETHER], api_version)

    def _has(self, stored: Stored, api_version: str) -> bool:
        return stored.is_in(api_version) or api_version in self._kept(stored)

    async def _fetch(self, part: Sequence[Stored], api_version: str) -> None:
        """Ask for these objects. Readers of the same version share one question, and its answer."""
        loop = asyncio.get_running_loop()
        waiting: list[asyncio.Task[list[Obj]]] = []
        fresh: dict[str, list[Stored]] = {}
        for stored in part:
            running = self._running.get((id(stored), api_version))
            if running is not None:
                waiting.append(running)
            else:
                fresh.setdefault(self._completed(stored).obj["apiVersion"], []).append(stored)
        for group in fresh.values():
            task = loop.create_task(self._convert_stored(group, api_version))
            for stored in group:
                self._running[id(stored), api_version] = task
            waiting.append(task)
        for task in waiting:
            await asyncio.shield(task)

    async def _convert_stored(self, group: list[Stored], api_version: str) -> list[Obj]:
        try:
            answer = await self._ask(self.kind, [self._completed(stored).obj for stored in group], api_version)
            for stored, obj in zip(group, answer, strict=True):
                self._kept(stored)[api_version] = _variant(stored, self._schema(api_version).prune(obj))
            return answer
        finally:
            for stored in group:
                self._running.pop((id(stored), api_version), None)

    def _kept(self, stored: Stored) -> dict[str, Stored]:
        """What readers of this version were shown; forgotten when the definition changes."""
        views = stored.views
        if views is None or views[0] is not self.kind:
            views = stored.views = (self.kind, {})
        return views[1]

    def _is_current(self, stored: Stored) -> bool:
        """Whether the object was written under this definition, so that nothing can be missing or unknown in it."""
        return stored.revision > (self.kind.since or 0)

    def _completed(self, stored: Stored) -> Stored:
        """`stored` as the definition would have it, in the version it is stored in."""
        if self._is_current(stored):
            return stored
        obj = stored.obj
        api_version = obj["apiVersion"]
        if api_version not in self._versions:
            group_version = f"{self.kind.group}/{api_version.rpartition('/')[2]}"
            raise ApiError(f"request to convert CR from an invalid group/version: {group_version}", code=500, reason="")
        kept = self._kept(stored)
        found = kept.get(api_version)
        if found is None:
            completed = self._schema(api_version).clean(obj)
            found = kept[api_version] = stored if completed == obj else _variant(stored, completed)
        return found

    # -- writing ------------------------------------------------------------------------------------------------------

    async def convert(self, obj: Obj, version: str) -> Obj:
        """`obj` in another version."""
        api_version = self.kind.api_version(version)
        if obj.get("apiVersion") == api_version:
            return obj
        if not self.needs_webhook:
            return self._renamed(obj, api_version)
        metadata = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
        (converted,) = await self._ask(self.kind, [{**obj, "metadata": metadata}], api_version)
        return self._schema(api_version).prune(converted)

    async def to_storage(self, obj: Obj) -> Obj:
        """`obj` as it is stored."""
        storage = self.kind.storage_version.name
        if obj.get("apiVersion") == self.kind.api_version(storage):
            return obj
        return self._schema(self.kind.api_version(storage)).clean(await self.convert(obj, storage))

    # -- by schema ----------------------------------------------------------------------------------------------------

    def _schema(self, api_version: str) -> ResourceSchema:
        return self._shapes.of(self.kind, self._versions[api_version]).schema

    def _renamed(self, obj: Obj, api_version: str) -> Obj:
        """`obj` in another version, where no webhook knows better."""
        return self._schema(api_version).prune({**obj, "apiVersion": api_version})


def _variant(stored: Stored, obj: Obj) -> Stored:
    return Stored(stored.key, stored.revision, obj=obj)
