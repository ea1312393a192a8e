"""Virtual nodes: their objects, and the leases that say they are alive."""

from __future__ import annotations

import logging
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from corral.client.protocol import Client
from corral.core.conditions import set_condition
from corral.core.errors import AlreadyExists, ApiError, NotFound
from corral.core.meta import Obj, labels_of, metadata_of, spec_of, status_of
from corral.kinds.kubernetes.coordination import LEASES
from corral.kinds.kubernetes.core.kinds import NODES
from corral.runtime.clock import Clock

log = logging.getLogger(__name__)

MANAGER = "kubelet"
LEASE_NAMESPACE = "kube-node-lease"
HEARTBEAT_S = 10.0
LEASE_S = 40
VERSION = "v1.34.0"


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node to pretend to be."""

    name: str
    capacity: Mapping[str, str] = field(default_factory=lambda: {"cpu": "8", "memory": "32Gi", "pods": "110"})
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Obj] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    address: str = "127.0.0.1"
    runtime: str = "corral"


def node_object(node: NodeSpec) -> Obj:
    """The Node as it is registered."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": node.name,
            "labels": default_labels(node),
            **({"annotations": dict(node.annotations)} if node.annotations else {}),
        },
        "spec": {"taints": [dict(taint) for taint in node.taints]} if node.taints else {},
    }


def default_labels(node: NodeSpec) -> dict[str, str]:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "beta.kubernetes.io/arch": machine,
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": machine,
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
        **node.labels,
    }


def node_status(node: NodeSpec, old: Obj, now: str) -> Obj:
    """The status of a healthy node. What clients added to capacity (extended resources) is kept."""
    capacity = {"pods": "110", **(old.get("capacity") or {}), **node.capacity}
    allocatable = {"pods": "110", **(old.get("allocatable") or {}), **node.capacity}
    conditions: list[Obj] = list(old.get("conditions") or [])
    for kind, status, reason, message in (
        ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ):
        entry = {"type": kind, "status": status, "lastHeartbeatTime": now, "reason": reason, "message": message}
        conditions = set_condition(conditions, entry, now)
    return {
        **old,
        "capacity": capacity,
        "allocatable": allocatable,
        "conditions": conditions,
        "addresses": [
            {"type": "InternalIP", "address": node.address},
            {"type": "Hostname", "address": node.name},
        ],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "nodeInfo": {
            "machineID": node.name,
            "systemUUID": node.name,
            "bootID": node.name,
            "kernelVersion": platform.release(),
            "osImage": "Corral",
            "containerRuntimeVersion": f"{node.runtime}://0.1",
            "kubeletVersion": VERSION,
            "kubeProxyVersion": "",
            "operatingSystem": "linux",
            "architecture": default_labels(node)["kubernetes.io/arch"],
        },
    }


class NodeKeeper:
    """Registers nodes, renews their leases, and puts their status right when somebody changed it."""

    def __init__(self, client: Client, clock: Clock, nodes: Sequence[NodeSpec]) -> None:
        self._client = client
        self._clock = clock
        self._nodes = nodes

    async def run(self) -> None:
        """Register, then renew until cancelled."""
        for node in self._nodes:
            await self.register(node)
        while True:
            for node in self._nodes:
                await self._renew(node)
            await self._clock.sleep(HEARTBEAT_S)

    async def register(self, node: NodeSpec) -> None:
        """Create the Node or bring an old one up to date, and set its status."""
        try:
            found = await self._client.get(NODES, node.name)
        except NotFound:
            try:
                found = await self._client.create(NODES, node_object(node), manager=MANAGER)
            except AlreadyExists:
                found = await self._client.get(NODES, node.name)
        labels = {**labels_of(found), **default_labels(node)}
        if labels != labels_of(found):
            found = await self._client.update(
                NODES, {**found, "metadata": {**metadata_of(found), "labels": labels}}, manager=MANAGER
            )
        status = node_status(node, status_of(found), self._clock.timestamp())
        found = await self._client.update(NODES, {**found, "status": status}, subresource="status", manager=MANAGER)
        await self._clear_not_ready(found)

    async def _clear_not_ready(self, node: Obj) -> None:
        """Nobody else takes the `not-ready` taint off, which the API server puts on new nodes."""
        taints = spec_of(node).get("taints") or []
        kept = [taint for taint in taints if taint.get("key") != "node.kubernetes.io/not-ready"]
        if len(kept) != len(taints):
            await self._client.update(NODES, {**node, "spec": {**spec_of(node), "taints": kept}}, manager=MANAGER)

    async def _renew(self, node: NodeSpec) -> None:
        now = self._clock.micro_timestamp()
        try:
            await self._client.patch(LEASES, node.name, LEASE_NAMESPACE, {"spec": {"renewTime": now}}, manager=MANAGER)
        except NotFound:
            await self._create_lease(node, now)
        except ApiError as error:
            log.info("lease not renewed", extra={"node": node.name, "error": str(error)})

    async def _create_lease(self, node: NodeSpec, now: str) -> None:
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": node.name, "namespace": LEASE_NAMESPACE},
            "spec": {"holderIdentity": node.name, "leaseDurationSeconds": LEASE_S, "renewTime": now},
        }
        try:
            await self._client.create(LEASES, lease, manager=MANAGER)
        except ApiError as error:
            log.info("lease not created", extra={"node": node.name, "error": str(error)})
