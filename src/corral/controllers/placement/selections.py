"""What placements select, kept current: informers of the kinds they name, and a cache that changes invalidate."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from corral.controllers.placement.catalog import Catalog
from corral.controllers.placement.placement_kinds import SCOPES, Scope
from corral.core.meta import Key, Obj, generation_of, is_deleting, key_of, name_of, namespace_of, spec_of, uid_of
from corral.core.resource import Resource
from corral.decide.placement.selection import (
    CLIENT_ERROR,
    NAMESPACE_ONLY,
    WITH_SELECTORS,
    SelectionError,
    check_duplicates,
    is_reserved,
    is_selectable,
    matches,
    ordered,
    strip,
    travels,
)
from corral.kinds.kubernetes.core.kinds import NAMESPACES, SERVICES
from corral.runtime.controller import Manager
from corral.runtime.informer import Informer


def is_namespace(selector: Obj) -> bool:
    return selector.get("kind") == "Namespace" and not selector.get("group")


def _scope_of(selector: Obj) -> str:
    return str(selector.get("selectionScope") or "NamespaceWithResources")


def _selected(placement: Obj) -> Iterable[str]:
    """Index values: what the selectors of a placement name."""
    namespace = namespace_of(placement)
    selectors = spec_of(placement).get("resourceSelectors") or ()
    picks = any(is_namespace(one) and _scope_of(one) == WITH_SELECTORS for one in selectors)
    for selector in selectors:
        name = selector.get("name") or "*"
        yield f"{selector.get('group', '')}/{selector.get('kind', '')}/{namespace}/{name}"
        if not namespace and is_namespace(selector) and (picks or _scope_of(selector) != NAMESPACE_ONLY):
            yield f"in:{name}"


class Selections:
    """Selected objects by placement. `wake` is called for placements whose selection may have changed."""

    def __init__(self, manager: Manager, catalog: Catalog, *, runs_workloads: bool = False) -> None:
        """`runs_workloads` says whether the hub has workloads of its own."""
        self._manager = manager
        self._runs_workloads = runs_workloads
        self.catalog = catalog
        self._placements = {scope: manager.informer(scope.placements) for scope in SCOPES}
        for informer in self._placements.values():
            informer.add_index("selects", _selected)
        self._wake: dict[Scope, Callable[[Key], None]] = {}
        self._known: dict[tuple[Scope, Key], tuple[tuple[str, int], list[Obj]]] = {}
        self._followed: dict[Resource, Informer] = {}
        catalog.on_change(self._forget_all)

    def on_change(self, scope: Scope, wake: Callable[[Key], None]) -> None:
        self._wake[scope] = wake

    async def objects(self, scope: Scope, placement: Obj) -> list[Obj]:
        """What a placement selects now, stripped and in order. Raises SelectionError when the user is wrong."""
        identity = (scope, key_of(placement))
        known = self._known.get(identity)
        version = (uid_of(placement), generation_of(placement))
        if known is not None and known[0] == version:
            return known[1]
        # A change that arrives while this waits takes the mark away, and then the answer is not kept.
        mark = (("", -1), list[Obj]())
        self._known[identity] = mark
        chosen = await self._choose(scope, placement)
        try:
            check_duplicates(chosen)
        except SelectionError as error:
            raise SelectionError(CLIENT_ERROR + str(error)) from None
        result = [strip(obj) for obj in ordered(chosen)]
        if self._known.get(identity) is mark:
            self._known[identity] = (version, result)
        return result

    def remembered(self, scope: Scope, key: Key) -> list[Obj]:
        """What a placement was last seen to select."""
        known = self._known.get((scope, key))
        return [] if known is None else known[1]

    def forget(self, scope: Scope, key: Key) -> None:
        self._known.pop((scope, key), None)

    # Choosing

    async def _choose(self, scope: Scope, placement: Obj) -> list[Obj]:
        selectors = spec_of(placement).get("resourceSelectors") or ()
        inside = await self._inside(placement)
        chosen: list[Obj] = []
        for selector in selectors:
            resource = await self._resource(scope, placement, selector, inside is not None)
            if resource is None:
                continue
            found = await self._matching(resource, selector, namespace_of(placement) if inside is None else inside)
            if not scope.namespaced and is_namespace(selector):
                found = await self._with_contents(placement, selector, found)
            chosen += found
        return chosen

    async def _resource(self, scope: Scope, placement: Obj, selector: Obj, mixed: bool) -> Resource | None:
        group, version, kind = (str(selector.get(part) or "") for part in ("group", "version", "kind"))
        resource = await self.catalog.find(group, version, kind)
        key = key_of(placement)
        if resource is None:
            api = f"{group}/{version}" if group else version
            raise SelectionError(
                f"{CLIENT_ERROR}invalid placement {key}, failed to get GVR of the selector:"
                f' no matches for kind "{kind}" in version "{api}"'
            )
        if not is_selectable(group, kind):
            return None
        named = f"{group}/{version}, Resource={resource.plural}"
        if scope.namespaced and not resource.namespaced:
            raise SelectionError(
                f"{CLIENT_ERROR}invalid placement {key}: cannot select cluster-scoped resource {named}"
                " in a resourcePlacement"
            )
        if not scope.namespaced and resource.namespaced and not mixed:
            raise SelectionError(
                f"{CLIENT_ERROR}invalid placement {key}: cannot select namespace-scoped resource {named}"
                " in a clusterResourcePlacement"
            )
        return resource

    async def _inside(self, placement: Obj) -> str | None:
        """The namespace in which the selectors of a ClusterResourcePlacement pick, None when they pick in none."""
        for selector in spec_of(placement).get("resourceSelectors") or ():
            if is_namespace(selector) and _scope_of(selector) == WITH_SELECTORS:
                found = await self._matching(NAMESPACES, selector, "")
                if len(found) != 1:
                    raise SelectionError(
                        f"{CLIENT_ERROR}invalid placement {key_of(placement)}: {WITH_SELECTORS} mode requires exactly"
                        f" one namespace, but {len(found) or 'no'} namespaces were selected"
                    )
                return name_of(found[0])
        return None

    async def _matching(self, resource: Resource, selector: Obj, namespace: str) -> list[Obj]:
        informer = await self._follow(resource)
        name = selector.get("name")
        if name:
            found = informer.get(Key(namespace if resource.namespaced else "", name))
            objects = [found] if found is not None else []
        elif resource.namespaced:
            objects = informer.by_index("namespace", namespace)
        else:
            objects = informer.list()
        return await self._travelling(resource, [obj for obj in objects if matches(selector, obj)])

    async def _with_contents(self, placement: Obj, selector: Obj, namespaces: list[Obj]) -> list[Obj]:
        chosen = list(namespaces)
        for namespace in map(name_of, namespaces):
            if is_reserved(namespace):
                raise SelectionError(
                    f"{CLIENT_ERROR}invalid clusterRresourcePlacement {name_of(placement)}:"
                    f" namespace {namespace} is not allowed to propagate"
                )
            if _scope_of(selector) in (NAMESPACE_ONLY, WITH_SELECTORS):
                continue
            for resource in await self.catalog.preferred():
                if resource.namespaced and is_selectable(resource.group, resource.kind):
                    chosen += await self._contents(resource, namespace)
        return chosen

    async def _contents(self, resource: Resource, namespace: str) -> list[Obj]:
        informer = await self._follow(resource)
        return await self._travelling(resource, informer.by_index("namespace", namespace))

    async def _travelling(self, resource: Resource, objects: list[Obj]) -> list[Obj]:
        """Those of the objects that travel, whichever way they were selected."""
        services = await self._follow(SERVICES) if objects and resource.kind == "Endpoints" else None
        return [
            obj
            for obj in objects
            if travels(
                obj,
                has_service=services is not None and services.get(key_of(obj)) is not None,
                runs_workloads=self._runs_workloads,
            )
        ]

    # Following

    async def _follow(self, resource: Resource) -> Informer:
        informer = self._followed.get(resource)
        if informer is None:
            informer = self._followed[resource] = self._manager.informer(resource)
            informer.add_index("namespace", lambda obj: (namespace_of(obj),))
            informer.on_change(lambda old, new: self._on_object(resource, old, new))
        await informer.synced()
        return informer

    def _on_object(self, resource: Resource, old: Obj | None, new: Obj | None) -> None:
        obj = new if new is not None else old
        if obj is None:
            return
        affected = list(self._affected(resource, obj))
        if not affected or (old is not None and new is not None and _looks_the_same(old, new)):
            return
        for scope, key in affected:
            self.forget(scope, key)
            self._wake[scope](key)

    def _affected(self, resource: Resource, obj: Obj) -> Iterable[tuple[Scope, Key]]:
        namespace, name = namespace_of(obj), name_of(obj)
        for scope, informer in self._placements.items():
            if scope.namespaced and not namespace:
                continue
            inside = namespace if scope.namespaced else ""
            kinds = ("Service", "Endpoints") if resource == SERVICES else (resource.kind,)
            values = [f"{resource.group}/{kind}/{inside}/{one}" for kind in kinds for one in (name, "*")]
            if namespace and not scope.namespaced:
                values = [f"in:{namespace}", "in:*"]
            for value in values:
                for placement in informer.by_index("selects", value):
                    yield scope, key_of(placement)

    def _forget_all(self) -> None:
        self._known.clear()
        for scope, informer in self._placements.items():
            if scope in self._wake:
                for placement in informer.list():
                    self._wake[scope](key_of(placement))


def _looks_the_same(old: Obj, new: Obj) -> bool:
    return strip(old) == strip(new) and is_deleting(old) == is_deleting(new)
