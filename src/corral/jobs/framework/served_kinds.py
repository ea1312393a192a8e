"""All kinds a cluster of Corral's serves: Kubernetes' own, those of queueing and of fleets, and every kind of job."""

from __future__ import annotations

from corral.jobs.framework.pod_group_kinds import KINDS as POD_GROUP_KINDS
from corral.jobs.framework.registry import kinds_of_jobs, once
from corral.kinds.machinery.definition import KindDef
from corral.kinds.machinery.registry import (
    BUILTIN_MODULES,
    FLEET_MODULES,
    QUEUE_MODULES,
    Registry,
    in_group_order,
    kinds_in,
)


@once
def builtin_kinds() -> tuple[KindDef, ...]:
    """Kubernetes' own kinds, in the order discovery lists their groups."""
    own = [kind for kind in kinds_of_jobs() if kind.builtin]
    return tuple(in_group_order([*kinds_in(BUILTIN_MODULES), *own]))


@once
def native_kinds() -> tuple[KindDef, ...]:
    """The custom kinds Corral brings; their CRDs are stored when a cluster is made."""
    jobs = [kind for kind in kinds_of_jobs() if not kind.builtin]
    return (*kinds_in(QUEUE_MODULES), *jobs, *POD_GROUP_KINDS, *kinds_in(FLEET_MODULES))


def builtin_registry() -> Registry:
    """A registry as a fresh cluster has it, before any CRD."""
    return Registry(builtin_kinds(), natives=native_kinds())


def full_registry() -> Registry:
    """Kubernetes' own kinds and all that Corral brings, served without CRD objects."""
    registry = builtin_registry()
    for kind in native_kinds():
        registry.add(kind)
    return registry
