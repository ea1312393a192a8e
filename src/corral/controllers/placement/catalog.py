"""Which kinds the hub serves: discovery, kept until a CustomResourceDefinition changes or a kind is missed."""

from __future__ import annotations

import logging
from collections.abc import Callable

from corral.client.protocol import Client
from corral.core.errors import ApiError
from corral.core.meta import Obj
from corral.core.resource import Resource, version_path
from corral.decide.placement.selection import split_api_version
from corral.kinds.kubernetes.apiextensions.kinds import CUSTOM_RESOURCE_DEFINITIONS
from corral.runtime.clock import Clock
from corral.runtime.controller import Manager

log = logging.getLogger(__name__)

MISS_INTERVAL_S = 30.0


class Catalog:
    """Kinds by group and kind, the preferred version first."""

    def __init__(self, manager: Manager) -> None:
        self._client: Client = manager.client
        self._clock: Clock = manager.clock
        self._kinds: dict[tuple[str, str], list[Resource]] = {}
        self._stale = True
        self._checked = float("-inf")
        self._handlers: list[Callable[[], None]] = []
        manager.informer(CUSTOM_RESOURCE_DEFINITIONS).on_change(self._on_definition)

    def on_change(self, handler: Callable[[], None]) -> None:
        """Call `handler` when a kind may have come or gone."""
        self._handlers.append(handler)

    def _on_definition(self, old: Obj | None, new: Obj | None) -> None:
        if old is not None and new is not None and old.get("spec") == new.get("spec"):
            before, after = (obj.get("status", {}).get("conditions") for obj in (old, new))
            if before == after:
                return
        self._stale = True
        for handler in self._handlers:
            handler()

    async def find(self, group: str, version: str, kind: str) -> Resource | None:
        """How the kind is served at this version."""
        await self._refresh()
        found = self._lookup(group, version, kind)
        if found is None and self._clock.monotonic() - self._checked > MISS_INTERVAL_S:
            self._stale = True
            await self._refresh()
            found = self._lookup(group, version, kind)
        return found

    def _lookup(self, group: str, version: str, kind: str) -> Resource | None:
        return next((one for one in self._kinds.get((group, kind), ()) if one.version == version), None)

    async def preferred(self) -> list[Resource]:
        """Every kind at its preferred version."""
        await self._refresh()
        return [versions[0] for versions in self._kinds.values()]

    def is_namespaced(self, obj: Obj) -> bool | None:
        """Whether an object's kind is namespaced; None when the hub does not serve it."""
        group, _ = split_api_version(str(obj.get("apiVersion", "")))
        versions = self._kinds.get((group, str(obj.get("kind", ""))))
        return versions[0].namespaced if versions else None

    async def _refresh(self) -> None:
        if not self._stale:
            return
        self._stale = False
        self._checked = self._clock.monotonic()
        kinds: dict[tuple[str, str], list[Resource]] = {}
        try:
            await self._read(kinds, "", "v1")
            for group in (await self._client.raw("GET", "/apis")).get("groups") or ():
                first = (group.get("preferredVersion") or {}).get("version")
                names = [entry["version"] for entry in group.get("versions") or ()]
                for version in sorted(names, key=lambda name: name != first):
                    await self._read(kinds, group["name"], version)
        except ApiError:
            self._stale = True
            raise
        self._kinds = kinds

    async def _read(self, kinds: dict[tuple[str, str], list[Resource]], group: str, version: str) -> None:
        try:
            document = await self._client.raw("GET", version_path(group, version))
        except ApiError as error:
            log.info("kinds not discovered", extra={"group": group, "version": version, "error": str(error)})
            return
        for entry in document.get("resources") or ():
            if "/" in entry["name"] or not {"list", "watch"} <= set(entry.get("verbs") or ()):
                continue
            resource = Resource(group, version, entry["name"], entry["kind"], bool(entry["namespaced"]))
            kinds.setdefault((group, entry["kind"]), []).append(resource)
