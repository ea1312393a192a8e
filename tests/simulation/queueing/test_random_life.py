"""Random arrivals, stops, quota edits and restarts in a tree of cohorts: quota holds at every instant, nobody is overtaken in a
strict queue, nobody waits without a reason, and everything ends.

Every write of a life is kept in the order of the store and judged afterwards, one by one, by an auditor that knows nothing but
objects. So "every instant" is meant literally.
"""

from __future__ import annotations

import asyncio
import random
from typing import Any, NamedTuple

import pytest
from tests.soaking import Tally, only_soaking

from corral.core import conditions
from corral.core.errors import ApiError, Conflict, NotFound
from corral.core.meta import Key, Obj, key_of, name_of, namespace_of, resource_version_of, spec_of, status_of
from corral.core.resource import Resource
from corral.core.timestamps import parse_time
from corral.kinds.kueue import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, WORKLOAD_PRIORITY_CLASSES, WORKLOADS
from corral.node.node import NodeSpec
from corral.runtime.virtual import run_virtual
from corral.simulate.cluster import SimulatedCluster
from corral.testing.audit import Audit, holds_quota
from corral.workload import workload as wl

from .world import JOBS, flavor, job, local_queue

SEEDS = 4

KINDS = (WORKLOADS, CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES)
QUEUES = {"a": "team", "b": "team", "c": "root", "d": ""}
STRICT = ("a", "d")
PREEMPTION = {
    "withinClusterQueue": "LowerPriority",
    "reclaimWithinCohort": "Any",
    "borrowWithinCohort": {"policy": "LowerPriority"},
}
EVENTS = 60
NOTICE_S = 1.0
"""How long after a change a decision may still be one that was made before it."""


# What is written down


class Entry(NamedTuple):
    """One write."""

    revision: int
    at: float
    resource: Resource
    obj: Obj
    gone: bool


class Recorder:
    """Keeps every write of the kinds that matter, through restarts."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self.entries: dict[tuple[int, str], Entry] = {}
        self._seen = dict.fromkeys(KINDS, "0")
        self._tasks = [asyncio.create_task(self._follow(resource)) for resource in KINDS]

    async def _follow(self, resource: Resource) -> None:
        while True:
            try:
                async for event in self.cluster.client.watch(resource, resource_version=self._seen[resource]):
                    self._take(resource, event.type, event.obj)
            except ApiError:
                pass
            await asyncio.sleep(0.01)

    def _take(self, resource: Resource, kind: str, obj: Obj) -> None:
        version = resource_version_of(obj)
        self._seen[resource] = version or self._seen[resource]
        if kind != "BOOKMARK":
            entry = Entry(int(version), self.cluster.clock.now(), resource, obj, kind == "DELETED")
            self.entries[int(version), str(key_of(obj))] = entry

    async def stop(self) -> list[Entry]:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return [self.entries[key] for key in sorted(self.entries)]


# The judgement


class Judge:
    """Goes through what was written and looks at every reservation in the light of everything before it."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.reservations = 0
        self._objects: dict[tuple[Resource, Key], Obj] = {}
        self._edited: dict[Resource, list[tuple[float, list[Obj]]]] = {CLUSTER_QUEUES: [], COHORTS: []}
        self._waiting_since: dict[Key, float] = {}

    def of(self, resource: Resource) -> list[Obj]:
        return [obj for (kind, _), obj in self._objects.items() if kind == resource]

    def take(self, entry: Entry) -> None:
        key = key_of(entry.obj)
        old = self._objects.get((entry.resource, key))
        if entry.resource in self._edited:
            self._edited[entry.resource].append((entry.at, self.of(entry.resource)))
        if entry.gone:
            self._objects.pop((entry.resource, key), None)
            self._waiting_since.pop(key, None)
            return
        self._objects[entry.resource, key] = entry.obj
        if entry.resource == WORKLOADS:
            self._workload(entry, old)

    def _workload(self, entry: Entry, old: Obj | None) -> None:
        held_before = old is not None and holds_quota(old)
        if holds_quota(entry.obj) and not held_before:
            self.reservations += 1
            self._check_quota(entry)
            self._check_order(entry)
        if _may_be_tried(entry.obj):
            self._waiting_since.setdefault(key_of(entry.obj), entry.at)
        else:
            self._waiting_since.pop(key_of(entry.obj), None)

    def _versions(self, resource: Resource, at: float) -> list[list[Obj]]:
        """How the objects of a kind are, and were a moment ago."""
        return [self.of(resource), *(objects for when, objects in self._edited[resource] if when >= at - NOTICE_S)]

    def _check_quota(self, entry: Entry) -> None:
        """At no level is more in use than there is; a decision may be a moment older than the last edit of quota."""
        found: list[str] = []
        for queues in self._versions(CLUSTER_QUEUES, entry.at):
            for cohorts in self._versions(COHORTS, entry.at):
                audit = Audit(queues, cohorts)
                for other in self.of(WORKLOADS):
                    if key_of(other) != key_of(entry.obj):
                        audit.hold(other)
                found = audit.admit(entry.obj)
                if not found:
                    return
        self.problems += found

    def _check_order(self, entry: Entry) -> None:
        """In a strict queue nobody goes before an earlier, more important one of the same size."""
        name = status_of(entry.obj)["admission"]["clusterQueue"]
        if name not in STRICT:
            return
        for other in self.of(WORKLOADS):
            since = self._waiting_since.get(key_of(other))
            if since is None or since > entry.at - NOTICE_S or not self._is_open(other, entry.at):
                continue
            same = spec_of(other)["queueName"] == spec_of(entry.obj)["queueName"] and _size(other) == _size(entry.obj)
            if same and _rank(other) < _rank(entry.obj):
                self.problems.append(
                    f"{key_of(entry.obj)} {_rank(entry.obj)} goes before {key_of(other)} {_rank(other)}"
                )

    def _is_open(self, workload: Obj, at: float) -> bool:
        queue = self._objects.get((LOCAL_QUEUES, Key(namespace_of(workload), spec_of(workload)["queueName"])))
        return queue is not None and spec_of(queue).get("stopPolicy", "None") == "None"


def _may_be_tried(workload: Obj) -> bool:
    requeued = conditions.find(workload, "Requeued") or {}
    return (
        wl.is_active(workload)
        and not holds_quota(workload)
        and not wl.is_finished(workload)
        and workload["metadata"].get("deletionTimestamp") is None
        and requeued.get("status") != "False"
    )


def _size(workload: Obj) -> Any:
    (pod_set,) = spec_of(workload)["podSets"]
    resources = pod_set["template"]["spec"]["containers"][0]["resources"]
    return pod_set["count"], pod_set.get("minCount"), resources["requests"]


def _rank(workload: Obj) -> tuple[int, float]:
    return -spec_of(workload)["priority"], parse_time(workload["metadata"]["creationTimestamp"])


def judge(entries: list[Entry]) -> tuple[list[str], int]:
    court = Judge()
    for entry in entries:
        court.take(entry)
    return court.problems, court.reservations


# The life


def offer(flavor: str, nominal: str, borrowing: str | None = None, lending: str | None = None) -> Obj:
    limits = {"nominalQuota": nominal, "borrowingLimit": borrowing, "lendingLimit": lending}
    cpu = {"name": "cpu", **{field: value for field, value in limits.items() if value is not None}}
    return {"name": flavor, "resources": [cpu]}


def queue_spec(name: str, nominal: str = "4") -> Obj:
    limits = {"a": ("3", None), "b": (None, "2"), "c": ("6", "3"), "d": (None, None)}[name]
    group = {"coveredResources": ["cpu"], "flavors": [offer("default", nominal, *limits), offer("spot", "1")]}
    spec = {
        "namespaceSelector": {},
        "resourceGroups": [group],
        "preemption": PREEMPTION if QUEUES[name] else {"withinClusterQueue": "LowerPriority"},
        "queueingStrategy": "StrictFIFO" if name in STRICT else "BestEffortFIFO",
    }
    return {**spec, "cohortName": QUEUES[name]} if QUEUES[name] else spec


def cohort_spec(name: str, nominal: str = "2") -> Obj:
    limits = ("3", "4") if name == "team" else (None, None)
    group = {"coveredResources": ["cpu"], "flavors": [offer("default", nominal, *limits)]}
    return {"resourceGroups": [group], **({"parentName": "root"} if name == "team" else {})}


async def set_up(cluster: SimulatedCluster) -> None:
    objects = [flavor(), flavor("spot")]
    for value in (1, 10, 100):
        objects.append((WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": f"p{value}"}, "value": value}))
    for name in ("root", "team"):
        objects.append((COHORTS, {"metadata": {"name": name}, "spec": cohort_spec(name)}))
    for name in QUEUES:
        objects.append((CLUSTER_QUEUES, {"metadata": {"name": name}, "spec": queue_spec(name)}))
        objects.append(local_queue(name, name))
    for resource, obj in objects:
        await cluster.client.create(resource, obj)


def a_job(dice: random.Random, number: int, queue: str) -> tuple[Resource, Obj]:
    resource, obj = job(
        f"j{number}",
        queue=queue,
        cpu=dice.choice(("500m", "1", "2")),
        labels={"kueue.x-k8s.io/priority-class": f"p{dice.choice((1, 10, 100))}"},
        parallelism=dice.choice((1, 1, 2)),
    )
    obj["spec"]["completions"] = obj["spec"]["parallelism"]
    seconds = dice.choice((3, 10, 30))
    obj["spec"]["template"]["metadata"] = {"annotations": {"corral.dev/run-seconds": str(seconds)}}
    return resource, obj


async def disturb(cluster: SimulatedCluster, dice: random.Random, number: int) -> None:
    """One random thing somebody does."""
    choice, queue, client = dice.randrange(14), dice.choice(list(QUEUES)), cluster.client
    try:
        if choice < 8:
            await client.create(*a_job(dice, number, queue))
        elif choice == 8:
            policy, kind = dice.choice(("None", "Hold", "HoldAndDrain")), dice.choice((CLUSTER_QUEUES, LOCAL_QUEUES))
            where = "default" if kind is LOCAL_QUEUES else ""
            await client.patch(kind, queue, where, {"spec": {"stopPolicy": policy}})
        elif choice == 9:
            spec = {"resourceGroups": queue_spec(queue, dice.choice("3346"))["resourceGroups"]}
            await client.patch(CLUSTER_QUEUES, queue, "", {"spec": spec})
        elif choice == 10:
            name = dice.choice(("root", "team"))
            spec = {"resourceGroups": cohort_spec(name, dice.choice("024"))["resourceGroups"]}
            await client.patch(COHORTS, name, "", {"spec": spec})
        elif choice == 11:
            jobs = (await client.list(JOBS)).items
            if jobs:
                await client.delete(JOBS, name_of(dice.choice(jobs)), "default", propagation="Background")
        elif choice == 12:
            workloads = (await client.list(WORKLOADS)).items
            if workloads:
                spec = {"active": dice.random() < 0.5}
                await client.patch(WORKLOADS, name_of(dice.choice(workloads)), "default", {"spec": spec})
        else:
            await cluster.crash()
            await cluster.start()
    except (Conflict, NotFound):
        pass  # it changed or went while we looked; people see that too


async def calm(cluster: SimulatedCluster) -> None:
    """Everything is allowed again, and there is quota."""
    for name in ("root", "team"):
        await cluster.client.patch(COHORTS, name, "", {"spec": cohort_spec(name)})
    for name in QUEUES:
        await cluster.client.patch(CLUSTER_QUEUES, name, "", {"spec": {**queue_spec(name), "stopPolicy": "None"}})
        await cluster.client.patch(LOCAL_QUEUES, name, "default", {"spec": {"stopPolicy": "None"}})
    for workload in (await cluster.client.list(WORKLOADS)).items:
        if not wl.is_active(workload):
            await cluster.client.patch(WORKLOADS, name_of(workload), "default", {"spec": {"active": True}})


async def look_around(cluster: SimulatedCluster) -> list[str]:
    """Whoever runs has quota; whoever waits was told why, or stands behind somebody who was."""
    problems, owners = [], {}
    workloads = (await cluster.client.list(WORKLOADS)).items
    for workload in workloads:
        for owner in workload["metadata"].get("ownerReferences") or []:
            owners[owner["name"]] = workload
        if not _has_a_reason(workload, workloads):
            problems.append(f"{name_of(workload)} was not told why it waits: {workload.get('status')}")
    for found in (await cluster.client.list(JOBS)).items:
        if spec_of(found).get("suspend") or conditions.is_true(found, "Complete"):
            continue
        workload = owners.get(name_of(found))
        if workload is None or not (wl.has_quota(workload) or wl.is_finished(workload)):
            problems.append(f"{name_of(found)} runs without quota")
    return problems


def _has_a_reason(workload: Obj, workloads: list[Obj]) -> bool:
    if wl.is_finished(workload) or wl.has_quota(workload) or workload["metadata"].get("deletionTimestamp"):
        return True
    if not wl.is_active(workload) and conditions.is_true(workload, "Evicted"):
        return True
    told = conditions.find(workload, "QuotaReserved")
    if told is not None and told.get("message"):
        return True
    return any(
        spec_of(other)["queueName"] == spec_of(workload)["queueName"]
        and _may_be_tried(other)
        and _rank(other) <= _rank(workload)
        and bool((conditions.find(other, "QuotaReserved") or {}).get("message"))
        for other in workloads
    )


def giant(name: str, queue: str) -> tuple[Resource, Obj]:
    """A job for which there is never enough."""
    return job(name, queue=queue, cpu="50", labels={"kueue.x-k8s.io/priority-class": "p1"})


async def live(seed: int, configuration: Obj) -> tuple[list[str], int]:
    dice = random.Random(seed)
    nodes = [NodeSpec("node", {"cpu": "64", "memory": "64Gi", "pods": "500"}, {}, [])]
    cluster = SimulatedCluster("sim", seed=seed, nodes=nodes, configuration=configuration)
    await cluster.start()
    recorder = Recorder(cluster)
    await set_up(cluster)
    await cluster.client.create(*giant("giant", "b"))
    problems = []
    for number in range(EVENTS):
        await disturb(cluster, dice, number)
        await asyncio.sleep(dice.choice((0.0, 0.5, 2.0)))
        if number % 6 == 0:
            await asyncio.sleep(2)
            problems += await look_around(cluster)
    await calm(cluster)
    await asyncio.sleep(600)
    for workload in (await cluster.client.list(WORKLOADS)).items:
        if "giant" in name_of(workload):
            told = conditions.find(workload, "QuotaReserved") or {}
            if "insufficient quota" not in told.get("message", "") and wl.is_active(workload):
                problems.append(f"the giant does not know: {told}")
        elif not wl.is_finished(workload):
            problems.append(f"{name_of(workload)} never ended: {status_of(workload).get('conditions')}")
    entries = await recorder.stop()
    await cluster.stop()
    found, reservations = judge(entries)
    return problems + found, reservations


FAIR = {"fairSharing": {"enable": True}}


@pytest.mark.parametrize("configuration", [{}, FAIR], ids=["priorities", "fair sharing"])
@pytest.mark.parametrize("seed", [*range(SEEDS), 87])  # in 87 two evicted each other for ever under fair sharing
def test_quota_holds_and_everything_ends(seed: int, configuration: Obj) -> None:
    problems, reservations = run_virtual(lambda: live(seed, configuration))
    assert problems == []
    assert reservations > 20, "a life in which little happens shows little"


@only_soaking("lives of a cluster with queues", first=SEEDS)
def test_quota_holds_in_many_lives(seeds: range, tally: Tally) -> None:
    for seed in seeds:
        problems, _ = run_virtual(lambda seed=seed: live(seed, FAIR if seed % 2 else {}))  # type: ignore[misc]
        assert problems == [], seed
    tally("lives of a cluster with queues", len(seeds))


def test_the_judge_notices() -> None:
    """An admission beyond quota, and one out of turn, are found in a log."""

    def made(name: str, cpu: int, priority: int, created: str, *, admitted: bool) -> Obj:
        container = {"resources": {"requests": {"cpu": "1"}}}
        spec = {
            "queueName": "d",
            "priority": priority,
            "podSets": [{"name": "main", "count": cpu, "template": {"spec": {"containers": [container]}}}],
        }
        status: Obj = {}
        if admitted:
            assigned = {"name": "main", "count": cpu, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": str(cpu)}}
            held = {"type": "QuotaReserved", "status": "True"}
            status = {"admission": {"clusterQueue": "d", "podSetAssignments": [assigned]}, "conditions": [held]}
        metadata = {"name": name, "namespace": "default", "creationTimestamp": created}
        return {"metadata": metadata, "spec": spec, "status": status}

    lq = local_queue("d", "d")[1]
    start = [
        Entry(1, 0.0, CLUSTER_QUEUES, {"metadata": {"name": "d"}, "spec": queue_spec("d")}, False),
        Entry(2, 0.0, LOCAL_QUEUES, lq, False),
        Entry(3, 0.0, WORKLOADS, made("first", 3, 5, "2026-01-01T00:00:00Z", admitted=False), False),
        Entry(4, 0.0, WORKLOADS, made("second", 3, 5, "2026-01-01T00:00:09Z", admitted=False), False),
    ]
    second = Entry(5, 60.0, WORKLOADS, made("second", 3, 5, "2026-01-01T00:00:09Z", admitted=True), False)
    first = Entry(6, 61.0, WORKLOADS, made("first", 3, 5, "2026-01-01T00:00:00Z", admitted=True), False)
    problems, _ = judge([*start, second])
    assert len(problems) == 1
    assert "goes before" in problems[0]
    problems, _ = judge([*start, second, first])
    assert len(problems) == 2
    assert "over for" in problems[1]
