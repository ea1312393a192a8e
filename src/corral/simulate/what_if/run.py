"""Running manifests on virtual time: one cluster that queues and runs, or a manager and workers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from difflib import get_close_matches

import click

from corral.core.admission import SERVER
from corral.core.errors import AlreadyExists, ApiError
from corral.core.meta import Obj, labels_of, metadata_of, name_of, namespace_of, spec_of, status_of
from corral.core.quantity import Quantity
from corral.core.remote_pods import CLUSTER_LABEL
from corral.core.resource import Resource
from corral.fleet.introduce import CLUSTER_QUEUE, FLAVOR, LOCAL_QUEUE
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS, names
from corral.kinds.kueue.names import GROUP as KUEUE
from corral.node.node import NodeSpec
from corral.server.verbs.options import WriteOptions
from corral.simulate.cluster import SimulatedCluster
from corral.simulate.fleet import CHECK, SimulatedFleet
from corral.simulate.what_if.manifests import Manifests, Submission, quota_of
from corral.simulate.what_if.record import Owner, Record, WorkloadRecord

ALONE = "cluster"
PODS = "110"
MANAGER = "corral-simulate"
STILL_S = 3600.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a simulation found."""

    record: Record
    seconds: float
    quotas: dict[tuple[str, str, str], Quantity]
    unqueued: list[Obj]
    """Jobs that name no queue."""


async def simulate(
    manifests: Manifests, workers: dict[str, Sequence[NodeSpec]], node: NodeSpec, until: float, seed: int
) -> Outcome:
    """Run until every job has ended, or for so many seconds. Without workers one cluster does it all; it has the nodes
    of the manifests, else nodes that hold the quota of the manifests, else one like `node`."""
    async with AsyncExitStack() as stack:
        if workers:
            cluster = await _start_fleet(stack, manifests, workers, seed)
        else:
            cluster = await _start_alone(stack, manifests, node, seed)
        record = Record(cluster.clock.now, "" if workers else ALONE)
        cluster.manager.informer(WORKLOADS).on_change(record.changed)
        if not manifests.jobs:
            raise click.ClickException("the manifests have no jobs")
        playback = _Playback(cluster, record, until)
        await playback.run(manifests.jobs)
        record.close()
        found = (await cluster.client.list(CLUSTER_QUEUES)).items
        quotas = {
            (name_of(queue), flavor, resource): Quantity.parse(amount)
            for queue in found
            for flavor, resource, amount in quota_of(queue)
        }
        return Outcome(record, record.seconds, quotas, playback.unqueued)


@contextmanager
def quiet() -> Iterator[None]:
    """Without warnings: what goes wrong on the way is part of the story."""
    logger = logging.getLogger("corral")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


# Clusters


async def _start_alone(stack: AsyncExitStack, manifests: Manifests, node: NodeSpec, seed: int) -> SimulatedCluster:
    nodes = [_as_described(obj) for obj in manifests.nodes] or nodes_for_quota(manifests) or [node]
    cluster = SimulatedCluster(ALONE, seed=seed, nodes=nodes)
    await cluster.start()
    stack.push_async_callback(cluster.stop)
    await _make_namespaces(cluster, manifests)
    await _apply(cluster, manifests.standing)
    if not manifests.of_kind("ClusterQueue"):
        await _standard_queues(cluster, nodes, [])
    return cluster


async def _start_fleet(
    stack: AsyncExitStack, manifests: Manifests, workers: dict[str, Sequence[NodeSpec]], seed: int
) -> SimulatedCluster:
    """Queues are the manager's; a worker takes what its nodes hold, from LocalQueues of the same names."""
    fleet = SimulatedFleet(tuple(workers), seed=seed)
    for name, nodes in workers.items():
        fleet.workers[name] = SimulatedCluster(name, seed=seed, nodes=nodes)
    await stack.enter_async_context(fleet)
    await fleet.introduce()
    for cluster in fleet.clusters:
        await _make_namespaces(cluster, manifests)
    own = bool(manifests.of_kind("ClusterQueue"))
    queues = [(namespace_of(queue) or "default", name_of(queue)) for queue in manifests.of_kind("LocalQueue")]
    for name, cluster in fleet.workers.items():
        shared = [(obj, place) for obj, place in manifests.standing if not _is_of_queues(obj)]
        await _apply(cluster, shared)
        await _standard_queues(cluster, workers[name], [], queues if own else ())
    await _apply(fleet.manager, [(_dispatching(obj), place) for obj, place in manifests.standing])
    if not own:
        await _standard_queues(fleet.manager, [node for nodes in workers.values() for node in nodes], [CHECK])
    return fleet.manager


def _is_of_queues(obj: Obj) -> bool:
    """Whether an object says how the manager queues; workers have queues of their own."""
    return str(obj["apiVersion"]).startswith(f"{KUEUE}/") and obj["kind"] != "WorkloadPriorityClass"


def _dispatching(obj: Obj) -> Obj:
    """A ClusterQueue sends its jobs to the workers, unless it says what it waits for."""
    spec = spec_of(obj)
    if obj["kind"] != "ClusterQueue" or spec.get("admissionChecksStrategy") or spec.get("admissionChecks"):
        return obj
    return {**obj, "spec": {**spec, "admissionChecksStrategy": {"admissionChecks": [{"name": CHECK}]}}}


def _as_described(obj: Obj) -> NodeSpec:
    status = status_of(obj)
    capacity = {"pods": PODS, **(status.get("capacity") or status.get("allocatable") or {})}
    labels = {"kubernetes.io/hostname": name_of(obj), **labels_of(obj)}
    return NodeSpec(
        name_of(obj),
        {name: str(value) for name, value in capacity.items()},
        labels,
        list(spec_of(obj).get("taints") or ()),
    )


def nodes_for_quota(manifests: Manifests) -> list[NodeSpec]:
    """For every flavor a node as large as what all queues have of it, with its labels and taints."""
    total: dict[str, dict[str, Quantity]] = {}
    for queue in manifests.of_kind("ClusterQueue"):
        for flavor, resource, amount in quota_of(queue):
            held = total.setdefault(flavor, {})
            held[resource] = held.get(resource, Quantity.parse(0)) + Quantity.parse(amount)
    flavors = {name_of(obj): spec_of(obj) for obj in manifests.of_kind("ResourceFlavor")}
    plenty = {"cpu": "1M", "memory": "1Pi", "pods": "1M"}  # of what the quota does not limit
    return [
        NodeSpec(
            f"{flavor}-node",
            {**plenty, **{resource: str(amount) for resource, amount in amounts.items()}},
            dict((flavors.get(flavor) or {}).get("nodeLabels") or {}),
            list((flavors.get(flavor) or {}).get("nodeTaints") or ()),
        )
        for flavor, amounts in total.items()
    ]


# Objects


async def _make_namespaces(cluster: SimulatedCluster, manifests: Manifests) -> None:
    given = {name_of(obj): obj for obj in manifests.of_kind("Namespace")}
    for name in sorted({*manifests.namespaces, *given}):
        try:
            await cluster.client.create(NAMESPACES, given.get(name) or {"metadata": {"name": name}})
        except AlreadyExists:
            continue


async def _apply(cluster: SimulatedCluster, standing: Sequence[tuple[Obj, str]]) -> None:
    for obj, place in standing:
        if obj["kind"] != "Namespace":
            await _create(cluster, obj, place)


async def _create(cluster: SimulatedCluster, obj: Obj, place: str) -> Obj:
    found = cluster.api.registry.find(str(obj["apiVersion"]), str(obj["kind"]))
    if found is None:
        raise click.ClickException(f"{place}: {_unknown(cluster, str(obj['apiVersion']), str(obj['kind']))}")
    kind, version = found
    resource = kind.resource().at(version.name)
    if kind.namespaced:
        obj = {**obj, "metadata": {"namespace": "default", **metadata_of(obj)}}
    # What somebody wrote is taken strictly; what comes from a cluster has been accepted there.
    options = WriteOptions(manager=MANAGER, field_validation="Strict" if place else "Ignore")
    try:
        return (await cluster.api.create(SERVER, resource, namespace_of(obj), obj, options)).obj
    except ApiError as error:
        raise click.ClickException(f"{place or f'{kind.kind} {name_of(obj)}'}: {error}") from error


def _unknown(cluster: SimulatedCluster, api_version: str, kind: str) -> str:
    """That there is no such kind, and which was meant."""
    known = [
        (one.kind, f"{one.group}/{version.name}".lstrip("/"))
        for one in cluster.api.registry
        for version in one.versions
    ]
    there = [version for name, version in known if name == kind]
    if there:
        return f"there is no kind {kind} in {api_version}; it is one of {', '.join(there)}"
    here = [name for name, version in known if version == api_version]
    close = get_close_matches(kind, here or [name for name, _ in known], n=1)
    meant = f"; did you mean {close[0]}?" if close else f"; there are {', '.join(sorted(here))}" if here else ""
    return f"there is no kind {kind} in {api_version}{meant}"


async def _standard_queues(
    cluster: SimulatedCluster,
    nodes: Sequence[NodeSpec],
    checks: Sequence[str],
    local: Sequence[tuple[str, str]] = (),
) -> None:
    """The queues `corral up` makes: one that holds what the nodes have, and LocalQueues that lead to it."""
    total: dict[str, Quantity] = {}
    for node in nodes:
        for resource, amount in node.capacity.items():
            total[resource] = total.get(resource, Quantity.parse(0)) + Quantity.parse(amount)
    resources = [{"name": name, "nominalQuota": str(amount)} for name, amount in total.items()]
    group = {"coveredResources": list(total), "flavors": [{"name": FLAVOR, "resources": resources}]}
    spec: Obj = {"namespaceSelector": {}, "resourceGroups": [group]}
    if checks:
        spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": name} for name in checks]}
    queues = [
        {"metadata": {"name": name, "namespace": namespace}, "spec": {"clusterQueue": CLUSTER_QUEUE}}
        for namespace, name in local or (("default", LOCAL_QUEUE),)
    ]
    # Nodes that say which cluster they are of give their flavor that label: who asks for it comes here and nowhere else.
    clusters = {node.labels.get(CLUSTER_LABEL, "") for node in nodes}
    labels = {CLUSTER_LABEL: clusters.pop()} if len(clusters) == 1 and "" not in clusters else {}
    wanted: list[tuple[Resource, Obj]] = [
        (RESOURCE_FLAVORS, {"metadata": {"name": FLAVOR}, "spec": {"nodeLabels": labels} if labels else {}}),
        (CLUSTER_QUEUES, {"metadata": {"name": CLUSTER_QUEUE}, "spec": spec}),
        *((LOCAL_QUEUES, queue) for queue in queues),
    ]
    for kind, obj in wanted:
        try:
            await cluster.client.create(kind, obj)
        except AlreadyExists:
            continue  # the manifests have one of their own


# Time


class _Playback:
    """Submitting each job at its time, and waiting for the end of those that end."""

    def __init__(self, cluster: SimulatedCluster, record: Record, until: float) -> None:
        self._cluster = cluster
        self._record = record
        self._until = until
        self._open: set[Owner] = set()
        self._lasts = False
        self._ended = asyncio.Event()
        self.unqueued: list[Obj] = []
        record.on_end = self._on_end

    async def run(self, jobs: Sequence[Submission]) -> None:
        for job in jobs:
            if job.at > self._until:
                break
            await asyncio.sleep(max(0.0, job.at - self._record.seconds))
            made = await _create(self._cluster, job.obj, job.source)
            if not labels_of(made).get(names.QUEUE_NAME):
                self.unqueued.append(job.obj)
            elif job.lasts:
                self._lasts = True
            else:
                self._open.add((namespace_of(made), str(job.obj["kind"]), name_of(made)))
        while (self._open or self._lasts) and (left := self._until - self._record.seconds) > 0:
            self._ended.clear()
            try:
                await asyncio.wait_for(self._ended.wait(), min(left, STILL_S))
            except TimeoutError:
                if not self._lasts and self._record.stands_still(STILL_S):
                    return

    def _on_end(self, entry: WorkloadRecord) -> None:
        self._open -= {owner for owner in entry.owners if self._record.has_ended(owner)}
        self._ended.set()
