"""The devices of a cluster's pods: which each node has, which a pod asks for, and which of them each container is told about."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from corral.core.meta import Obj, spec_of
from corral.core.quantity import value
from corral.node.machine.devices import Device, environment, is_device, pretended, vendor_of
from corral.node.process.connection import SupervisorConnection
from corral.node.runtime import RuntimeProblem


class PodDevices:
    """Claims devices for pods. A node of which nothing is known has as many as its capacity says, and they are pretended."""

    def __init__(
        self,
        state: Path,
        connection: SupervisorConnection,
        given: Mapping[str, Sequence[Device]],
        vendors: Iterable[str],
    ) -> None:
        self._owner = hashlib.sha256(str(state).encode()).hexdigest()[:12]
        self._connection = connection
        self._nodes = {node: tuple(devices) for node, devices in given.items()}
        self._vendors = set(vendors)

    def open(self, capacity: Mapping[str, Mapping[str, str]]) -> None:
        """Learn the capacities of the nodes."""
        count = 0
        for node, amounts in capacity.items():
            if node in self._nodes:
                continue
            for resource, amount in amounts.items():
                if is_device(resource):
                    devices = pretended(resource, count, value(amount), self._owner)
                    self._nodes[node] = (*self._nodes.get(node, ()), *devices)
                    count += len(devices)
        self._vendors |= {vendor_of(device.resource) for devices in self._nodes.values() for device in devices}

    async def claim(self, pod: Obj, uid: str, held: Iterable[str] = ()) -> tuple[str, ...]:
        """The devices `pod` asks for: those it `held` before, where they are still free. Raises RuntimeProblem."""
        node = str(spec_of(pod).get("nodeName") or "")
        before, claimed = set(held), []
        for resource, count in asked_for(pod).items():
            devices = [device for device in self._nodes.get(node, ()) if device.resource == resource]
            names = [device.claim for device in sorted(devices, key=lambda device: device.claim not in before)]
            found, holders = await self._connection.claim(uid, count, names)
            if not found:
                await self._connection.unclaim(uid)
                raise RuntimeProblem("ContainerCreating", _missing(resource, count, devices, holders))
            claimed += found
        return tuple(claimed)

    async def give_back(self, uid: str) -> None:
        await self._connection.unclaim(uid)

    def environment(self, pod: Obj, container: Obj, node: str, held: Sequence[str]) -> dict[str, str]:
        """What tells `container` which devices of its pod are its own: containers that run together share none."""
        known = {device.claim: device for device in self._nodes.get(node, ())}
        own: list[Device] = []
        for resource in asked_for(pod):
            devices = [known[name] for name in held if name in known and known[name].resource == resource]
            first = 0
            for other in spec_of(pod).get("containers") or []:
                if other["name"] == container["name"]:
                    break
                first += _limits(other).get(resource, 0)
            else:
                first = 0  # one that runs before the others
            own += devices[first : first + _limits(container).get(resource, 0)]
        return environment(own, vendors=self._vendors - {""})


def asked_for(pod: Obj) -> dict[str, int]:
    """How many devices of each resource a pod needs at a time."""
    running = [_limits(container) for container in spec_of(pod).get("containers") or []]
    before = [_limits(container) for container in spec_of(pod).get("initContainers") or []]
    resources = sorted({resource for limits in (*running, *before) for resource in limits})
    return {
        resource: max(
            sum(limits.get(resource, 0) for limits in running), *(limits.get(resource, 0) for limits in before), 0
        )
        for resource in resources
    }


def _limits(container: Obj) -> dict[str, int]:
    limits = (container.get("resources") or {}).get("limits") or {}
    counts = {resource: value(amount) for resource, amount in limits.items() if is_device(resource)}
    return {resource: count for resource, count in counts.items() if count}


def _missing(resource: str, count: int, devices: Sequence[Device], holders: Mapping[str, str]) -> str:
    text = f"Allocate failed due to requested number of devices unavailable: {count} of {resource}"
    taken = [f"{device.visible} is held by {who}" for device in devices if (who := holders.get(device.claim))]
    return f"{text}; " + ", ".join(taken) if taken else text
