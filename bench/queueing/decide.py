"""Pure decision throughput: how fast plans are made, and whether parked workloads slow them down.

    python bench/queueing/decide.py [--json]

Times only the decision code: no API, no store, no writes. Times are CPU seconds of this process, so that a busy
machine does not blur them. `admissions/s` feeds one queue tree with workloads that all
fit; `parked` measures a plan that admits one workload while many others, which do not fit, wait in the same tree.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable

from corral.core.meta import Obj, key_of
from corral.decide.queueing.cycle.plan import CyclePlan
from corral.decide.queueing.state import QueueingState
from corral.testing.queueing import (
    EPOCH,
    make_cluster_queue,
    make_cohort,
    make_flavor,
    make_local_queue,
    make_node,
    make_topology,
    make_workload,
)


def one_queue(quota: int) -> QueueingState:
    state = QueueingState()
    state.upsert_flavor(make_flavor("default"))
    state.upsert_cluster_queue(make_cluster_queue("cq", {"default": {"cpu": quota, "memory": f"{quota}Gi"}}))
    state.upsert_local_queue(make_local_queue("lq", "cq"))
    return state


def cohort_tree(queues: int, quota: int) -> QueueingState:
    state = QueueingState()
    state.upsert_flavor(make_flavor("default"))
    state.upsert_cohort(make_cohort("root"))
    state.upsert_cohort(make_cohort("team", "root"))
    for number in range(queues):
        groups = {"default": {"cpu": (quota, quota), "memory": f"{quota}Gi"}}
        name = f"cq-{number}"
        state.upsert_cluster_queue(
            make_cluster_queue(name, groups, cohort="team", within="LowerPriority", reclaim="Any")
        )
        state.upsert_local_queue(make_local_queue(f"lq-{number}", name))
    return state


def workloads(count: int, queues: int = 1, cpu: int = 1, prefix: str = "w") -> list[Obj]:
    requests = {"cpu": cpu, "memory": "1Gi"}
    queue = "lq" if queues == 1 else "lq-{}"
    return [
        make_workload(f"{prefix}{number}", queue.format(number % queues), requests=requests, created=number / 1000)
        for number in range(count)
    ]


def timed(action: Callable[[], object]) -> tuple[float, object]:
    gc.collect()
    gc.disable()
    start = time.process_time()
    result = action()
    elapsed = time.process_time() - start
    gc.enable()
    return elapsed, result


def feed(state: QueueingState, items: list[Obj]) -> None:
    for item in items:
        state.upsert_workload(item)


def drain(state: QueueingState) -> int:
    admitted = 0
    while True:
        plan = state.plan_cycle(EPOCH)
        admitted += sum(1 for _ in plan.admissions)
        if not plan.more:
            return admitted


def throughput(name: str, state: QueueingState, items: list[Obj]) -> dict[str, object]:
    feeding, _ = timed(lambda: feed(state, items))
    deciding, admitted = timed(lambda: drain(state))
    assert admitted == len(items), f"{admitted} of {len(items)} admitted"
    return {
        "case": name,
        "workloads": len(items),
        "upserts_per_s": round(len(items) / feeding),
        "admissions_per_s": round(len(items) / deciding),
    }


def parked(count: int) -> dict[str, object]:
    """Cost of admitting one workload, and of a flush, with `count` workloads parked in the same queue."""
    state = one_queue(1000)
    large = make_workload("large", requests={"cpu": 5000}, created=1)
    for number in range(count):
        metadata = {**large["metadata"], "name": f"p{number}", "uid": f"p{number}"}
        state.upsert_workload({**large, "metadata": metadata})
    drain(state)
    small = workloads(200, prefix="s")
    samples = []
    for item in small:
        state.upsert_workload(item)
        elapsed, plan = timed_plan(state)
        assert len(list(plan.admissions)) == 1
        samples.append(elapsed)
    flushes = []
    for item in small:
        state.delete_workload(key_of(item))
        flushes.append(timed_plan(state)[0])
    return {
        "case": "parked",
        "parked": count,
        "admit_one_us": round(sorted(samples)[len(samples) // 2] * 1e6, 1),
        "flush_us": round(sorted(flushes)[len(flushes) // 2] * 1e6, 1),
    }


def timed_plan(state: QueueingState) -> tuple[float, CyclePlan]:
    start = time.perf_counter()
    plan = state.plan_cycle(EPOCH)
    return time.perf_counter() - start, plan


def topology(count: int) -> dict[str, object]:
    """Placing workloads on 640 nodes in 10 racks."""
    state = QueueingState()
    state.upsert_topology(make_topology("t", "block", "rack", "kubernetes.io/hostname"))
    state.upsert_flavor(make_flavor("tas", nodeLabels={"pool": "tas"}, topologyName="t"))
    for number in range(640):
        labels = {"pool": "tas", "block": "b", "rack": f"r{number // 64}"}
        state.upsert_node(make_node(f"n{number:03}", labels, cpu="96", memory="256Gi"))
    state.upsert_cluster_queue(make_cluster_queue("cq", {"tas": {"cpu": 100_000, "memory": "200Ti"}}))
    state.upsert_local_queue(make_local_queue("lq", "cq"))
    items = []
    for number in range(count):
        item = make_workload(f"t{number}", requests={"cpu": "500m"}, count=2, created=number)
        item["spec"]["podSets"][0]["topologyRequest"] = {("required", "preferred")[number % 2]: "rack"}
        items.append(item)
    return throughput("topology, 640 nodes", state, items)


def main() -> None:
    results = [
        throughput("one queue", one_queue(100_000), workloads(20_000)),
        throughput("one queue, again", one_queue(100_000), workloads(20_000)),
        throughput("cohort tree of 30 queues", cohort_tree(30, 2_000), workloads(20_000, 30)),
        topology(2_000),
    ]
    sizes = (1_000, 10_000, 100_000, 1_000_000) if "--full" in sys.argv else (1_000, 10_000, 100_000)
    results += [parked(size) for size in sizes]
    for result in results:
        print(json.dumps(result) if "--json" in sys.argv else "  ".join(f"{k}={v}" for k, v in result.items()))


if __name__ == "__main__":
    main()
