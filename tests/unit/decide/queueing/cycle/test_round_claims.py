"""What a round has claimed: whether an entry fits is what it would be with every victim taken away, however little is looked at."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.core.meta import Key
from corral.decide.queueing.cycle import round_claims
from corral.decide.queueing.cycle.assignment import Assignment, Cursor
from corral.decide.queueing.cycle.entry import Entry
from corral.decide.queueing.cycle.preemption.candidates import Target
from corral.decide.queueing.cycle.preemption.classical import simulate_removal
from corral.decide.queueing.cycle.round_claims import RoundClaims
from corral.decide.queueing.model.values import FlavorResource
from corral.decide.queueing.queue.pending import Pending
from corral.decide.queueing.quota.cluster_queue import Reservation
from corral.decide.queueing.world import World
from corral.testing.queueing import (
    QueueingWorld,
    make_assignment,
    make_cluster_queue,
    make_flavor,
    make_local_queue,
    make_node,
    make_topology,
    make_workload,
    reserve,
)

CPU = FlavorResource("default", "cpu")
QUEUES = {"a1": "a", "a2": "a", "b1": "b"}
HOSTS = 3
held = st.lists(st.tuples(st.sampled_from(sorted(QUEUES)), st.integers(1, 4), st.integers(0, HOSTS - 1)), max_size=8)
some = st.sets(st.integers(0, 7), max_size=8)


def world_with(workloads: list[tuple[str, int, int]], nodes: bool) -> World:
    """Two trees over the same nodes; a workload is its queue, its cores and its host."""
    kept = QueueingWorld()
    state = kept.state
    if nodes:
        state.upsert_topology(make_topology("t", "kubernetes.io/hostname"))
        for number in range(HOSTS):
            state.upsert_node(make_node(f"n{number}", {"pool": "x"}, cpu="5"))
    state.upsert_flavor(make_flavor("default", **({"nodeLabels": {"pool": "x"}, "topologyName": "t"} if nodes else {})))
    for queue, cohort in QUEUES.items():
        state.upsert_cluster_queue(make_cluster_queue(queue, {"default": {"cpu": (4, 6)}}, cohort=cohort))
        state.upsert_local_queue(make_local_queue(f"lq-{queue}", queue))
    for number, (queue, cores, host) in enumerate(workloads):
        assignment = make_assignment("main", {"cpu": "default"}, {"cpu": cores})
        if nodes:
            domains = [{"values": [f"n{host}"], "count": 1}]
            assignment["topologyAssignment"] = {"levels": ["kubernetes.io/hostname"], "domains": domains}
        kept.put(reserve(make_workload(f"w{number}", f"lq-{queue}", requests={"cpu": cores}), queue, assignment))
    state.settle()
    return state.world


@settings(max_examples=150, deadline=None)
@given(held, some, some, st.integers(1, 12), st.integers(0, HOSTS - 1), st.booleans())
def test_an_entry_fits_as_if_every_victim_had_gone(
    workloads: list[tuple[str, int, int]], claimed: set[int], own: set[int], cores: int, host: int, nodes: bool
) -> None:
    world = world_with(workloads, nodes)
    reservations = [world.reservations[Key("default", f"w{number}")] for number in range(len(workloads))]
    claims = RoundClaims(world.topology)
    claims.claim(Target(reservations[number], "") for number in claimed if number < len(reservations))
    entry = entry_of(world, cores, host, nodes)
    entry.targets = [Target(reservations[number], "") for number in own if number < len(reservations)]
    before = {name: dict(queue.node.usage) for name, queue in world.queues.items()}
    found = claims.fits(entry)
    assert {name: dict(queue.node.usage) for name, queue in world.queues.items()} == before
    for number in (claimed | own) & set(range(len(reservations))):
        world.release(reservations[number].info.key)
    assert found == RoundClaims(world.topology).fits(entry_of(world, cores, host, nodes))


def entry_of(world: World, cores: int, host: int, nodes: bool) -> Entry:
    """Somebody who wants to go to the first queue, and to a host."""
    kept = QueueingWorld()
    kept.put(make_workload("new", "lq-a1", requests={"cpu": cores}))
    entry = Entry(Pending(kept.state.world.workloads[Key("default", "new")], 0), world.queues["a1"])
    entry.usage = {CPU: cores * 1000}
    entry.assignment = Assignment(Cursor(0, 0, None))
    if nodes:
        entry.assignment.topology_usage = {"default": [((f"n{host}",), {"cpu": cores * 1000}, 1)]}
    return entry


def test_victims_of_others_are_left_alone_while_there_is_enough_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_with([("a1", 4, 0), ("a2", 1, 0), ("b1", 2, 1), ("b1", 2, 2)], nodes=False)
    removed: list[str] = []

    def noted(one: Reservation) -> None:
        removed.append(one.info.key.name)
        simulate_removal(one)

    monkeypatch.setattr(round_claims, "simulate_removal", noted)
    claims = RoundClaims(world.topology)
    claims.claim(Target(reservation, "") for reservation in world.reservations.values())
    assert claims.fits(entry_of(world, 3, 0, nodes=False)) == (True, True)
    assert removed == []
    assert claims.fits(entry_of(world, 6, 0, nodes=False)) == (True, True)
    assert removed == ["w0", "w1"], "those of another tree have no quota to give"
