"""What `kubectl top` asks for: CPU and memory that the programs of pods use, measured when somebody asks.

CPU is the mean since the last question that is at least a second ago, or since the start of the program.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from corral.core.errors import not_found
from corral.core.meta import Key, Obj, labels_of, name_of, namespace_of, spec_of, status_of, uid_of
from corral.core.quantity import milli, value
from corral.core.timestamps import format_time
from corral.kinds.kubernetes.core.kinds import NODES, PODS
from corral.kinds.kubernetes.metrics import KINDS, NODE_METRICS
from corral.kinds.machinery.definition import KindDef
from corral.kinds.machinery.virtual_resources import ExtraRequest
from corral.node.process import memory
from corral.node.process.connection import Started
from corral.node.process.folder import RunId
from corral.runtime.controller import Manager

MIN_WINDOW_S = 1.0
Runs = Callable[[], Awaitable[Mapping[str, Started]]]


class _Seen(NamedTuple):
    """A measurement: when, the seconds of CPU spent until then, and how many CPUs that were lately."""

    at: float
    spent: float
    cpus: float


class PodUsage:
    """Answers for metrics.k8s.io from the programs that run now."""

    kinds: Sequence[KindDef] = KINDS

    def __init__(self, manager: Manager, runs: Runs) -> None:
        self._clock = manager.clock
        self._pods = manager.informer(PODS)
        self._nodes = manager.informer(NODES)
        self._runs = runs
        self._seen: dict[RunId, _Seen] = {}

    async def get(self, request: ExtraRequest) -> Obj:
        """The usage of one node or pod."""
        found = await self._measured(request)
        for item in found:
            if Key(namespace_of(item), name_of(item)) == Key(request.namespace, request.name):
                return item
        raise not_found(request.kind.resource(), request.name)

    async def list(self, request: ExtraRequest) -> list[Obj]:
        """The usage of all nodes, or of the pods of a namespace."""
        found = await self._measured(request)
        chosen = [item for item in found if not request.namespace or namespace_of(item) == request.namespace]
        return [item for item in chosen if request.labels is None or request.labels.matches(labels_of(item))]

    async def _measured(self, request: ExtraRequest) -> Sequence[Obj]:
        by_pod = await self._containers()
        if request.kind.kind != NODE_METRICS.kind:
            pods = [pod for pod in self._pods.list() if uid_of(pod) in by_pod]
            return [self._item(request, pod, {"containers": _named(by_pod[uid_of(pod)])}) for pod in pods]
        totals = {name_of(node): (0.0, 0) for node in self._nodes.list()}
        for pod in self._pods.list():
            cpu, held = totals.get(str(spec_of(pod).get("nodeName")), (0.0, 0))
            for more_cpu, more_held in by_pod.get(uid_of(pod), {}).values():
                cpu, held = cpu + more_cpu, held + more_held
            totals[str(spec_of(pod).get("nodeName"))] = (cpu, held)
        return [self._item(request, node, {"usage": _usage(*totals[name_of(node)])}) for node in self._nodes.list()]

    async def _containers(self) -> dict[str, dict[str, tuple[float, int]]]:
        """CPUs and bytes by pod and container."""
        now, found = self._clock.now(), dict[str, dict[str, tuple[float, int]]]()
        runs = {run: began for name, began in (await self._runs()).items() if (run := RunId.parse(name)) is not None}
        self._seen = {run: seen for run, seen in self._seen.items() if run in runs}
        for run, began in runs.items():
            spent, held = memory.spent(began.pid)
            last = self._seen.get(run, _Seen(began.at, 0.0, 0.0))
            passed = now - last.at
            if passed >= MIN_WINDOW_S:
                last = self._seen[run] = _Seen(now, spent, max(0.0, spent - last.spent) / passed)
            found.setdefault(run.pod, {})[run.container] = (last.cpus, held)
        return found

    def _item(self, request: ExtraRequest, of: Obj, usage: Obj) -> Obj:
        now = format_time(self._clock.now())
        metadata = {"name": name_of(of), "creationTimestamp": now, "labels": dict(labels_of(of))}
        if namespace_of(of):
            metadata["namespace"] = namespace_of(of)
        identity = {"kind": request.kind.kind, "apiVersion": f"{request.kind.group}/{request.version}"}
        return {**identity, "metadata": metadata, "timestamp": now, "window": "1s", **usage}


class SimulatedUsage(PodUsage):
    """Answers for programs that are only simulated: they use what they request."""

    def __init__(self, manager: Manager) -> None:
        super().__init__(manager, _no_programs)

    async def _containers(self) -> dict[str, dict[str, tuple[float, int]]]:
        found = {uid_of(pod): dict(_requested(pod)) for pod in self._pods.list()}
        return {pod: containers for pod, containers in found.items() if containers}


async def _no_programs() -> Mapping[str, Started]:
    return {}


def _requested(pod: Obj) -> Iterator[tuple[str, tuple[float, int]]]:
    """CPUs and bytes of the containers that run."""
    status = status_of(pod)
    entries = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    running = {entry["name"] for entry in entries if "running" in (entry.get("state") or {})}
    for container in (*(spec_of(pod).get("containers") or ()), *(spec_of(pod).get("initContainers") or ())):
        if container["name"] in running:
            wanted = (container.get("resources") or {}).get("requests") or {}
            yield container["name"], (milli(wanted.get("cpu", 0)) / 1000, value(wanted.get("memory", 0)))


def _named(containers: Mapping[str, tuple[float, int]]) -> list[Obj]:
    return [{"name": name, "usage": _usage(*containers[name])} for name in sorted(containers)]


def _usage(cpu: float, held: int) -> Obj:
    return {"cpu": f"{round(cpu * 1000)}m", "memory": f"{held // 1024}Ki"}
