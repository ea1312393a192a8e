"""Where the search for a flavor stops, and when the next attempt goes on from there."""

from __future__ import annotations

import pytest
from scenario import Scenario

from corral.core.meta import Key
from corral.decide.queueing.cycle.assignment import Cursor
from corral.decide.queueing.model.settings import Features, QueueingSettings
from corral.testing.queueing import (
    EPOCH,
    QueueingWorld,
    make_cluster_queue,
    make_flavor,
    make_local_queue,
    make_node,
    make_pod_set,
    make_topology,
    make_workload,
)

HOST = "kubernetes.io/hostname"


def bookmark(text: str) -> int:
    """The flavor index a nominated workload will go on after; -1 starts over."""
    scenario = Scenario(text + "\n->")
    scenario.state.settle()
    entries = scenario.state._cycle._heads()
    (entry,) = entries
    scenario.state._cycle._nominate(entry)
    assert entry.assignment is not None
    (tried,) = entry.assignment.cursor.tried
    return tried.get("cpu", -1)


def test_a_fit_on_the_first_flavor_is_bookmarked() -> None:
    assert bookmark("queue q: one cpu=4, two cpu=4\nwait w @q: cpu=1") == 0


def test_a_fit_that_borrows_starts_over_when_the_search_went_to_the_end() -> None:
    text = """
        queue q in co: one cpu=0, two cpu=0 ; whenCanBorrow=TryNextFlavor
        queue other in co: one cpu=4, two cpu=4
        wait w @q: cpu=1
    """
    assert bookmark(text) == -1


def test_a_fit_that_borrows_is_bookmarked_when_borrowing_stops_the_search() -> None:
    text = """
        queue q in co: one cpu=0, two cpu=0
        queue other in co: one cpu=4, two cpu=4
        wait w @q: cpu=1
    """
    assert bookmark(text) == 0


def test_preemption_with_candidates_is_bookmarked_when_it_stops_the_search() -> None:
    text = """
        queue q: one cpu=4, two cpu=4 ; within=LowerPriority whenCanPreempt=MayStopSearch
        run low @q: one cpu=4 p=-1
        wait w @q: cpu=1
    """
    assert bookmark(text) == 0


def test_preemption_without_candidates_starts_over_whatever_the_policy() -> None:
    text = """
        queue q: one cpu=4, two cpu=4 ; within=LowerPriority whenCanPreempt=MayStopSearch
        run high-1 @q: one cpu=4 p=9
        run high-2 @q: two cpu=4 p=9
        wait w @q: cpu=1
    """
    assert bookmark(text) == -1


@pytest.mark.parametrize(
    ("age", "newer", "same_shape", "preserve", "outdated"),
    [
        pytest.param(5, True, True, True, True, id="quota changed since, longer than a cycle ago"),
        pytest.param(5, False, True, True, False, id="nothing changed since"),
        pytest.param(1, True, True, True, False, id="from the preceding cycle, survives a change"),
        pytest.param(0, True, True, True, False, id="from the current cycle, survives a change"),
        pytest.param(1, False, False, True, True, id="a changed shape starts over"),
        pytest.param(1, False, False, False, False, id="without the gate a changed shape is ignored"),
        pytest.param(1, True, True, False, True, id="without the gate the preceding cycle is nothing special"),
    ],
)
def test_a_cursor_is_outdated(age: int, newer: bool, same_shape: bool, preserve: bool, outdated: bool) -> None:
    scenario = Scenario("queue q: one cpu=4\nwait w @q: cpu=1\n->", preserve_scan_progress=preserve)
    nominator, queue = scenario.state._cycle._nominator, scenario.state.world.queues["q"]
    info = scenario.state.world.workloads[Key("default", "w")]
    nominator.number, queue.generation = 10, 3
    cursor = Cursor(2 if newer else 3, 10 - age, info.shape if same_shape else "another")
    assert nominator._is_outdated(cursor, queue, info) is outdated


def build(spec: dict[str, object], *flavors: str) -> QueueingWorld:
    world = QueueingWorld()
    for flavor in flavors:
        world.state.upsert_flavor(make_flavor(flavor))
    world.state.upsert_cluster_queue(
        make_cluster_queue("q", {flavor: {"cpu": 1} for flavor in flavors}, within="LowerPriority", **spec)  # type: ignore[arg-type]
    )
    world.state.upsert_local_queue(make_local_queue("lq", "q"))
    return world


def flavor_of(world: QueueingWorld, name: str) -> str | None:
    admission = (world.get(name).get("status") or {}).get("admission")
    return admission["podSetAssignments"][0]["flavors"]["cpu"] if admission else None


def test_scheduling_on_the_first_flavor_is_unblocked_after_some_workloads_were_deleted() -> None:
    world = build({}, "on-demand", "spot")
    world.put(make_workload("old-1", requests={"cpu": 1}), make_workload("old-2", requests={"cpu": 1}, created=1))
    world.settle()
    world.put(make_workload("new", requests={"cpu": 1}, created=2))
    world.settle()
    assert flavor_of(world, "new") is None
    world.delete("old-1")
    world.settle()
    assert flavor_of(world, "new") == "on-demand"


def test_the_next_flavor_is_taken_when_the_first_is_full() -> None:
    world = build({}, "on-demand", "spot")
    world.put(make_workload("old", requests={"cpu": 1}), make_workload("new", requests={"cpu": 1}, created=1))
    world.settle()
    assert (flavor_of(world, "old"), flavor_of(world, "new")) == ("on-demand", "spot")


def test_preempts_on_the_first_flavor_when_the_next_is_full_too() -> None:
    world = build({}, "on-demand", "spot")
    world.put(
        make_workload("low", requests={"cpu": 1}, priority=-1),
        make_workload("same", requests={"cpu": 1}, created=1),
    )
    world.settle()
    assert flavor_of(world, "same") == "on-demand"
    world.put(make_workload("new", requests={"cpu": 1}, created=2))
    world.settle()
    assert flavor_of(world, "new") == "spot"
    assert flavor_of(world, "low") is None


def test_a_skipped_workload_goes_on_with_the_next_flavor() -> None:
    text = """
        cohort pool: one cpu=1, two cpu=1
        queue a in pool: one cpu=0, two cpu=0
        queue b in pool: one cpu=0, two cpu=0
        wait first @a: cpu=1 t=1
        wait second @b: cpu=1 t=2
        ->
        admit first: main 1x cpu@one
        left second: Workload no longer fits after processing another workload
    """
    scenario = Scenario(text)
    scenario.check()
    (admission,) = scenario.state.plan_cycle(EPOCH).admissions
    assert admission.pod_sets[0].flavors == {"cpu": "two"}


def test_sch_85_without_the_gate_a_skipped_workload_tries_every_flavor_again() -> None:
    text = """
        cohort pool: one cpu=1, two cpu=1
        queue a in pool: one cpu=0, two cpu=0
        queue b in pool: one cpu=0, two cpu=0
        wait first @a: cpu=1 t=1
        wait second @b: cpu=1 t=2
        ->
        admit first: main 1x cpu@one
        left second: Workload no longer fits after processing another workload
    """
    flavors = {}
    for preserved in (False, True):
        scenario = Scenario(text, preserve_scan_progress=preserved)
        scenario.check()
        item = scenario.state.world.pending["b"].items[Key("default", "second")]
        assert (item.cursor is not None) is preserved
        scenario.state.delete_workload(Key("default", "first"))
        (admission,) = scenario.state.plan_cycle(EPOCH).admissions
        flavors[preserved] = admission.pod_sets[0].flavors["cpu"]
    assert flavors == {False: "one", True: "two"}


@pytest.mark.parametrize(
    ("preserved", "churn", "expected"),
    [
        pytest.param(False, True, None, id="CAD-04 gate disabled"),
        pytest.param(True, True, "tas-2", id="CAD-05 gate enabled"),
        pytest.param(False, False, "tas-2", id="CAD-06 no generation churn, gate disabled"),
        pytest.param(True, False, "tas-2", id="CAD-07 no generation churn, gate enabled"),
    ],
)
def test_a_flavor_whose_nodes_are_full_is_left_behind(preserved: bool, churn: bool, expected: str | None) -> None:
    """Quota lets the workload onto the first flavor for ever; only the cursor can lead it to the second."""
    settings = QueueingSettings(
        fair_sharing=True, max_rounds=1, features=Features(preserve_scan_progress=preserved, topology_recompute=True)
    )
    world = QueueingWorld(settings)
    world.state.upsert_topology(make_topology("t", HOST))
    for number in "12":
        world.state.upsert_flavor(make_flavor(f"tas-{number}", nodeLabels={"pool": number}, topologyName="t"))
        world.state.upsert_node(make_node(f"node-{number}", {"pool": number}, cpu="2"))

    def put_queue(second: int) -> None:
        quotas = {"tas-1": {"cpu": 4}, "tas-2": {"cpu": second}}
        world.state.upsert_cluster_queue(make_cluster_queue("q", quotas, within="LowerPriority", reclaim="Any"))

    put_queue(4)
    world.state.upsert_local_queue(make_local_queue("lq", "q"))
    on_host = {"required": HOST}
    blocker = make_pod_set("main", 1, {"cpu": 2}, topology=on_host, nodeSelector={"pool": "1"})
    world.put(make_workload("blocker", "lq", blocker, priority=10))
    world.put(make_workload("new", "lq", make_pod_set("main", 1, {"cpu": 2}, topology=on_host), priority=10, created=1))
    for number in range(4):
        world.cycle()
        if churn:
            put_queue(5 if number % 2 == 0 else 4)
    assert (flavor_of(world, "blocker"), flavor_of(world, "new")) == ("tas-1", expected)
