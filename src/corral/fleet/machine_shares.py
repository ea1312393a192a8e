"""Dividing one machine among the nodes of a fleet: their sum is what the machine has, unless the fleet overcommits.

What a node says it has is its own; what it does not say is an equal share of what the others leave. Devices that the machine has are
handed to one node each; a resource that it has no devices of is pretended, with numbers of its own for every node of the fleet.
Clusters whose pods are simulated use nothing. Pure but for `find_machine`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace

import msgspec

from corral.configuration.fleet import ClusterSpec, FleetError, FleetSpec, GpuOptions, NodeGroup
from corral.core.quantity import milli, value
from corral.node.machine.devices import Device, Equipment, devices_of, is_device, labels_of, pretended
from corral.node.machine.gpus import Gpu, find_gpus
from corral.node.machine.size import Size, find_size

MEBI = 1024 * 1024
REMEDY = "ask for less, or say --overcommit (`overcommit: true` in fleet.yaml) to let them share it"


@dataclass(frozen=True, slots=True)
class Machine:
    """What there is to divide."""

    size: Size
    gpus: tuple[Gpu, ...] = ()

    def devices(self, options: GpuOptions) -> list[Device]:
        """Its devices, as a fleet wants them handed out."""
        gpus = [gpu for gpu in self.gpus if options.use is None or gpu.index in options.use]
        return devices_of(gpus, options.shares, options.mig)


def find_machine() -> Machine:
    return Machine(find_size(), tuple(find_gpus()))


def divided(fleet: FleetSpec, machine: Machine) -> FleetSpec:
    """The fleet with every number filled in. Raises FleetError where its nodes would have more than the machine."""
    fleet = _with_devices(fleet, machine.devices(fleet.gpus))
    fleet = _with_amounts(fleet, machine.size)
    if not fleet.overcommit:
        _refuse_excess(fleet, machine)
    return fleet


def equipped(fleet: FleetSpec, machine: Machine, owner: str) -> dict[str, Equipment]:
    """The devices of each cluster's nodes. `owner` is who pretends those that the machine has not."""
    real: dict[str, list[Device]] = {}
    for device in machine.devices(fleet.gpus):
        real.setdefault(device.resource, []).append(device)
    handed: dict[str, int] = {}
    name = hashlib.sha256(owner.encode()).hexdigest()[:12]
    found = {}
    for cluster in fleet.clusters:
        devices: dict[str, list[Device]] = {}
        for group, node in _nodes(cluster):
            devices[node] = []
            for resource, count in _device_counts(group).items():
                first = handed.get(resource, 0)
                handed[resource] = first + count
                if known := real.get(resource):
                    numbers = range(first, first + count)
                    among = [known[n % len(known)] for n in numbers if fleet.overcommit or n < len(known)]
                    devices[node] += dict.fromkeys(among)
                else:
                    devices[node] += pretended(resource, first, count, name)
        labels = {node: labels_of(held, machine.gpus) for node, held in devices.items()}
        found[cluster.name] = Equipment(devices, labels, tuple(sorted({gpu.resource for gpu in machine.gpus})))
    return found


def _nodes(cluster: ClusterSpec) -> Iterator[tuple[NodeGroup, str]]:
    if not cluster.is_simulated:
        yield from ((group, name) for group in cluster.nodes for name in group.names())


def _device_counts(group: NodeGroup) -> dict[str, int]:
    return {resource: value(amount) for resource, amount in group.resources.items() if is_device(resource)}


def _all_nodes(fleet: FleetSpec) -> list[NodeGroup]:
    return [group for cluster in fleet.clusters for group, _ in _nodes(cluster)]


def _with_devices(fleet: FleetSpec, devices: list[Device]) -> FleetSpec:
    """Found devices divided among the nodes, where none of them says how many it has."""
    nodes = _all_nodes(fleet)
    said = {resource for group in nodes for resource in group.resources}
    found: dict[str, int] = {}
    for device in devices:
        if device.resource not in said:
            found[device.resource] = found.get(device.resource, 0) + 1
    if not found or not nodes:
        return fleet
    shares = iter([{r: _share(count, len(nodes), at) for r, count in found.items()} for at in range(len(nodes))])
    clusters = []
    for cluster in fleet.clusters:
        groups: list[NodeGroup] = []
        for group in cluster.nodes:
            groups += [group] if cluster.is_simulated else _split(group, [next(shares) for _ in group.names()])
        clusters.append(msgspec.structs.replace(cluster, nodes=groups))
    return msgspec.structs.replace(fleet, clusters=clusters)


def _share(count: int, parts: int, at: int) -> int:
    return count // parts + (at < count % parts)


def _split(group: NodeGroup, shares: list[dict[str, int]]) -> list[NodeGroup]:
    """The group with devices; nodes that do not have as many as the first are groups of their own."""

    def having(one: NodeGroup, share: dict[str, int]) -> NodeGroup:
        own: dict[str, str | int] = {resource: count for resource, count in share.items() if count}
        return msgspec.structs.replace(one, resources={**one.resources, **own})

    if all(share == shares[0] for share in shares):
        return [having(group, shares[0])] if shares else [group]
    alone = [msgspec.structs.replace(group, name=name, count=1) for name in group.names()]
    return [having(one, share) for one, share in zip(alone, shares, strict=True)]


def _with_amounts(fleet: FleetSpec, size: Size) -> FleetSpec:
    """CPUs and memory that nodes do not say: equal shares of what those leave that do."""
    nodes = _all_nodes(fleet)
    left = replace(
        size,
        cpu_milli=size.cpu_milli - sum(milli(group.cpu) for group in nodes if group.cpu != ""),
        memory=size.memory - sum(value(group.memory) for group in nodes if group.memory != ""),
    )
    cpu, memory = sum(group.cpu == "" for group in nodes), sum(group.memory == "" for group in nodes)
    for what, count, rest in (("CPUs", cpu, left.cpu_milli), ("memory", memory, left.memory // MEBI)):
        if count and rest < count:
            raise FleetError(
                f"nothing of this machine's {what} is left for the {count} nodes that do not say how much; {REMEDY}, "
                f"and say how much each node has"
            )

    def filled(group: NodeGroup) -> NodeGroup:
        return msgspec.structs.replace(
            group,
            cpu=f"{left.cpu_milli // cpu}m" if group.cpu == "" else group.cpu,
            memory=f"{left.memory // memory // MEBI}Mi" if group.memory == "" else group.memory,
        )

    clusters = [
        cluster if cluster.is_simulated else msgspec.structs.replace(cluster, nodes=[filled(g) for g in cluster.nodes])
        for cluster in fleet.clusters
    ]
    return msgspec.structs.replace(fleet, clusters=clusters)


def _refuse_excess(fleet: FleetSpec, machine: Machine) -> None:
    nodes = _all_nodes(fleet)
    cpu, memory = sum(milli(group.cpu) for group in nodes), sum(value(group.memory) for group in nodes)
    if cpu > machine.size.cpu_milli:
        raise FleetError(
            f"the nodes have {cpu / 1000:g} CPUs together, and this machine {machine.size.cpu_milli / 1000:g}; {REMEDY}"
        )
    if memory > machine.size.memory:
        has = f"{machine.size.memory // MEBI}Mi"
        raise FleetError(f"the nodes have {memory // MEBI}Mi of memory together, and this machine {has}; {REMEDY}")
    real = [device.resource for device in machine.devices(fleet.gpus)]
    for resource in sorted(set(real)):
        wanted = sum(_device_counts(group).get(resource, 0) for group in nodes)
        if wanted > real.count(resource):
            raise FleetError(
                f"the nodes have {wanted} {resource} together, and this machine {real.count(resource)}; {REMEDY}"
            )
