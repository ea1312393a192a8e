"""What a scheduler looks at: pods and nodes, parsed once into integers and tuples.

Amounts are milli-units for cpu and whole units for everything else. A `NodeState` is changed in place by its owner, which
adds and removes pods as they come and go; the rules only read it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from corral.core.meta import Key, Obj, key_of, labels_of, metadata_of, name_of, spec_of, status_of, uid_of
from corral.core.quantity import milli, value
from corral.core.timestamps import parse_time
from corral.decide.pods.record import is_sidecar

Amounts = dict[str, int]
_SHAPE_FIELDS = ("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "nodeName")


@lru_cache(maxsize=65536)
def _amount(resource: str, text: str) -> int:
    return milli(text) if resource == "cpu" else value(text)


def amounts(quantities: Mapping[str, object] | None) -> Amounts:
    return {name: _amount(name, str(text)) for name, text in (quantities or {}).items()}


def _add(total: Amounts, more: Mapping[str, int]) -> Amounts:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount
    return total


def pod_requests(pod: Obj) -> Amounts:
    """What a pod needs on its node: its containers together, or its largest init container if that is more."""
    spec = spec_of(pod)
    total: Amounts = {}
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.get("containers") or ():
        _add(total, _requests(container))
    for container in spec.get("initContainers") or ():
        wanted = _requests(container)
        if is_sidecar(container):
            _add(sidecars, wanted)
            wanted = dict(sidecars)
        else:
            wanted = _add(dict(wanted), sidecars)
        for name, amount in wanted.items():
            peak[name] = max(peak.get(name, 0), amount)
    _add(total, sidecars)
    for name, amount in peak.items():
        total[name] = max(total.get(name, 0), amount)
    return _add(total, amounts(spec.get("overhead")))


def _requests(container: Obj) -> Amounts:
    resources = container.get("resources") or {}
    return amounts({**(resources.get("limits") or {}), **(resources.get("requests") or {})})


def host_ports(pod: Obj) -> frozenset[tuple[str, str, int]]:
    """The ports of its node a pod wants to itself: address, protocol, number."""
    return frozenset(
        (port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP", int(port["hostPort"]))
        for container in spec_of(pod).get("containers") or ()
        for port in container.get("ports") or ()
        if port.get("hostPort")
    )


def claims_of(pod: Obj) -> tuple[str, ...]:
    """The names of the PersistentVolumeClaims a pod mounts."""
    volumes = spec_of(pod).get("volumes") or ()
    found = (str((volume.get("persistentVolumeClaim") or {}).get("claimName") or "") for volume in volumes)
    return tuple(sorted(filter(None, found)))


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod as the scheduler sees it."""

    key: Key
    uid: str
    requests: Amounts = field(hash=False)
    priority: int
    labels: Mapping[str, str] = field(hash=False)
    spec: Obj = field(hash=False)
    shape: str
    """Equal for pods that every node treats alike."""
    ports: frozenset[tuple[str, str, int]]
    created: str
    started: float
    may_preempt: bool
    is_deleting: bool = False
    claims: tuple[str, ...] = ()
    """The PersistentVolumeClaims it mounts, which have to be there first."""

    @property
    def namespace(self) -> str:
        return self.key.namespace

    @property
    def affinity(self) -> Obj:
        return self.spec.get("affinity") or {}


def view_pod(pod: Obj) -> PodView:
    spec = spec_of(pod)
    requests = pod_requests(pod)
    ports = host_ports(pod)
    shape = {name: spec[name] for name in _SHAPE_FIELDS if spec.get(name)}
    has_rules = "affinity" in shape or "topologySpreadConstraints" in shape
    claims = claims_of(pod)
    identity = [key_of(pod).namespace, shape, requests, sorted(ports), labels_of(pod) if has_rules else None, *claims]
    started = status_of(pod).get("startTime")
    return PodView(
        key=key_of(pod),
        uid=uid_of(pod),
        requests=requests,
        priority=int(spec.get("priority") or 0),
        labels=labels_of(pod),
        spec=spec,
        shape=json.dumps(identity, sort_keys=True),
        ports=ports,
        claims=claims,
        created=str(metadata_of(pod).get("creationTimestamp") or ""),
        started=parse_time(started) if started else float("inf"),
        may_preempt=spec.get("preemptionPolicy") != "Never",
        is_deleting=metadata_of(pod).get("deletionTimestamp") is not None,
    )


@dataclass(slots=True)
class NodeState:
    """A node and what is on it."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[Obj, ...]
    allocatable: Amounts
    unschedulable: bool = False
    used: Amounts = field(default_factory=dict)
    pods: dict[str, PodView] = field(default_factory=dict)
    nominated: dict[str, PodView] = field(default_factory=dict)
    """Pods for which others were asked to leave; they count for pods that are not more important."""

    def add(self, pod: PodView) -> None:
        if pod.uid not in self.pods:
            self.pods[pod.uid] = pod
            _add(self.used, pod.requests)

    def remove(self, uid: str) -> None:
        pod = self.pods.pop(uid, None)
        if pod is not None:
            for name, amount in pod.requests.items():
                self.used[name] -= amount


def view_node(node: Obj) -> NodeState:
    spec = spec_of(node)
    allocatable = status_of(node).get("allocatable") or status_of(node).get("capacity")
    return NodeState(
        name_of(node),
        labels_of(node),
        tuple(spec.get("taints") or ()),
        amounts(allocatable),
        bool(spec.get("unschedulable")),
    )
