"""Seeded random scenarios: what a cluster is made of, and what happens in it.

A scenario is data: objects to create, then steps. It is the same for the same seed, and says nothing of the side it is played
on. Everything cluster-wide has the scenario's name in front of its own, so that many are played in one cluster without
knowing of each other. The seed's last digit chooses the family, that is, the settings of the scheduler and what the
scenario dwells on.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.kinds.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
)

NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
BLOCK, RACK, HOST = "differential/block", "differential/rack", "kubernetes.io/hostname"

FAMILIES = (
    "classical", "fair", "classical", "topology", "checks",
    "classical", "fair", "fair-initial", "usage", "partial",
)  # fmt: skip
"""By the last digit of the seed."""

SETTINGS: Mapping[str, Obj] = {
    "classical": {},
    "fair": {"fairSharing": {"preemptionStrategies": ["LessThanOrEqualToFinalShare", "LessThanInitialShare"]}},
    "fair-initial": {"fairSharing": {"preemptionStrategies": ["LessThanInitialShare"]}},
    "usage": {
        "admissionFairSharing": {
            "usageHalfLifeTime": "1h",
            "usageSamplingInterval": "1s",
            "resourceWeights": {"cpu": 1.0},
        }
    },
}
"""What differs in the Configuration of the scheduler."""

Made = tuple[Resource, Obj]


@dataclass(frozen=True)
class Step:
    """One thing that happens; afterwards the cluster comes to rest."""

    verb: str
    """submit, finish, delete, active, hold, hold-local, look, quota, flavor"""
    name: str = ""
    value: Any = None


@dataclass(frozen=True)
class Scenario:
    """One seed's cluster and life."""

    seed: int
    name: str
    family: str
    made: tuple[Made, ...]
    steps: tuple[Step, ...]
    answers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What the controller of admission checks says to each Workload, one answer per attempt; the last one is repeated."""

    @property
    def settings(self) -> str:
        return self.family if self.family in SETTINGS else "classical"

    @property
    def namespace(self) -> str:
        return self.name


def scenario(seed: int, turn: int = 0) -> Scenario:
    """Turns differ in their names only, so that several can be played in one cluster at a time."""
    return _Maker(seed, f"s{seed}t{turn}").make()


class _Maker:
    def __init__(self, seed: int, name: str) -> None:
        self.seed, self.name, self.dice = seed, name, random.Random(seed)
        self.family = FAMILIES[seed % len(FAMILIES)]
        self.fair = self.family.startswith("fair")
        self.checks = [self.own(name) for name in ("k0", "k1")[: self.dice.randint(1, 2)]]
        self.late = ""
        """A flavor that only appears when the first Workloads wait for it."""
        self.looks = 0

    def own(self, name: str) -> str:
        return f"{self.name}-{name}"

    def make(self) -> Scenario:
        flavors = ["f0"] if self.dice.random() < 0.5 or self.family == "topology" else ["f0", "f1"]
        cohorts = self._cohorts(flavors)
        queues = [self._queue(f"q{number}", flavors, cohorts) for number in range(self.dice.randint(2, 4))]
        if self.family != "topology" and self.dice.random() < 0.3:
            self.late = self.own("f0")
        made = [*self._flavors(flavors), *self._checks(), *(made for _, made in cohorts), *queues]
        made += [local for queue in queues for local in self._locals(queue[1]["metadata"]["name"])]
        locals_ = [obj["metadata"]["name"] for resource, obj in made if resource is LOCAL_QUEUES]
        steps, names = self._life(locals_, [queue[1] for queue in queues])
        answers = {name: self._answers() for name in names} if self.family == "checks" else {}
        return Scenario(self.seed, self.name, self.family, tuple(made), tuple(steps), answers)

    # The cluster

    def _flavors(self, flavors: list[str]) -> list[Made]:
        made: list[Made] = []
        for name in flavors:
            spec: Obj = {"nodeLabels": {"differential/pool": self.own(name)}}
            if self.family == "topology":
                spec["topologyName"] = self.own("t")
            if self.own(name) != self.late:
                made.append((RESOURCE_FLAVORS, {"metadata": {"name": self.own(name)}, "spec": spec}))
        if self.family == "topology":
            levels = [{"nodeLabel": label} for label in (BLOCK, RACK, HOST)]
            made.insert(0, (TOPOLOGIES, {"metadata": {"name": self.own("t")}, "spec": {"levels": levels}}))
            made += self._nodes()
        return made

    def _nodes(self) -> list[Made]:
        nodes: list[Made] = []
        for block in range(2):
            for rack in range(self.dice.randint(1, 2)):
                for host in range(self.dice.randint(1, 3)):
                    name = self.own(f"n{block}{rack}{host}")
                    place = {BLOCK: f"b{block}", RACK: f"r{block}{rack}", HOST: name}
                    amounts = {"cpu": str(self.dice.randint(1, 4)), "memory": "64Gi", "pods": "20"}
                    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
                    stamp = {"lastTransitionTime": "2026-01-01T00:00:00Z", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
                    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{**ready, **stamp}]}
                    labels = {"differential/pool": self.own("f0"), **place}
                    nodes.append((NODES, {"metadata": {"name": name, "labels": labels}, "status": status}))
        return nodes

    def _checks(self) -> list[Made]:
        if self.family != "checks":
            return []
        return [
            (ADMISSION_CHECKS, {"metadata": {"name": name}, "spec": {"controllerName": "differential/people"}})
            for name in self.checks
        ]

    def _limits(self, *, nominal: int, shared: bool) -> Obj:
        quota: Obj = {"name": "cpu", "nominalQuota": str(nominal)}
        if shared and self.dice.random() < 0.4:
            quota["borrowingLimit"] = str(self.dice.choice((0, 1, 2, 4)))
        if shared and self.dice.random() < 0.3:
            quota["lendingLimit"] = str(min(nominal, self.dice.choice((0, 1, 2, nominal))))
        return quota

    def _group(self, flavors: list[str], *, low: int, high: int, shared: bool) -> Obj:
        entries = []
        for name in flavors:
            nominal = self.dice.randint(low, high)
            entries.append({"name": self.own(name), "resources": [self._limits(nominal=nominal, shared=shared)]})
        return {"coveredResources": ["cpu"], "flavors": entries}

    def _weight(self) -> Obj:
        weight = self.dice.choice((None, None, "2", "0.5", "3", "0")) if self.fair else None
        return {"fairSharing": {"weight": weight}} if weight is not None else {}

    def _cohorts(self, flavors: list[str]) -> list[tuple[str, Made]]:
        """One, or a small tree; a Cohort may bring quota of its own."""
        shape = self.dice.choice(("one", "one", "tree", "deep"))
        parents = {
            "one": {"all": ""},
            "tree": {"root": "", "left": "root", "right": "root"},
            "deep": {"root": "", "left": "root", "low": "left"},
        }[shape]
        made = []
        for name, parent in parents.items():
            spec: Obj = {"parentName": self.own(parent)} if parent else {}
            if self.dice.random() < 0.4:
                spec["resourceGroups"] = [self._group(flavors, low=0, high=3, shared=bool(parent))]
            if parent:
                spec.update(self._weight())
            made.append((name, (COHORTS, {"metadata": {"name": self.own(name)}, "spec": spec})))
        return made

    def _queue(self, name: str, flavors: list[str], cohorts: list[tuple[str, Made]]) -> Made:
        dice = self.dice
        member = dice.random() < 0.9
        offered = flavors if dice.random() < 0.8 else flavors[: dice.randint(1, len(flavors))]
        if len(offered) > 1 and dice.random() < 0.3:
            offered = list(reversed(offered))
        spec: Obj = {
            "namespaceSelector": {},
            "queueingStrategy": dice.choice(("BestEffortFIFO", "BestEffortFIFO", "StrictFIFO")),
            "resourceGroups": [self._group(offered, low=1, high=6, shared=member)],
            "preemption": self._preemption(),
            "flavorFungibility": {
                "whenCanBorrow": dice.choice(("MayStopSearch", "TryNextFlavor")),
                "whenCanPreempt": dice.choice(("MayStopSearch", "TryNextFlavor")),
            },
            **self._weight(),
        }
        if member:
            spec["cohortName"] = self.own(dice.choice(cohorts)[0])
        wanted = [{"name": check} for check in self.checks if dice.random() < 0.7]
        if self.family == "checks" and wanted:
            spec["admissionChecksStrategy"] = {"admissionChecks": wanted}
        if self.family == "usage":
            spec["admissionScope"] = {"admissionMode": "UsageBasedAdmissionFairSharing"}
        return CLUSTER_QUEUES, {"metadata": {"name": self.own(name)}, "spec": spec}

    def _preemption(self) -> Obj:
        dice = self.dice
        reclaim = dice.choice(("Never", "LowerPriority", "Any", "Any"))
        chosen: Obj = {
            "withinClusterQueue": dice.choice(("Never", "LowerPriority", "LowerPriority", "LowerOrNewerEqualPriority")),
            "reclaimWithinCohort": reclaim,
        }
        if not self.fair and reclaim != "Never" and dice.random() < 0.4:
            chosen["borrowWithinCohort"] = {"policy": "LowerPriority"}
            if dice.random() < 0.5:
                chosen["borrowWithinCohort"]["maxPriorityThreshold"] = dice.randint(0, 10)
        return chosen

    def _locals(self, queue: str) -> list[Made]:
        short = queue.partition("-")[2]
        names = [short, f"{short}b"] if self.family == "usage" else [short]
        made: list[Made] = []
        for name in names:
            spec: Obj = {"clusterQueue": queue}
            if self.family == "usage":
                spec["fairSharing"] = {"weight": self.dice.choice(("1", "1", "2"))}
            made.append((LOCAL_QUEUES, {"metadata": {"name": name, "namespace": self.name}, "spec": spec}))
        return made

    def _answers(self) -> tuple[str, ...]:
        return self.dice.choice(
            (("Ready",), ("Ready",), ("Retry", "Ready"), ("Retry", "Retry", "Ready"), ("Rejected",))
        )

    # What happens

    def _life(self, locals_: list[str], queues: list[Obj]) -> tuple[list[Step], list[str]]:
        dice = self.dice
        total = dice.randint(8, 20)
        equal = dice.random() < 0.5
        """Whether priorities repeat; age decides then."""
        priorities = [dice.randint(0, 3) for _ in range(total)] if equal else dice.sample(range(total * 2), total)
        names = [f"w{number:02}" for number in range(total)]
        steps: list[Step] = []
        todo = list(zip(names, priorities, strict=True))
        if self.late:
            first = [todo.pop(0) for _ in range(min(len(todo), dice.randint(3, 7)))]
            steps += [Step("submit", name, self._workload(name, priority, locals_)) for name, priority in first]
            spec = {"nodeLabels": {"differential/pool": self.late}}
            steps.append(Step("flavor", self.late, {"metadata": {"name": self.late}, "spec": spec}))
        held: list[str] = []
        gone: list[str] = []
        while todo:
            for _ in range(min(len(todo), dice.randint(2, 5))):
                name, priority = todo.pop(0)
                steps.append(Step("submit", name, self._workload(name, priority, locals_)))
            there = [step.name for step in steps if step.verb == "submit" and step.name not in gone]
            steps += self._events(there, gone, queues, locals_, held)
        steps += [Step("hold", name, "None") for name in held]
        return steps, names

    def _events(
        self, there: list[str], gone: list[str], queues: list[Obj], locals_: list[str], held: list[str]
    ) -> list[Step]:
        dice = self.dice
        steps = []
        for _ in range(dice.randint(1, 2)):
            kind = dice.choice(("finish", "finish", "finish", "delete", "hold", "local", "quota", "active"))
            if kind in ("finish", "delete", "active") and there:
                name = there.pop(dice.randrange(len(there)))
                if kind != "active":
                    gone.append(name)
                steps.append(Step(kind, name, False))
                if kind == "active" and dice.random() < 0.5:
                    steps.append(Step(kind, name, True))
            elif kind == "hold":
                name = dice.choice(queues)["metadata"]["name"]
                steps.append(Step("hold", name, dice.choice(("Hold", "HoldAndDrain"))))
                held.append(name)
                if dice.random() < 0.5:
                    steps.append(Step("hold", name, "None"))
            elif kind == "local":
                name = dice.choice(locals_)
                steps.append(Step("hold-local", name, dice.choice(("Hold", "HoldAndDrain"))))
                steps.append(self._look_again(name))
                steps.append(Step("hold-local", name, "None"))
            elif kind == "quota":
                steps.append(self._requota(dice.choice(queues)))
        return steps

    def _look_again(self, local_queue: str) -> Step:
        """Something that makes a scheduler look again at what waits: of what drained Workloads gave back Kueue tells nobody."""
        self.looks += 1
        rule = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [f"look-{self.looks}"]}
        return Step("look", self.own(local_queue.removesuffix("b")), {"matchExpressions": [rule]})

    def _requota(self, queue: Obj) -> Step:
        """The same ClusterQueue with other amounts."""
        group = queue["spec"]["resourceGroups"][0]
        flavors = [
            {**entry, "resources": [{**quota, "nominalQuota": str(self.dice.randint(1, 6))} for quota in entry["resources"]]}
            for entry in group["flavors"]
        ]  # fmt: skip
        for entry in flavors:
            for quota in entry["resources"]:
                quota.pop("lendingLimit", None)
        return Step("quota", queue["metadata"]["name"], [{**group, "flavors": flavors}])

    def _workload(self, name: str, priority: int, locals_: list[str]) -> Obj:
        dice = self.dice
        sets = [self._pod_set("main")]
        if dice.random() < 0.15 and self.family in ("classical", "fair"):
            sets.append(self._pod_set("more"))
        spec = {"queueName": dice.choice(locals_), "priority": priority, "active": True, "podSets": sets}
        return {"metadata": {"name": name, "namespace": self.name}, "spec": spec}

    def _pod_set(self, name: str) -> Obj:
        dice = self.dice
        count = dice.randint(1, 4) if self.family in ("partial", "topology") else dice.choice((1, 1, 1, 2))
        cpu = dice.randint(1, 2 if count > 1 else 5)
        container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": str(cpu)}}}
        spec: Obj = {"restartPolicy": "Never", "containers": [container]}
        made: Obj = {"name": name, "count": count, "template": {"metadata": {}, "spec": spec}}
        if self.family == "partial" and count > 1 and dice.random() < 0.7:
            made["minCount"] = dice.randint(1, count - 1)
        if self.family == "topology":
            level = dice.choice((BLOCK, RACK, HOST))
            made["topologyRequest"] = dice.choice(
                ({"required": level}, {"preferred": level}, {"unconstrained": True}, {"required": level})
            )
        return made
