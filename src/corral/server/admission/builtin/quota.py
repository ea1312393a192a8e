"""ResourceQuotas: how many objects a namespace may hold and how much its pods may ask for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from corral.core import errors
from corral.core.admission import AdmissionRequest
from corral.core.meta import Obj, spec_of, status_of
from corral.core.quantity import Quantity
from corral.core.resource import Resource
from corral.server.admission.builtin.base import BuiltinPlugin
from corral.store import ObjectKey, Stale, Store

Usage = dict[str, Quantity]
QUOTAS = "resourcequotas"
_ZERO = Quantity.parse("0")
_ONE = Quantity.parse("1")
# Kinds that quotas may also count by their bare plural.
_COUNTED_BARE = frozenset(
    {"pods", "services", "configmaps", "secrets", "replicationcontrollers", "persistentvolumeclaims", "resourcequotas"}
)


_BY_CLASS = ".storageclass.storage.k8s.io/"


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
        charges: list[tuple[ObjectKey, Usage]] = []
        for stored in self._store.scan(QUOTAS, request.namespace):
            hard = amounts(spec_of(stored.obj).get("hard"))
            asked = {name: wanted[name] for name in sorted(hard) if name in wanted}
            if asked and in_scope(stored.obj, request.resource, request.obj):
                self._check(request, stored.obj, hard, asked)
                charges.append((stored.key, asked))
        if not request.dry_run:
            for key, asked in charges:
                await self._charge(request, key, asked)

    def _check(self, request: AdmissionRequest, quota: Obj, hard: Usage, asked: Usage) -> None:
        used = self._used(request.namespace, quota, asked)
        over = [name for name in asked if used[name] + asked[name] > hard[name]]
        if over:
            why = _exceeded(quota["metadata"]["name"], over, asked, used, hard)
            raise errors.forbidden(request.resource, request.name, why)

    def _used(self, namespace: str, quota: Obj, asked: Usage) -> Usage:
        """What the quota's status says is used; counted afresh where it does not say."""
        noted = amounts(status_of(quota).get("used"))
        unknown = [name for name in asked if name not in noted]
        counted = usage_in(self._store, namespace, unknown, quota) if unknown else {}
        return {name: noted.get(name, counted.get(name, _ZERO)) for name in asked}

    async def _charge(self, request: AdmissionRequest, key: ObjectKey, asked: Usage) -> None:
        """Note at once what is admitted, so that the next request sees it; the controller recounts later. What others were admitted
        with is in the head before it is visible, so what is left is looked at again here, where nobody comes in between."""
        while (stored := self._store.head(key)) is not None:
            hard = amounts(spec_of(stored.obj).get("hard"))
            self._check(request, stored.obj, hard, {name: asked[name] for name in asked if name in hard})
            used = status_of(stored.obj).get("used") or {}
            more = {name: str(Quantity.parse(used[name]) + amount) for name, amount in asked.items() if name in used}
            if not more:
                return
            changed = {**stored.obj, "status": {**status_of(stored.obj), "used": {**used, **more}}}
            try:
                await self._store.put(key, changed, expected=stored.revision)
                return
            except Stale:
                continue


def amounts(quantities: Obj | None) -> Usage:
    return {name: Quantity.parse(value) for name, value in (quantities or {}).items()}


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
    elif resource.plural == "persistentvolumeclaims" and not resource.group:
        usage.update(_claim_usage(obj))
    elif resource.plural == "services" and not resource.group:
        usage.update(_service_usage(obj))
    return usage


def _claim_usage(claim: Obj) -> Usage:
    spec = spec_of(claim)
    asked = Quantity.parse(((spec.get("resources") or {}).get("requests") or {}).get("storage") or 0)
    name = spec.get("storageClassName") or ""
    by_class = {f"{name}{_BY_CLASS}requests.storage": asked, f"{name}{_BY_CLASS}persistentvolumeclaims": _ONE}
    return {"requests.storage": asked, **(by_class if name else {})}


def _service_usage(service: Obj) -> Usage:
    spec = spec_of(service)
    kind = spec.get("type") or "ClusterIP"
    ports = Quantity.parse(len(spec.get("ports") or ()))
    if kind == "LoadBalancer":
        with_ports = spec.get("allocateLoadBalancerNodePorts") is not False
        return {"services.loadbalancers": _ONE, "services.nodeports": ports if with_ports else _ZERO}
    return {"services.nodeports": ports} if kind == "NodePort" else {}


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
    for bucket in sorted({bucket_of(name) for name in names}):
        plural, _, group = bucket.partition(".")
        resource = Resource(group, "", plural, "")
        for stored in store.scan(bucket, namespace):
            if in_scope(quota, resource, stored.obj):
                found = usage_of(resource, stored.obj)
                for name in names:
                    if name in found:
                        total[name] = total.get(name, _ZERO) + found[name]
    return total


def bucket_of(name: str) -> str:
    if name.startswith("count/"):
        return name.removeprefix("count/")
    if name == "requests.storage" or _BY_CLASS in name:
        return "persistentvolumeclaims"
    if name.startswith("services."):
        return "services"
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
