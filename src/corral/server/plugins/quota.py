"""ResourceQuotas: how many objects a namespace may hold and how much its pods may ask for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from corral.core import errors
from corral.core.admission import AdmissionRequest
from corral.core.meta import Obj, spec_of, status_of
from corral.core.quantity import Quantity
from corral.core.resource import Resource
from corral.server.plugins.base import BuiltinPlugin
from corral.store import Store

Usage = dict[str, Quantity]
QUOTAS = "resourcequotas"
_ZERO = Quantity.parse("0")
_ONE = Quantity.parse("1")
# Kinds that quotas may also count by their bare plural.
_COUNTED_BARE = frozenset(
    {"pods", "services", "configmaps", "secrets", "replicationcontrollers", "persistentvolumeclaims", "resourcequotas"}
)


class ResourceQuota(BuiltinPlugin):
    """Refuses what would take a namespace over one of its quotas."""

    name = "ResourceQuota"

    def __init__(self, store: Store):
        self._store = store

    def handles(self, request: AdmissionRequest) -> bool:
        return (
            request.operation == "CREATE"
            and not request.subresource
            and request.resource.namespaced
            and self._store.count(QUOTAS, request.namespace) > 0
        )

    async def validate(self, request: AdmissionRequest) -> None:
        assert request.obj is not None
        wanted = usage_of(request.resource, request.obj)
        for stored in self._store.scan(QUOTAS, request.namespace):
            quota = stored.obj
            hard = {name: Quantity.parse(value) for name, value in (spec_of(quota).get("hard") or {}).items()}
            asked = {name: wanted[name] for name in sorted(hard) if name in wanted}
            if not asked or not in_scope(quota, request.resource, request.obj):
                continue
            used = usage_in(self._store, request.namespace, asked, quota)
            over = [name for name in asked if used.get(name, _ZERO) + asked[name] > hard[name]]
            if over:
                raise errors.forbidden(
                    request.resource, request.name, _exceeded(stored.key.name, over, asked, used, hard)
                )


def _exceeded(name: str, over: list[str], asked: Usage, used: Usage, hard: Usage) -> str:
    def shown(amounts: Mapping[str, Quantity]) -> str:
        return ",".join(f"{resource}={amounts.get(resource, _ZERO)}" for resource in over)

    return f"exceeded quota: {name}, requested: {shown(asked)}, used: {shown(used)}, limited: {shown(hard)}"


def usage_of(resource: Resource, obj: Obj) -> Usage:
    """What one object counts for, under every name a quota may use."""
    usage: Usage = {f"count/{resource.group_resource}": _ONE}
    if not resource.group and resource.plural in _COUNTED_BARE:
        usage[resource.plural] = _ONE
    if resource.plural == "pods" and not resource.group:
        if status_of(obj).get("phase") in ("Succeeded", "Failed"):
            return {}
        usage.update(_pod_usage(obj))
    return usage


def _pod_usage(pod: Obj) -> Usage:
    usage: Usage = {}
    for container in spec_of(pod).get("containers") or ():
        resources = container.get("resources") or {}
        for part in ("requests", "limits"):
            for name, amount in (resources.get(part) or {}).items():
                value = Quantity.parse(amount)
                titles = [f"{part}.{name}"] + ([name] if part == "requests" and name in ("cpu", "memory") else [])
                for title in titles:
                    usage[title] = usage.get(title, _ZERO) + value
    return usage


def usage_in(store: Store, namespace: str, names: Iterable[str], quota: Obj) -> Usage:
    """What a namespace uses of the named resources now."""
    total: Usage = {}
    names = list(names)
    for bucket in sorted({_bucket_of(name) for name in names}):
        plural, _, group = bucket.partition(".")
        resource = Resource(group, "", plural, "")
        for stored in store.scan(bucket, namespace):
            if in_scope(quota, resource, stored.obj):
                found = usage_of(resource, stored.obj)
                for name in names:
                    if name in found:
                        total[name] = total.get(name, _ZERO) + found[name]
    return total


def _bucket_of(name: str) -> str:
    if name.startswith("count/"):
        return name.removeprefix("count/")
    return name if name in _COUNTED_BARE else "pods"


def in_scope(quota: Obj, resource: Resource, obj: Obj) -> bool:
    """Whether a quota with scopes is about this object."""
    scopes = spec_of(quota).get("scopes") or ()
    if not scopes:
        return True
    if resource.plural != "pods":
        return False
    terminating = spec_of(obj).get("activeDeadlineSeconds") is not None
    best_effort = status_of(obj).get("qosClass", "BestEffort" if not _pod_usage(obj) else "Burstable") == "BestEffort"
    facts = {
        "Terminating": terminating,
        "NotTerminating": not terminating,
        "BestEffort": best_effort,
        "NotBestEffort": not best_effort,
    }
    return all(facts.get(scope, True) for scope in scopes)
