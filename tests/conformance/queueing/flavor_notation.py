"""Cases of flavor assignment: a ClusterQueue, what it and its neighbour use, a workload, and what must come out.

The assignment is written `pod set: resource@flavor mode` with mode fit, preempt or none, pod sets separated by `; `.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from scenario import Scenario

from corral.core.meta import Obj
from corral.decide.queueing.cycle.assignment import Assignment, Fit, Mode
from corral.decide.queueing.cycle.flavors import FlavorAssigner
from corral.decide.queueing.cycle.plan import PodSetAssignment
from corral.decide.queueing.model.settings import Features, QueueingSettings
from corral.decide.queueing.model.values import FlavorResource, Usage, WorkloadInfo
from corral.decide.queueing.model.workload import FLAVORS_ANNOTATION, WorkloadDecoder
from corral.decide.queueing.quota.cluster_queue import ClusterQueue, Reservation
from corral.testing.queueing import make_pod_set, make_workload

MODES = {Mode.FIT: "fit", Mode.PREEMPT: "preempt", Mode.NO_FIT: "none"}
MI = 2**20


@dataclass
class Case:
    queue: str
    """Quota of queue `q`, in the notation of scenarios."""
    pod_sets: list[Obj]
    want: str
    """`main: cpu@default fit`; several separated by `; `."""
    reasons: list[str] = field(default_factory=list)
    used: str = ""
    """`default cpu=3`, on queue `q`."""
    neighbour: str = ""
    """Quota of queue `other` in the same cohort."""
    neighbour_used: str = ""
    neighbour_cohort: str = "co"
    above: str = ""
    """Cohorts, separated by `; `; queue `q` is in cohort `co`."""
    flavors: str = ""
    oracle: dict[str, Fit | tuple[Fit, int]] = field(default_factory=dict)
    """What preempting in a flavor (`one`, `one/cpu`) gives, and how high it borrows then; else preemption at home."""
    borrows: int = 0
    tried: int | dict[str, int] | None = None
    """Where the search goes on next time: for all resources, or for some."""
    fair: bool = False
    features: dict[str, bool] = field(default_factory=dict)
    replaced: dict[str, tuple[str, int]] = field(default_factory=dict)
    reclaimable: dict[str, int] = field(default_factory=dict)
    allowed: str = ""
    """Flavors a variant may use."""
    granular: str = ""
    attempts: dict[str, str] = field(default_factory=dict)
    """Granular reasons of flavors that were looked at for the last pod set."""
    considered: str | None = None
    """What the event says about flavors that were passed over."""


def usage(text: str) -> Usage:
    found: Usage = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        flavor, quota = part.split()
        resource, _, amount = quota.partition("=")
        scale = 1000 if resource == "cpu" else MI if amount.endswith("Mi") else 1
        found[FlavorResource(flavor, resource)] = int(amount.removesuffix("Mi")) * scale
    return found


def assign(case: Case) -> Assignment:
    cohort = " in co" if case.neighbour or case.above else ""
    lines = [*case.flavors.split("; "), *case.above.split("; "), f"queue q{cohort}: {case.queue}"]
    if case.neighbour:
        lines.append(f"queue other in {case.neighbour_cohort}: {case.neighbour}")
    features = Features(**{"granular_reasons": True, **case.features})
    scenario = Scenario("\n".join(lines) + "\n->", QueueingSettings(fair_sharing=case.fair, features=features))
    world = scenario.state.world
    scenario.state.settle()
    world.queues["q"].node.add(usage(case.used))
    if case.neighbour_used:
        world.queues["other"].node.add(usage(case.neighbour_used))
    annotations = {FLAVORS_ANNOTATION: case.allowed} if case.allowed else None
    obj = make_workload("w", "lq-q", *case.pod_sets, annotations=annotations)
    obj["status"] = {"reclaimablePods": [{"name": name, "count": count} for name, count in case.reclaimable.items()]}
    info = WorkloadDecoder(scenario.settings).decode(obj)

    def oracle(queue: ClusterQueue, info: WorkloadInfo, column: FlavorResource, amount: int) -> tuple[Fit, int]:
        said = case.oracle.get(f"{column.flavor}/{column.resource}", case.oracle.get(column.flavor, Fit.PREEMPT))
        return said if isinstance(said, tuple) else (said, 0)

    replaced = _replaced(case, info, world.queues["q"])
    assigner = FlavorAssigner(world.queues["q"], info, world.flavors, scenario.settings, oracle, replaced=replaced)
    return assigner.assign(1)


def _replaced(case: Case, info: WorkloadInfo, queue: ClusterQueue) -> Reservation | None:
    if not case.replaced:
        return None
    entries = [
        PodSetAssignment("main", amount // 1000, {"cpu": flavor}, {"cpu": amount})
        for flavor, amount in case.replaced.values()
    ]
    return Reservation(info, queue, tuple(entries), {}, {})


def check(case: Case) -> None:
    """Assign, and compare everything the case says."""
    assignment = assign(case)
    assert written(assignment) == case.want
    if case.reasons:
        assert sorted(assignment.pod_sets[-1].reasons) == sorted(case.reasons)
    assert assignment.borrows == case.borrows
    if case.tried is not None:
        tried = {name: choice.tried for pod_set in assignment.pod_sets for name, choice in pod_set.flavors.items()}
        assert tried == (dict.fromkeys(tried, case.tried) if isinstance(case.tried, int) else case.tried)
    assert assignment.no_fit_reason == case.granular
    if case.attempts:
        assert {attempt.flavor: attempt.reason for attempt in assignment.pod_sets[-1].attempts} == case.attempts
    if case.considered is not None:
        assert assignment.considered == case.considered


def written(assignment: Assignment) -> str:
    found = []
    for pod_set in assignment.pod_sets:
        flavors = " ".join(
            f"{resource}@{choice.flavor} {MODES[choice.mode]}" for resource, choice in sorted(pod_set.flavors.items())
        )
        found.append(f"{pod_set.name}: {flavors or 'none'}")
    return "; ".join(found)


def pods(name: str = "main", count: int = 1, **extra: Any) -> Obj:
    spec = {key: extra.pop(key) for key in ("tolerations", "nodeSelector", "affinity") if key in extra}
    group = extra.pop("group", None)
    topology = {"podSetGroupName": group} if group else None
    return make_pod_set(
        name, count, {key.replace("__", "/"): value for key, value in extra.items()}, topology=topology, **spec
    )


def require(key: str, *values: str) -> Obj:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def short(n: int | str, flavor: str = "default", resource: str = "cpu") -> str:
    return f"insufficient unused quota for {resource} in flavor {flavor}, {n} more needed"


def over(a: str, b: str, c: str, flavor: str = "default", resource: str = "cpu") -> str:
    return (
        f"insufficient quota for {resource} in flavor {flavor}, previously considered podsets requests ({a}) + "
        f"current podset request ({b}) > maximum capacity ({c})"
    )
