"""Who may do what with jobs: rules of RBAC, derived from the adapters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from corral.core.meta import Obj
from corral.jobs.framework.adapter import JobAdapter
from corral.jobs.framework.registry import dispatched_adapters

READ = ("get", "list", "watch")
WRITE = ("create", "delete", *READ, "patch", "update")


def worker_rules(adapters: Iterable[JobAdapter] | None = None) -> list[Obj]:
    """What a manager has to be allowed on a worker: to make, change and remove jobs there, and to read how they are."""
    by_group = _plurals(adapters)
    jobs = [_rule(group, plurals, WRITE) for group, plurals in by_group.items()]
    return [*jobs, *(_rule(group, [f"{name}/status" for name in names], ("get",)) for group, names in by_group.items())]


def needed_rules(adapters: Iterable[JobAdapter] | None = None) -> list[Obj]:
    """What a manager has to be allowed that brings a worker the objects jobs are made from."""
    found: dict[str, list[str]] = {}
    for adapter in dispatched_adapters() if adapters is None else adapters:
        for resource in adapter.needs:
            found.setdefault(resource.group, []).append(resource.plural)
    return [_rule(group, plurals, ("create", "get", "patch", "update")) for group, plurals in found.items()]


def user_rules() -> list[Obj]:
    """What people who submit jobs have to be allowed; pods and sets of them are Kubernetes' own to grant."""
    jobs = [adapter for adapter in dispatched_adapters() if not adapter.found_by_labels]
    return [
        _rule(group, [part for plural in plurals for part in (plural, f"{plural}/status")], sorted(WRITE))
        for group, plurals in _plurals(jobs).items()
    ]


def _plurals(adapters: Iterable[JobAdapter] | None) -> dict[str, list[str]]:
    """Resource names by API group, in order."""
    found: dict[str, list[str]] = {}
    for adapter in dispatched_adapters() if adapters is None else adapters:
        found.setdefault(adapter.resource.group, []).append(adapter.resource.plural)
    return found


def _rule(group: str, resources: Sequence[str], verbs: Sequence[str]) -> Obj:
    return {"apiGroups": [group], "resources": list(resources), "verbs": list(verbs)}
