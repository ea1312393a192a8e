"""What a member tells its hub about itself: nodes, resources, and beyond upstream extended resources and queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from corral.core.conditions import condition, is_true
from corral.core.meta import Obj, labels_of, name_of, owner_references_of, spec_of, status_of
from corral.core.quantity import Quantity
from corral.decide.member.ownership import is_applied_work
from corral.kinds.fleet.names import NODE_COUNT

OWN_RESOURCES: Final = "resources.corral.dev/"
LARGEST_FREE: Final = "largest-free-node.corral.dev/"
QUEUE_QUOTA: Final = "quota.queues.corral.dev/"
QUEUE_USAGE: Final = "usage.queues.corral.dev/"
QUEUE_PENDING: Final = "pending.queues.corral.dev/"
MAX_NAMESPACES: Final = 200
PROVIDER_CONDITIONS: Final = (
    "ClusterPropertyProviderStarted",
    "ClusterPropertyCollectionSucceeded",
    "NamespaceCollectionSucceeded",
    "AKSClusterCostPropertiesCollectionSucceeded",
)
_AZURE: Final = "kubernetes.azure.com/"
_SIZE_LABELS: Final = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_ZERO: Final = Quantity.parse(0)
_BASIC: Final = ("cpu", "memory")
_MAX_NAME: Final = 63

Amounts = dict[str, Quantity]


def usage_of(nodes: Sequence[Obj], pods: Sequence[Obj], *, extended: bool = False) -> Obj:
    """Capacity, allocatable and available amounts of the whole cluster: CPU and memory, and if asked for the rest."""
    names = _names(nodes, extended)
    allocatable = _sum((status_of(node).get("allocatable") or {} for node in nodes), names)
    requested = _sum((asked for pod in pods if _counts(pod) for asked in _requests(pod)), names)
    available = {name: max(amount - requested[name], _ZERO) for name, amount in allocatable.items()}
    capacity = _sum((status_of(node).get("capacity") or {} for node in nodes), names)
    return {"capacity": _text(capacity), "allocatable": _text(allocatable), "available": _text(available)}


def node_count(nodes: Sequence[Obj]) -> dict[str, str]:
    return {NODE_COUNT: str(len(nodes))}


def placed_namespaces(namespaces: Sequence[Obj]) -> dict[str, str]:
    """The namespaces of a member, each with the Work that brought it or ""; the first of them when there are too many."""
    return {
        name_of(namespace): next(
            (str(one["name"]) for one in owner_references_of(namespace) if is_applied_work(one)), ""
        )
        for namespace in namespaces[:MAX_NAMESPACES]
    }


def provider_conditions(namespaces: int | None) -> list[Obj]:
    """What a provider says about itself; `namespaces` is how many there are, None when they are not collected."""
    started, collected, counted, _ = PROVIDER_CONDITIONS
    reported = [
        condition(started, True, "Started", "The property provider has started successfully"),
        condition(
            collected, True, "PropertiesCollected", "The property provider has returned the latest cluster properties"
        ),
    ]
    if namespaces is not None and namespaces > MAX_NAMESPACES:
        text = "Namespaces are collected in a degraded mode since the number of namespaces reaches the track limit"
        reported.append(condition(counted, False, "Degraded", text))
    elif namespaces is not None:
        reported.append(condition(counted, True, "Succeeded", "All namespaces have been collected successfully"))
    return reported


def azure_properties(nodes: Sequence[Obj], *, costs: bool) -> dict[str, str]:
    """The number of nodes of each size, and what they cost where that can be told: nothing costs nothing."""
    sizes = Counter(_size_of(node) or "undefined" for node in nodes)
    found = {f"{_AZURE}vm-sizes/{size}/count": str(count) for size, count in sorted(sizes.items())}
    if costs and not nodes:
        found |= {f"{_AZURE}per-cpu-core-cost": "0.000", f"{_AZURE}per-gb-memory-cost": "0.000"}
    return found


def cost_condition(nodes: Sequence[Obj]) -> Obj:
    """What the Azure provider says about costs when it has no price list."""
    kind = PROVIDER_CONDITIONS[3]
    if not nodes:
        return condition(kind, True, "CostsCalculated", "All cost properties have been collected successfully")
    sizes = " ".join(sorted({size for node in nodes if (size := _size_of(node))}))
    text = (
        "An error has occurred when collecting cost properties: nodes are present, but no pricing data is available"
        f" for any node SKUs ([{sizes}])"
    )
    return condition(kind, False, "CostsCalculationFailed", text)


def _size_of(node: Obj) -> str:
    labels = labels_of(node)
    return next((labels[name] for name in _SIZE_LABELS if labels.get(name)), "")


def own_properties(nodes: Sequence[Obj], pods: Sequence[Obj], queues: Sequence[Obj]) -> dict[str, str]:
    """Corral's own properties: extended resources, the most that is free on one node, quota and use of queues."""
    usage = usage_of(nodes, pods, extended=True)
    found: dict[str, str] = {}
    for word, amounts in (("total", "capacity"), ("allocatable", "allocatable"), ("available", "available")):
        for name, amount in usage[amounts].items():
            if name not in _BASIC:
                found[f"{OWN_RESOURCES}{word}-{property_part(name)}"] = amount
    found.update(_largest_free(nodes, pods))
    for queue in queues:
        found.update(_queue(queue))
    return {name: value for name, value in sorted(found.items()) if len(name.rpartition("/")[2]) <= _MAX_NAME}


def property_part(resource: str) -> str:
    """A resource's name where no slash may be: `nvidia.com/gpu` is `nvidia.com_gpu`."""
    return resource.replace("/", "_")


def _names(nodes: Sequence[Obj], extended: bool) -> list[str]:
    names = list(_BASIC)
    if extended:
        more = {name for node in nodes for name in status_of(node).get("allocatable") or {} if "/" in name}
        names += sorted(name for name in more if not name.startswith("hugepages-"))
    return names


def _sum(lists: Iterable[Obj], names: Sequence[str]) -> Amounts:
    total = dict.fromkeys(names, _ZERO)
    for amounts in lists:
        for name in names:
            if name in amounts:
                total[name] += Quantity.parse(amounts[name])
    return total


def _text(amounts: Amounts) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}


def _counts(pod: Obj) -> bool:
    return bool(spec_of(pod).get("nodeName")) and status_of(pod).get("phase") not in ("Succeeded", "Failed")


def _requests(pod: Obj) -> Iterable[Obj]:
    """What each container of a pod asks for; init containers and overhead are not counted, as upstream."""
    return ((container.get("resources") or {}).get("requests") or {} for container in spec_of(pod)["containers"])


def _largest_free(nodes: Sequence[Obj], pods: Sequence[Obj]) -> dict[str, str]:
    usable = [node for node in nodes if is_true(node, "Ready") and not spec_of(node).get("unschedulable")]
    by_node: dict[str, list[Obj]] = {}
    for pod in pods:
        if _counts(pod):
            by_node.setdefault(spec_of(pod)["nodeName"], []).append(pod)
    best: Amounts = {}
    for node in usable:
        free = usage_of([node], by_node.get(name_of(node), ()), extended=True)["available"]
        for name, amount in free.items():
            best[name] = max(best.get(name, _ZERO), Quantity.parse(amount))
    return {f"{LARGEST_FREE}{property_part(name)}": str(amount) for name, amount in best.items()}


def _queue(queue: Obj) -> dict[str, str]:
    name, status = name_of(queue), status_of(queue)
    found = {f"{QUEUE_PENDING}{name}": str(status.get("pendingWorkloads") or 0)}
    quota: Amounts = {}
    for group in spec_of(queue).get("resourceGroups") or ():
        for flavor in group.get("flavors") or ():
            _add(quota, flavor.get("resources") or (), "nominalQuota")
    used: Amounts = {}
    for flavor in status.get("flavorsReservation") or ():
        _add(used, flavor.get("resources") or (), "total")
    for prefix, amounts in ((QUEUE_QUOTA, quota), (QUEUE_USAGE, used)):
        found.update({f"{prefix}{name}.{property_part(resource)}": str(amount) for resource, amount in amounts.items()})
    return found


def _add(total: Amounts, resources: Iterable[Obj], field: str) -> None:
    for entry in resources:
        amount = Quantity.parse(entry.get(field) or 0)
        total[entry["name"]] = total.get(entry["name"], _ZERO) + amount
