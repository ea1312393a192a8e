"""From established CustomResourceDefinitions to kinds in the registry, and back when they are deleted."""

from __future__ import annotations

from corral.core.conditions import is_true
from corral.core.meta import Obj
from corral.kinds.machinery.crd import kind_from_crd
from corral.kinds.machinery.registry import Registry
from corral.store import Event, Store

BUCKET = "customresourcedefinitions.apiextensions.k8s.io"


class ServedDefinitions:
    """The kinds that a registry has from definitions. Kinds that Corral ships are served from its own declarations."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._natives = {kind.group_resource for kind in registry.natives}
        self._generations: dict[str, int] = {}  # of the definition each kind is served from
        for kind in registry.natives:
            if registry.get(kind.group, kind.plural) is None:
                registry.add(kind)

    def serve(self, crd: Obj, since: int) -> None:
        """Serve the kind of an established definition, as it is from revision `since` on."""
        name, generation = crd["metadata"]["name"], crd["metadata"].get("generation") or 0
        if name not in self._natives and is_true(crd, "Established") and self._generations.get(name) != generation:
            self._registry.add(kind_from_crd(crd, since))
            self._generations[name] = generation

    def stop(self, name: str) -> None:
        if name not in self._natives:
            plural, _, group = name.partition(".")
            self._generations.pop(name, None)
            self._registry.remove(group, plural)

    def follow(self, store: Store) -> None:
        """Serve what is established in `store`, by whomever, now and from now on."""
        for stored in store.scan(BUCKET):
            self.serve(stored.obj, store.revision)
        store.observe(self._changed)

    def _changed(self, event: Event) -> None:
        key = event.stored.key
        if key.resource != BUCKET:
            return
        if event.type == "DELETED":
            self.stop(key.name)
        else:
            self.serve(event.stored.obj, event.revision)
