"""Run preemption cases from a file through the pure decision code: `preemption_cases.py FILE`.

A file has three lists, `classical`, `hierarchical` and `fair`; every case names queues, cohorts, admitted workloads,
the incoming one, and the victims with reasons that must come out. Ends with `N passed, M failed`.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from corral.core.meta import Key
from corral.core.quantity import Quantity
from corral.core.timestamps import parse_duration, parse_time
from corral.decide.queueing.cycle.preemption.candidates import Preemptor, Target
from corral.decide.queueing.cycle.preemption.classical import classical_targets
from corral.decide.queueing.cycle.preemption.fair_sharing import fair_targets
from corral.decide.queueing.model.amounts import parse_amount
from corral.decide.queueing.model.settings import FINAL_SHARE, INITIAL_SHARE
from corral.decide.queueing.model.values import (
    ClusterQueueSpec,
    FlavorResource,
    PreemptionPolicy,
    ResourceQuota,
    Usage,
    WorkloadInfo,
)
from corral.decide.queueing.quota.cluster_queue import ClusterQueue, Reservation
from corral.decide.queueing.quota.tree import QuotaForest, QuotaNode
from corral.decide.queueing.topology.cluster import TopologyCluster

Case = dict[str, Any]
_RESERVED_AT = 1_000_000.0


def quotas_of(entries: list[dict[str, str]]) -> dict[FlavorResource, ResourceQuota]:
    return {
        FlavorResource(entry["flavor"], entry["resource"]): ResourceQuota(
            parse_amount(entry["resource"], entry["nominal"]),
            _limit(entry, "borrowingLimit"),
            _limit(entry, "lendingLimit"),
        )
        for entry in entries
    }


def _limit(entry: dict[str, str], name: str) -> int | None:
    return parse_amount(entry["resource"], entry[name]) if entry.get(name) is not None else None


def usage_of(entries: list[dict[str, str]]) -> Usage:
    usage: Usage = {}
    for entry in entries:
        column = FlavorResource(entry["flavor"], entry["resource"])
        usage[column] = usage.get(column, 0) + parse_amount(entry["resource"], entry["quantity"])
    return usage


def _policy(obj: dict[str, Any]) -> PreemptionPolicy:
    borrow = obj.get("borrowWithinCohort") or {}
    return PreemptionPolicy(
        obj.get("withinClusterQueue") or "Never",
        obj.get("reclaimWithinCohort") or "Never",
        borrow.get("policy") or "Never",
        borrow.get("maxPriorityThreshold"),
    )


_UNITS = {"Millisecond": 0.001, "Second": 1.0, "Minute": 60.0, "Hour": 3600.0}
_SPAN = re.compile(r"([+-]?)\s*(?:(\d+(?:\.\d+)?)\s*\*\s*)?time\.(Millisecond|Second|Minute|Hour)")


def seconds(value: Any) -> float:
    """A time as an offset: a number, a span such as `-15*time.Second` or `5m`, or a timestamp."""
    if isinstance(value, (int, float)):
        return float(value)
    text = str(value)
    span = _SPAN.search(text)
    if span is not None:
        sign, factor, unit = span.groups()
        return (-1 if sign == "-" else 1) * float(factor or 1) * _UNITS[unit]
    if re.fullmatch(r"[+-]?\d+(\.\d+)?", text):
        return float(text)
    try:
        return parse_time(text) - _RESERVED_AT if "T" in text else parse_duration(text)
    except ValueError:
        return 0.0  # `now` and the like


_KNOWN = frozenset({"name", "uid", "priority", "usage", "clusterQueue", "podSets", "conditions", "labels"})


def _is_evicted(entry: dict[str, Any]) -> bool:
    """However a case says it: a flag, a time, or a condition."""
    flagged = any("evict" in name.lower() and value not in (None, False, "", "False") for name, value in entry.items())
    conditions = entry.get("conditions") or []
    return flagged or any(
        condition.get("type") == "Evicted" and condition.get("status", "True") == "True" for condition in conditions
    )


def _times(entry: dict[str, Any], *, is_incoming: bool) -> tuple[float, float]:
    """Offsets of creation and reservation. A time without further name is when an admitted workload got its quota."""
    created = reserved = 0.0
    for name, value in entry.items():
        if name in _KNOWN or "evict" in name.lower() or value is None or isinstance(value, (bool, dict, list)):
            continue
        if "creat" in name.lower() or is_incoming:
            created = seconds(value)
        else:
            reserved = seconds(value)
    return created, reserved


def _workload(entry: dict[str, Any], *, is_incoming: bool = False) -> WorkloadInfo:
    created, reserved = _times(entry, is_incoming=is_incoming)
    priority = int(entry.get("priority") or 0)
    return WorkloadInfo(
        key=Key("", entry["name"]),
        # Where times are equal the uid decides; upstream's fixtures use the name for it.
        uid=entry.get("uid") or entry["name"],
        queue="",
        priority=priority,
        base_priority=priority,
        created=_RESERVED_AT + created,
        order_time=_RESERVED_AT + created,
        pod_sets=(),
        shape=(),
        evicted=_is_evicted(entry),
        reserved_at=_RESERVED_AT + reserved,
    )


def _weight(entry: dict[str, Any]) -> float:
    return 1.0 if entry.get("weight") is None else Quantity.parse(entry["weight"]).nanos / 1e9


class World:
    """The queues and admitted workloads of one case."""

    def __init__(self, case: Case) -> None:
        self.forest = QuotaForest()
        self.queues: dict[QuotaNode, ClusterQueue] = {}
        self.by_name: dict[str, ClusterQueue] = {}
        for name, cohort in case["cohorts"].items():
            weight = _weight(cohort)
            self.forest.set_cohort(name, cohort.get("parent") or "", quotas_of(cohort["quota"]), weight)
        for name, queue in case["clusterQueues"].items():
            quotas = quotas_of(queue["quota"])
            weight = _weight(queue)
            node = self.forest.set_queue(name, queue.get("parent") or "", quotas, weight)
            spec = ClusterQueueSpec(name=name, quotas=quotas, preemption=_policy(queue["preemption"]))
            self.queues[node] = self.by_name[name] = ClusterQueue(spec, node, TopologyCluster())
        self.forest.settle()
        for entry in case["admitted"]:
            queue = self.by_name[entry["clusterQueue"]]
            info = _workload(entry)
            reservation = Reservation(info, queue, (), usage_of(entry["usage"]), {})
            queue.add(reservation)

    def usage(self) -> dict[str, Usage]:
        nodes = (*self.forest.queues.values(), *self.forest.cohorts.values())
        return {node.name: {column: used for column, used in node.usage.items() if used} for node in nodes}


def incoming(case: Case, world: World) -> Preemptor:
    """What asks for room: its requests by the flavor the case assigned, and the columns that need preemption."""
    entry = case["incoming"]
    modes: list[list[str]] = case.get("modes") or []
    pod_sets = entry.get("podSets") or []
    requests: Usage = {}
    columns: set[FlavorResource] = set()
    for index, request in enumerate(entry["usage"]):
        resource = request["resource"]
        flavor = case.get("assignmentFlavor") or request["flavor"]
        mode = "Preempt"
        if pod_sets and len(modes) == len(entry["usage"]):
            _, flavor, mode = modes[index]
        else:
            flavor, mode = next(((name, kind) for known, name, kind in modes if known == resource), (flavor, mode))
        count = int(pod_sets[index][1]) if index < len(pod_sets) else 1
        column = FlavorResource(flavor, resource)
        amount = parse_amount(resource, request["quantity"]) * count
        requests[column] = requests.get(column, 0) + amount
        if mode == "Preempt":
            columns.add(column)
    requests = {column: amount for column, amount in requests.items() if amount}
    info = _workload(entry, is_incoming=True)
    return Preemptor(info, world.by_name[case["target"]], frozenset(columns), requests, _RESERVED_AT)


def victims(case: Case, kind: str) -> dict[str, str]:
    """Names and reasons of the workloads the decision code evicts."""
    world = World(case)
    preemptor = incoming(case, world)
    before = world.usage()
    targets: list[Target]
    if kind == "fair":
        strategies = case.get("strategies") or [FINAL_SHARE, INITIAL_SHARE]
        targets = fair_targets(preemptor, world.queues, strategies)
    else:
        targets = classical_targets(preemptor, world.queues)
    if world.usage() != before:
        raise AssertionError("a trial must leave usage as it found it")
    return {target.reservation.info.key.name: target.reason for target in targets}


def wanted(case: Case) -> dict[str, str]:
    return dict(case["want"] or {})


def check(case: Case, kind: str) -> str:
    """Empty when the case comes out as wanted, else what is wrong."""
    try:
        got = victims(case, kind)
    except Exception as error:  # one broken case must not hide the others
        return f"{type(error).__name__}: {error}"
    # A victim that is leaving already needs no eviction; a case may list it or not.
    leaving = {entry["name"] for entry in case["admitted"] if _is_evicted(entry)}
    fresh = {name: reason for name, reason in got.items() if name not in leaving}
    return "" if wanted(case) in (got, fresh) else f"want {wanted(case)}, got {got}"


def run_file(path: Path) -> tuple[int, list[str]]:
    """How many cases pass, and a line for each that does not."""
    passed, failures = 0, []
    for kind, cases in json.loads(path.read_text()).items():
        for case in cases:
            problem = check(case, kind)
            if problem:
                failures.append(f"{kind}: {case['name']}: {problem}")
            else:
                passed += 1
    return passed, failures


def main(arguments: list[str]) -> int:
    passed, failures = 0, []
    for name in arguments:
        count, lines = run_file(Path(name))
        passed += count
        failures.extend(lines)
    for line in failures:
        print(line)
    print(f"{passed} passed, {len(failures)} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
