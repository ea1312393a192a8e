"""The registry: every kind one cluster serves, found by resource or by kind.

Kubernetes' own kinds are always there. Custom kinds come and go with CustomResourceDefinition objects; those that
Corral declares itself, its natives, keep their in-process conversion and rules when their CRD is registered. Kinds of
jobs are declared above this room: `corral.jobs.framework.served_kinds` puts them and these together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module

from corral.kinds.machinery.definition import KindDef, VersionDef

BUILTIN_MODULES = (
    "corral.kinds.kubernetes.core.kinds",
    "corral.kinds.kubernetes.apiregistration",
    "corral.kinds.kubernetes.apps.kinds",
    "corral.kinds.kubernetes.events",
    "corral.kinds.kubernetes.authentication",
    "corral.kinds.kubernetes.authorization",
    "corral.kinds.kubernetes.autoscaling",
    "corral.kinds.kubernetes.certificates",
    "corral.kinds.kubernetes.networking.kinds",
    "corral.kinds.kubernetes.policy",
    "corral.kinds.kubernetes.rbac",
    "corral.kinds.kubernetes.storage",
    "corral.kinds.kubernetes.admissionregistration.kinds",
    "corral.kinds.kubernetes.apiextensions.kinds",
    "corral.kinds.kubernetes.scheduling",
    "corral.kinds.kubernetes.coordination",
    "corral.kinds.kubernetes.node",
    "corral.kinds.kubernetes.networking.endpoint_slices",
    "corral.kinds.kubernetes.dynamic_resources",
    "corral.kinds.kubernetes.flowcontrol",
    "corral.kinds.kubernetes.metrics",
)
"""Modules with Kubernetes' own kinds, in the order discovery lists their groups."""

GROUP_ORDER = (
    "", "apiregistration.k8s.io", "apps", "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "autoscaling",
    "batch", "certificates.k8s.io",
)  # fmt: skip
"""The first groups discovery lists; those that are not here follow as they come."""

QUEUE_MODULES = ("corral.kinds.kueue",)
FLEET_MODULES = ("corral.kinds.kueue.provisioning", "corral.kinds.fleet")
"""Modules with the custom kinds Corral ships beside those of jobs."""


class Registry:
    """Kinds by (group, plural) and by (group, kind). `revision` grows with every change, for caches of discovery."""

    def __init__(self, kinds: Iterable[KindDef] = (), natives: Iterable[KindDef] = ()) -> None:
        self._by_plural: dict[tuple[str, str], KindDef] = {}
        self._by_kind: dict[tuple[str, str], KindDef] = {}
        self.natives = tuple(natives)
        self._natives = {(kind.group, kind.kind): kind for kind in self.natives}
        self._grouped: dict[str, list[KindDef]] = {}
        self._grouped_at = -1
        self.revision = 0
        for kind in kinds:
            self.add(kind)

    def add(self, kind: KindDef) -> KindDef:
        """Serve `kind`, in place of an earlier one with the same resource name; returns what is now served."""
        native = self._natives.get((kind.group, kind.kind))
        if native is not None and native is not kind:
            kind = kind.with_hooks_of(native)
        previous = self._by_plural.get((kind.group, kind.plural))
        if previous is not None:
            self._by_kind.pop((previous.group, previous.kind), None)
        self._by_plural[kind.group, kind.plural] = kind
        self._by_kind.setdefault((kind.group, kind.kind), kind)
        self.revision += 1
        return kind

    def remove(self, group: str, plural: str) -> None:
        """Stop serving a kind; no error when it is not served."""
        kind = self._by_plural.pop((group, plural), None)
        if kind is not None:
            self._by_kind.pop((kind.group, kind.kind), None)
            self.revision += 1

    def get(self, group: str, plural: str) -> KindDef | None:
        return self._by_plural.get((group, plural))

    def by_kind(self, group: str, kind: str) -> KindDef | None:
        return self._by_kind.get((group, kind))

    def find(self, api_version: str, kind: str) -> tuple[KindDef, VersionDef] | None:
        """The kind an object with this apiVersion and kind belongs to, if that version is served."""
        group, _, version = api_version.rpartition("/")
        found = self._by_kind.get((group, kind))
        served = found.version(version) if found is not None else None
        return (found, served) if found is not None and served is not None and served.served else None

    def groups(self) -> list[str]:
        """Groups with at least one kind, in the order they were added."""
        return list(dict.fromkeys(group for group, _ in self._by_plural))

    def in_group(self, group: str) -> list[KindDef]:
        """The kinds of a group, in the order they were added; every request asks whether there are any."""
        if self._grouped_at != self.revision:
            self._grouped_at = self.revision
            self._grouped = {}
            for kind in self._by_plural.values():
                self._grouped.setdefault(kind.group, []).append(kind)
        return list(self._grouped.get(group, ()))

    def __iter__(self) -> Iterator[KindDef]:
        return iter(list(self._by_plural.values()))

    def __len__(self) -> int:
        return len(self._by_plural)


@cache
def kinds_in(modules: tuple[str, ...]) -> tuple[KindDef, ...]:
    """What some modules declare, in order."""
    return tuple(kind for name in modules for kind in import_module(name).KINDS)


def in_group_order(kinds: Iterable[KindDef]) -> list[KindDef]:
    """Kubernetes' own kinds in the order of their groups, as they come within one."""
    return sorted(
        kinds, key=lambda kind: GROUP_ORDER.index(kind.group) if kind.group in GROUP_ORDER else len(GROUP_ORDER)
    )
