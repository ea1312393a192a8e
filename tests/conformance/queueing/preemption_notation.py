"""A short notation for preemption cases, turned into the case format of `preemption_cases`.

    tree: CQ a(cpu=3/6/1, in all, wCQ=LP, rec=Any); Cohort all(cpu=1, in root, w=2).
    admitted: a1(p-1, cpu 1, fl=spot, t=1, evicted)@a. incoming: in(cpu 2) → a. evict: a1 [InCQ]

Quota is nominal/borrowing limit/lending limit; `t` of an admitted workload is when it got its reservation, of the
incoming one when it was created, in seconds.
"""

from __future__ import annotations

import re
from typing import Any

Case = dict[str, Any]

_POLICIES = {"LP": "LowerPriority", "LNEP": "LowerOrNewerEqualPriority", "Any": "Any", "Never": "Never"}
_REASONS = {
    "InCQ": "InClusterQueue",
    "Reclaim": "InCohortReclamation",
    "FS": "InCohortFairSharing",
    "RWB": "InCohortReclaimWhileBorrowing",
}
_NODE = re.compile(r"(CQ|Cohort) ([\w-]+)\(([^)]*)\)")
_WORKLOAD = re.compile(r"([\w-]+)\(([^)]*)\)(?:@([\w-]+))?")


def parse_tree(text: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """ClusterQueues and Cohorts of a `tree:` part."""
    queues: dict[str, Any] = {}
    cohorts: dict[str, Any] = {}
    for kind, name, body in _NODE.findall(text):
        node = _node(body)
        if kind == "CQ":
            queues[name] = node
        else:
            cohorts[name] = {key: node[key] for key in ("quota", "parent", "weight")}
    return queues, cohorts


def _node(body: str) -> dict[str, Any]:
    quotas: list[dict[str, str]] = []
    flavors: list[str] = []
    node: dict[str, Any] = {"parent": None, "weight": "1"}
    preemption: dict[str, Any] = {"withinClusterQueue": "Never", "reclaimWithinCohort": "Never"}
    for part in filter(None, (part.strip() for part in body.split(", "))):
        if part.startswith("in "):
            node["parent"] = part[3:]
            continue
        name, _, value = part.partition("=")
        if name == "w":
            node["weight"] = value
        elif name == "wCQ":
            preemption["withinClusterQueue"] = _POLICIES[value]
        elif name == "rec":
            preemption["reclaimWithinCohort"] = _POLICIES[value]
        elif name == "bwc":
            preemption["borrowWithinCohort"] = {"policy": _POLICIES[value], "maxPriorityThreshold": None}
        elif name == "thr":
            preemption["borrowWithinCohort"]["maxPriorityThreshold"] = int(value)
        elif name == "flavors":
            flavors = value.split(",")
        else:
            quotas.append(_quota(name, value))
    for flavor, quota in zip(flavors, quotas, strict=False):
        quota["flavor"] = flavor
    return {**node, "quota": quotas, "preemption": preemption}


def _quota(resource: str, value: str) -> dict[str, str]:
    flavor, _, resource = resource.rpartition(":")
    quota = {"flavor": flavor or "default", "resource": resource}
    for name, amount in zip(("nominal", "borrowingLimit", "lendingLimit"), value.split("/"), strict=False):
        if amount:
            quota[name] = amount
    return quota


def _workload(name: str, body: str, queue: str) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": name, "priority": 0, "usage": []}
    flavor = "default"
    if queue:
        entry["clusterQueue"] = queue
    for part in filter(None, (part.strip() for part in body.split(", "))):
        if part == "evicted":
            entry["evicted"] = True
        elif part.startswith("fl="):
            flavor = part[3:]
        elif part.startswith("t="):
            entry["t"] = float(part[2:])
        elif re.fullmatch(r"p-?\d+", part):
            entry["priority"] = int(part[1:])
        else:
            resource, quantity = part.split(" ")
            entry["usage"].append({"flavor": flavor, "resource": resource, "quantity": quantity})
    for usage in entry["usage"]:
        usage["flavor"] = flavor
    return entry


def parse_case(text: str, tree: str = "", **extra: Any) -> Case:
    """One case; `tree` is used when the text has none of its own, `extra` adds fields of the case format."""
    own, _, rest = text.rpartition("admitted:")
    queues, cohorts = parse_tree(own or tree)
    admitted, _, rest = rest.partition(". incoming: ")
    incoming, _, evict = rest.partition(". evict: ")
    workload, _, target = incoming.partition(" → ")
    name, body, _ = _WORKLOAD.findall(workload)[0]
    want = {victim: _REASONS[reason] for victim, reason in re.findall(r"([\w-]+) \[(\w+)\]", evict)}
    pod_sets = extra.pop("podSets", None)
    asking = _workload(name, body, "")
    if pod_sets:
        asking["podSets"] = pod_sets
    return {
        "clusterQueues": queues,
        "cohorts": cohorts,
        "admitted": [_workload(*found) for found in _WORKLOAD.findall(admitted)],
        "incoming": asking,
        "target": target.strip(),
        "strategies": None,
        "want": want,
        **extra,
    }
