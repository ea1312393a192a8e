"""Random lives of a queueing cluster: quota holds, nobody is overtaken, restarts change nothing, and nobody waits without a reason.

A life is long enough for queues to fill, for preemption and for quota that is cut under running workloads. What holds quota is
judged by an auditor that knows nothing but objects (`corral.testing.audit`).
"""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from corral.core.meta import Key, Obj, spec_of, status_of
from corral.decide.queueing.model.settings import Features, QueueingSettings
from corral.decide.queueing.quota.tree import QuotaNode
from corral.decide.queueing.state import QueueingState
from corral.testing.audit import Audit, holds_quota
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

quota = st.one_of(
    st.integers(0, 8),
    st.tuples(st.integers(1, 8), st.integers(0, 6), st.none()),
    st.tuples(st.integers(2, 8), st.none(), st.integers(0, 2)),
    st.tuples(st.integers(2, 8), st.integers(0, 4), st.integers(0, 3)),
)


@st.composite
def cluster_queues(draw: st.DrawFn, name: str) -> Obj:
    cohort = draw(st.sampled_from(("", *COHORTS, *COHORTS)))
    flavors = draw(st.sampled_from((("f0",), ("f0", "f1"), ("f1",))))
    limits = {flavor: {"cpu": draw(quota) if cohort else draw(st.integers(0, 8))} for flavor in flavors}
    return make_cluster_queue(
        name,
        limits,
        cohort=cohort,
        within=draw(st.sampled_from(("LowerPriority", "LowerOrNewerEqualPriority", "Never"))),
        reclaim=draw(st.sampled_from(("Any", "LowerPriority", "Never"))),
        borrow=draw(st.sampled_from((None, {"policy": "LowerPriority"}))),
        strict=draw(st.booleans()),
        weight=draw(st.sampled_from((None, "2", "0.5", "0"))),
        flavorFungibility={
            "whenCanBorrow": draw(st.sampled_from(("MayStopSearch", "TryNextFlavor"))),
            "whenCanPreempt": draw(st.sampled_from(("MayStopSearch", "TryNextFlavor"))),
        },
    )


all_queues = st.tuples(*(cluster_queues(name) for name in QUEUES))


@st.composite
def cohorts(draw: st.DrawFn) -> Obj:
    name = draw(st.sampled_from(COHORTS))
    parent = draw(st.sampled_from(("", *COHORTS)))
    groups = draw(st.sampled_from(((), ({"f0": {"cpu": 2}},), ({"f0": {"cpu": 3}, "f1": {"cpu": 1}},))))
    if parent and groups and draw(st.booleans()):
        limited = (2, draw(st.sampled_from((None, 0, 3))), draw(st.sampled_from((None, 1))))
        groups = ({"f0": {"cpu": limited}},)
    return make_cohort(name, parent, *groups)


trees = st.lists(cohorts(), max_size=3, unique_by=lambda cohort: cohort["metadata"]["name"])

index = st.integers(0, 30)
ARGUMENTS: dict[str, st.SearchStrategy[tuple[Any, ...]]] = {
    "submit": st.tuples(
        st.sampled_from(QUEUES), st.integers(1, 4), st.integers(0, 3), st.sampled_from((None, None, None, 1))
    ),
    "finish": st.tuples(index),
    "delete": st.tuples(index),
    "evict": st.tuples(index),
    "cycle": st.just(()),
    "vacate": st.just(()),
    "settle": st.just(()),
    "stop": st.tuples(st.sampled_from(QUEUES), st.sampled_from((False, False, True))),
    "queue": st.tuples(st.sampled_from(QUEUES).flatmap(cluster_queues)),
    "cohort": st.tuples(cohorts()),
    "forget": st.tuples(st.sampled_from((*QUEUES, *COHORTS))),
}
OFTEN = (
    ("submit",) * 10 + ("cycle",) * 6 + ("vacate", "vacate", "settle", "finish", "finish", "delete", "evict", "stop")
)
EDITS = ("queue", "cohort", "forget")


@st.composite
def any_step(draw: st.DrawFn) -> tuple[Any, ...]:
    """Mostly arrivals and work; edits of quota now and then."""
    kind = draw(st.sampled_from((*OFTEN, *OFTEN, *EDITS)))
    return kind, *draw(ARGUMENTS[kind])


steps_of_a_life = st.lists(any_step(), min_size=40, max_size=60)

modest = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))


class Auditor(QueueingWorld):
    """Looks at every single write."""

    def __init__(self, config: QueueingSettings, objects: dict[tuple[str, str], Obj]) -> None:
        super().__init__(config)
        self.objects = objects
        self.preemptions = 0

    def put(self, *workloads: Obj) -> None:
        for workload in workloads:
            name, namespace = workload["metadata"]["name"], workload["metadata"]["namespace"]
            old = self.workloads.get(Key(namespace, name))
            super().put(workload)
            if holds_quota(workload) and not (old is not None and holds_quota(old)):
                self._check_quota(workload)
                self._check_order(workload)

    def of_kind(self, kind: str) -> list[Obj]:
        return [obj for (found, _), obj in self.objects.items() if found == kind]

    def _check_quota(self, admitted: Obj) -> None:
        audit = Audit(self.of_kind("cluster_queue"), self.of_kind("cohort"))
        for workload in self.workloads.values():
            if workload["metadata"]["name"] != admitted["metadata"]["name"]:
                audit.hold(workload)
        assert audit.admit(admitted) == []

    def _check_order(self, admitted: Obj) -> None:
        """In a strict queue nobody goes before an earlier or more important one of the same size."""
        name = status_of(admitted)["admission"]["clusterQueue"]
        if spec_of(self.objects["cluster_queue", name])["queueingStrategy"] != "StrictFIFO":
            return
        for other in self.workloads.values():
            same = spec_of(other)["queueName"] == spec_of(admitted)["queueName"] and _size(other) == _size(admitted)
            if same and _rank(other) < _rank(admitted):
                ended = any(
                    entry["type"] == "Finished" and entry["status"] == "True"
                    for entry in status_of(other).get("conditions") or ()
                )
                assert ended or status_of(other).get("admission"), f"{_rank(admitted)} overtakes {_rank(other)}"

    def evict(self, key: Key, reason: str = "Preempted", message: str = "") -> None:
        self.preemptions += 1
        super().evict(key, reason, message)


def _size(workload: Obj) -> tuple[int, int]:
    (pod_set,) = spec_of(workload)["podSets"]
    return pod_set["count"], pod_set.get("minCount", 0)


def _rank(workload: Obj) -> tuple[int, str]:
    return -spec_of(workload)["priority"], workload["metadata"]["name"]


class Life:
    """One random life, with the objects it consists of."""

    def __init__(self, config: QueueingSettings, queues: tuple[Obj, ...], trees: list[Obj]) -> None:
        self.config = config
        self.objects: dict[tuple[str, str], Obj] = {}
        self.world = Auditor(config, self.objects)
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

    def holder(self, index: int) -> Key | None:
        """Somebody who holds quota."""
        keys = sorted(key for key, workload in self.world.workloads.items() if holds_quota(workload))
        return keys[index % len(keys)] if keys else None

    def apply(self, step: tuple[Any, ...]) -> None:
        world = self.world
        match step:
            case ("submit", queue, cpu, priority, minimum):
                self._submit(queue, cpu, priority, minimum)
            case ("finish", index) if (key := self.holder(index)) is not None:
                world.finish(key.name)
            case ("delete", index) if (key := self.workload(index)) is not None:
                world.delete(key.name)
            case ("evict", index) if (key := self.holder(index)) is not None:
                world.evict(key, "Preempted")
            case ("stop", name, stopped):
                queue = self.objects.get(("cluster_queue", name))
                if queue is not None:
                    policy = "Hold" if stopped else "None"
                    self.put("cluster_queue", {**queue, "spec": {**queue["spec"], "stopPolicy": policy}})
            case ("cycle",):
                world.cycle()
            case ("vacate",):
                world.vacate()
            case ("settle",):
                world.settle()
            case ("queue", queue):
                self.put("cluster_queue", queue)
            case ("cohort", cohort):
                self.put("cohort", cohort)
            case ("forget", name):
                self.forget(name)

    def _submit(self, queue: str, cpu: int, priority: int, minimum: int | None) -> None:
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
        self.world.put(workload)

    def rebuilt(self) -> QueueingState:
        """A state that starts from the objects as they are now."""
        state = QueueingState(self.config)
        for (kind, _), obj in sorted(self.objects.items(), key=lambda entry: entry[0], reverse=True):
            getattr(state, f"upsert_{kind}")(obj)
        for key in sorted(self.world.workloads):
            state.upsert_workload(self.world.workloads[key])
        state.settle()
        return state

    def try_again(self) -> None:
        """Give everybody who was set aside another chance, and nobody the first place for having preempted."""
        for queue in list(self.world.state.world.queues.values()):
            self.world.state.flush_cluster_queue(queue.name)
            pending = self.world.state.world.pending[queue.name]
            if pending.sticky is not None:
                pending.release(pending.sticky)

    def outcome(self) -> dict[str, Any]:
        """Who holds what, and who was told to leave."""
        return {
            str(key): (status_of(workload).get("admission"), key in self.world._leaving)
            for key, workload in self.world.workloads.items()
        }


def nodes_of(state: QueueingState) -> dict[str, QuotaNode]:
    state._requeue_triggers.settle_structure()
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


def assert_everyone_has_a_reason(life: Life) -> None:
    state = life.world.state
    for key, workload in life.world.workloads.items():
        explanation = state.questions.explain(key)
        assert explanation is not None
        assert explanation.message, workload
        if explanation.state == "pending" and state.world.queues[explanation.cluster_queue].inactive is None:
            pending = state.world.pending[explanation.cluster_queue]
            line = [item.info.key for item in pending.ordered()]
            in_front = line[: line.index(key)] + ([pending.sticky] if pending.sticky else [])
            told = [each for each in (key, *in_front) if pending.verdict_of(each) is not None]
            assert told, f"neither {key} nor anybody in front of it was ever considered"


@modest
@given(st.booleans(), all_queues, trees, steps_of_a_life)
def test_quota_is_never_exceeded_and_strict_queues_keep_their_order(
    fair: bool, queues: tuple[Obj, ...], trees: list[Obj], steps: list[tuple[Any, ...]]
) -> None:
    life = Life(QueueingSettings(fair_sharing=fair), queues, trees)
    for step in steps:
        life.apply(step)
    life.world.settle()


@modest
@given(st.booleans(), all_queues, trees, steps_of_a_life)
def test_live_state_equals_state_rebuilt_from_objects(
    fair: bool, queues: tuple[Obj, ...], trees: list[Obj], steps: list[tuple[Any, ...]]
) -> None:
    life = Life(QueueingSettings(fair_sharing=fair), queues, trees)
    for step in steps:
        life.apply(step)
        assert_equals_rebuilt(life)


@modest
@given(all_queues, trees, steps_of_a_life)
def test_settled_clusters_stay_settled_and_everyone_has_a_reason(
    queues: tuple[Obj, ...], trees: list[Obj], steps: list[tuple[Any, ...]]
) -> None:
    """Without partial admission and fair sharing: there victims may come back before their preemptors, for ever, as upstream."""
    config = QueueingSettings(features=Features(partial_admission=False))
    life = Life(config, queues, trees)
    for step in steps:
        life.apply(step)
    life.world.settle(rounds=60)
    assert not life.world.state.questions.needs_cycle(life.world.now) or not life.world.cycle().decisions
    assert_everyone_has_a_reason(life)


FULL: tuple[Obj, ...] = tuple(
    make_cluster_queue(name, {"f0": {"cpu": cpu}}, cohort="c0", within="LowerPriority", reclaim="Any")
    for name, cpu in zip(QUEUES, (3, 7, 0, 0), strict=True)
)
PREEMPTING: list[tuple[Any, ...]] = [
    *[("submit", "q0", 1, 0, None)] * 10,
    ("settle",),
    ("submit", "q1", 1, 0, None),
    ("cycle",),
    ("submit", "q1", 2, 3, None),
    ("cycle",),
]
"""Somebody preempts, and before the victim has left somebody more important comes to the same queue."""


@modest
@given(st.booleans(), all_queues, trees, steps_of_a_life, st.sets(st.integers(0, 59), min_size=1))
@example(True, FULL, [], PREEMPTING, {len(PREEMPTING) - 2})
@example(False, FULL, [], PREEMPTING, {len(PREEMPTING) - 2})
def test_restarts_change_nothing(
    fair: bool, queues: tuple[Obj, ...], trees: list[Obj], steps: list[tuple[Any, ...]], restarts: set[int]
) -> None:
    """Two clusters live the same life; one forgets everything but its objects now and then.

    Whoever was set aside is tried again after a restart, as after any event that frees quota; and that a preemptor keeps the head
    of its queue until its victims have left is in memory only, as upstream. The other cluster forgets both at these moments too.
    """
    config = QueueingSettings(fair_sharing=fair)
    steady, restarted = Life(config, queues, trees), Life(config, queues, trees)
    for number, step in enumerate(steps):
        steady.apply(step)
        restarted.apply(step)
        if number in restarts:
            restarted.world.state = restarted.rebuilt()
            steady.try_again()
        assert steady.outcome() == restarted.outcome()
    steady.world.settle()
    restarted.world.settle()
    assert steady.outcome() == restarted.outcome()
