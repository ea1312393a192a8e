"""Random lives of a queueing cluster: quota holds, live state equals rebuilt state, and nobody waits without a reason."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from corral.core.meta import Key, Obj, status_of
from corral.decide.queueing.quota import QuotaNode
from corral.decide.queueing.settings import QueueingSettings
from corral.decide.queueing.state import QueueingState
from corral.testing.queueing import (
    QueueingWorld,
    make_cluster_queue,
    make_cohort,
    make_flavor,
    make_local_queue,
    make_workload,
)

QUEUES = ("q0", "q1", "q2", "q3")
COHORTS = ("c0", "c1", "root")
POLICIES = ("Never", "LowerPriority", "Any")

quota = st.one_of(
    st.integers(0, 8),
    st.tuples(st.integers(0, 8), st.integers(0, 6), st.none()),
    st.tuples(st.integers(2, 8), st.none(), st.integers(0, 2)),
)


@st.composite
def cluster_queues(draw: st.DrawFn, name: str) -> Obj:
    cohort = draw(st.sampled_from(("", *COHORTS)))
    flavors = draw(st.sampled_from((("f0",), ("f0", "f1"), ("f1",))))
    limits = {flavor: {"cpu": draw(quota) if cohort else draw(st.integers(0, 8))} for flavor in flavors}
    return make_cluster_queue(
        name,
        limits,
        cohort=cohort,
        within=draw(st.sampled_from(("Never", "LowerPriority", "LowerOrNewerEqualPriority"))),
        reclaim=draw(st.sampled_from(POLICIES)),
        borrow=draw(st.sampled_from((None, {"policy": "LowerPriority"}))),
        strict=draw(st.booleans()),
        weight=draw(st.sampled_from((None, "2", "0.5", "0"))),
        flavorFungibility={
            "whenCanBorrow": draw(st.sampled_from(("MayStopSearch", "TryNextFlavor"))),
            "whenCanPreempt": draw(st.sampled_from(("MayStopSearch", "TryNextFlavor"))),
        },
    )


@st.composite
def cohorts(draw: st.DrawFn) -> Obj:
    name = draw(st.sampled_from(COHORTS))
    parent = draw(st.sampled_from(("", *COHORTS)))
    groups = draw(st.sampled_from(((), ({"f0": {"cpu": 2}},), ({"f0": {"cpu": 3}, "f1": {"cpu": 1}},))))
    return make_cohort(name, parent, *groups)


operation = st.one_of(
    st.tuples(
        st.just("submit"), st.sampled_from(QUEUES), st.integers(1, 6), st.integers(0, 3), st.sampled_from((None, 1))
    ),
    st.tuples(st.just("submit"), st.sampled_from(QUEUES), st.integers(1, 4), st.integers(0, 2), st.none()),
    st.tuples(st.just("finish"), st.integers(0, 30)),
    st.tuples(st.just("delete"), st.integers(0, 30)),
    st.tuples(st.just("evict"), st.integers(0, 30)),
    st.tuples(st.just("stop"), st.sampled_from(QUEUES), st.booleans()),
    st.tuples(st.just("cycle")),
    st.tuples(st.just("settle")),
)
reshaping = st.one_of(
    st.tuples(st.just("queue"), st.sampled_from(QUEUES).flatmap(cluster_queues)),
    st.tuples(st.just("cohort"), cohorts()),
    st.tuples(st.just("forget"), st.sampled_from((*QUEUES, *COHORTS))),
)

modest = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Life:
    """One random life, with the objects it consists of."""

    def __init__(self, config: QueueingSettings, queues: list[Obj], trees: list[Obj]) -> None:
        self.config = config
        self.world = QueueingWorld(config)
        self.objects: dict[tuple[str, str], Obj] = {}
        self.counter = 0
        for flavor in ("f0", "f1"):
            self.put("flavor", make_flavor(flavor))
        for tree in trees:
            self.put("cohort", tree)
        for queue in queues:
            self.put("cluster_queue", queue)
        for name in QUEUES:
            self.put("local_queue", make_local_queue(f"l{name}", name))

    def put(self, kind: str, obj: Obj) -> None:
        self.objects[kind, obj["metadata"]["name"]] = obj
        getattr(self.world.state, f"upsert_{kind}")(obj)

    def forget(self, name: str) -> None:
        kind = "cluster_queue" if name in QUEUES else "cohort"
        if self.objects.pop((kind, name), None) is not None:
            getattr(self.world.state, f"delete_{kind}")(name)

    def workload(self, index: int) -> Key | None:
        keys = sorted(self.world.workloads)
        return keys[index % len(keys)] if keys else None

    def apply(self, step: tuple[Any, ...]) -> None:
        world = self.world
        match step:
            case ("submit", queue, cpu, priority, minimum):
                self.counter += 1
                workload = make_workload(
                    f"w{self.counter:03}",
                    f"l{queue}",
                    requests={"cpu": 1},
                    count=cpu,
                    priority=priority,
                    created=self.counter,
                )
                if minimum is not None:
                    workload["spec"]["podSets"][0]["minCount"] = minimum
                world.put(workload)
            case ("finish", index) if (key := self.workload(index)) is not None:
                if status_of(world.workloads[key]).get("admission"):
                    world.finish(key.name)
            case ("delete", index) if (key := self.workload(index)) is not None:
                world.delete(key.name)
            case ("evict", index) if (key := self.workload(index)) is not None:
                if status_of(world.workloads[key]).get("admission"):
                    world.evict(key, "Preempted")
                    world.vacate()
            case ("stop", name, stopped):
                queue = self.objects.get(("cluster_queue", name))
                if queue is not None:
                    policy = "Hold" if stopped else "None"
                    self.put("cluster_queue", {**queue, "spec": {**queue["spec"], "stopPolicy": policy}})
            case ("cycle",):
                world.cycle()
            case ("settle",):
                world.settle()
            case ("queue", queue):
                self.put("cluster_queue", queue)
            case ("cohort", cohort):
                self.put("cohort", cohort)
            case ("forget", name):
                self.forget(name)

    def rebuilt(self) -> QueueingState:
        """A state that starts from the objects as they are now."""
        state = QueueingState(self.config)
        for (kind, _), obj in sorted(self.objects.items(), key=lambda entry: entry[0], reverse=True):
            getattr(state, f"upsert_{kind}")(obj)
        for key in sorted(self.world.workloads):
            state.upsert_workload(self.world.workloads[key])
        state._settle()
        return state


def nodes_of(state: QueueingState) -> dict[str, QuotaNode]:
    state._settle_structure()
    forest = state.world.forest
    return {f"queue {name}": node for name, node in forest.queues.items()} | {
        f"cohort {name}": node for name, node in forest.cohorts.items()
    }


def numbers(node: QuotaNode) -> dict[str, dict[Any, int]]:
    def kept(values: dict[Any, int]) -> dict[Any, int]:
        return {column: value for column, value in values.items() if value}

    return {
        "subtree": kept(node.subtree),
        "local": kept(node.local),
        "usage": kept(node.usage),
        "height": {0: node.height},
    }


def assert_equals_rebuilt(life: Life) -> None:
    live, fresh = nodes_of(life.world.state), nodes_of(life.rebuilt())
    assert {name: numbers(node) for name, node in live.items()} == {name: numbers(node) for name, node in fresh.items()}
    for name, queue in life.world.state.world.queues.items():
        tally, summed = life.world.state.world.tally(name), {}
        for reservation in queue.reservations.values():
            for column, amount in reservation.usage.items():
                summed[column] = summed.get(column, 0) + amount
        assert {column: used for column, used in tally.reserved.items() if used} == {
            column: used for column, used in summed.items() if used
        }
        assert tally.reserving == len(queue.reservations)


def assert_within_quota(state: QueueingState) -> None:
    for node in nodes_of(state).values():
        if state.world.forest.is_broken(node):
            continue
        for column in node.usage:
            if node.parent is None:
                assert node.usage[column] <= node.subtree.get(column, 0), f"{node} uses more of {column} than there is"
            if node.is_queue:
                assert node.available(column) >= 0, f"{node} is over its limits for {column}"


def assert_everyone_has_a_reason(life: Life) -> None:
    state = life.world.state
    for key, workload in life.world.workloads.items():
        explanation = state.explain(key)
        assert explanation is not None
        assert explanation.message, workload
        if explanation.state == "pending" and state.world.queues[explanation.cluster_queue].inactive is None:
            pending = state.world.pending[explanation.cluster_queue]
            considered = pending.verdict_of(key) is not None
            strict = state.world.queues[explanation.cluster_queue].spec.strict_fifo
            behind = strict or pending.sticky is not None
            assert considered or (behind and explanation.position), explanation


@modest
@given(
    st.booleans(),
    st.tuples(*(cluster_queues(name) for name in QUEUES)),
    st.lists(cohorts(), max_size=3),
    st.lists(operation, min_size=5, max_size=40),
)
def test_quota_is_never_exceeded_at_any_level(
    fair: bool, queues: tuple[Obj, ...], trees: list[Obj], steps: list[tuple[Any, ...]]
) -> None:
    life = Life(QueueingSettings(fair_sharing=fair), list(queues), trees)
    for step in steps:
        life.apply(step)
        assert_within_quota(life.world.state)
    life.world.settle()
    assert_within_quota(life.world.state)


@modest
@given(
    st.booleans(),
    st.tuples(*(cluster_queues(name) for name in QUEUES)),
    st.lists(st.one_of(operation, operation, reshaping), min_size=5, max_size=40),
)
def test_live_state_equals_state_rebuilt_from_objects(
    fair: bool, queues: tuple[Obj, ...], steps: list[tuple[Any, ...]]
) -> None:
    life = Life(QueueingSettings(fair_sharing=fair), list(queues), [])
    for step in steps:
        life.apply(step)
        assert_equals_rebuilt(life)


@modest
@given(
    st.booleans(),
    st.tuples(*(cluster_queues(name) for name in QUEUES)),
    st.lists(st.one_of(operation, operation, reshaping), min_size=5, max_size=40),
)
def test_settled_clusters_stay_settled_and_everyone_has_a_reason(
    fair: bool, queues: tuple[Obj, ...], steps: list[tuple[Any, ...]]
) -> None:
    life = Life(QueueingSettings(fair_sharing=fair), list(queues), [])
    for step in steps:
        life.apply(step)
    life.world.settle()
    assert not life.world.state.needs_cycle(life.world.now) or not life.world.cycle().decisions
    assert_everyone_has_a_reason(life)


@modest
@given(
    st.tuples(*(cluster_queues(name) for name in QUEUES)),
    st.lists(operation, min_size=5, max_size=40),
)
def test_a_restart_admits_nobody_who_was_waiting(queues: tuple[Obj, ...], steps: list[tuple[Any, ...]]) -> None:
    """Without preemption and partial admission nothing but free quota decides, and a restart frees none."""
    calm = [{**queue, "spec": {**queue["spec"], "preemption": {}}} for queue in queues]
    life = Life(QueueingSettings(), calm, [])
    for step in steps:
        life.apply(step)
    life.world.settle()
    plan = life.rebuilt().plan_cycle(life.world.now)
    assert not list(plan.admissions)


@modest
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), min_size=1, max_size=20), st.integers(1, 10))
def test_strict_fifo_never_overtakes(sizes: list[tuple[int, int]], nominal: int) -> None:
    """Nobody runs while an earlier, not smaller-ranked workload of the same queue and size waits."""
    world = QueueingWorld()
    world.state.upsert_flavor(make_flavor("f0"))
    world.state.upsert_cluster_queue(make_cluster_queue("q", {"f0": {"cpu": nominal}}, strict=True))
    world.state.upsert_local_queue(make_local_queue("lq", "q"))
    for index, (cpu, priority) in enumerate(sizes):
        world.put(make_workload(f"w{index:02}", requests={"cpu": cpu}, priority=priority, created=index))
    world.settle()
    running = set(world.admitted().get("q", ()))
    order = sorted(range(len(sizes)), key=lambda index: (-sizes[index][1], index))
    waiting = [f"w{index:02}" for index in order if f"w{index:02}" not in running]
    if waiting:
        first = order.index(int(waiting[0][1:]))
        assert running == {f"w{index:02}" for index in order[:first]}
