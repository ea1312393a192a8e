"""When a ClusterQueue or LocalQueue can admit, and what its Active condition says otherwise."""

from __future__ import annotations

import pytest

from corral.core.conditions import condition
from corral.core.meta import Key, Obj
from corral.decide.queueing.state import QueueingState
from corral.kinds.kueue.conversion import convert_cluster_queue
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

MULTIKUEUE, PROVISIONING = "kueue.x-k8s.io/multikueue", "kueue.x-k8s.io/provisioning-request"


def check(name: str, controller: str = "other", active: bool = True) -> Obj:
    status = "True" if active else "False"
    return {
        "metadata": {"name": name},
        "spec": {"controllerName": controller},
        "status": {"conditions": [condition("Active", status, "", "")]},
    }


def state_with(*checks: Obj, flavors: tuple[str, ...] = ("f",), **spec: object) -> QueueingState:
    state = QueueingState()
    for flavor in flavors:
        state.upsert_flavor(make_flavor(flavor))
    for entry in checks:
        state.upsert_admission_check(entry)
    state.upsert_cluster_queue(make_cluster_queue("cq", {"f": {"cpu": 1}, "g": {"cpu": 1}}, **spec))  # type: ignore[arg-type]
    return state


def activity(state: QueueingState) -> tuple[bool, str, str]:
    view = state.questions.cluster_queue("cq")
    assert view is not None
    return view.active, view.reason, view.message


def rules(*entries: str | tuple[str, list[str]]) -> Obj:
    listed = [
        {"name": entry} if isinstance(entry, str) else {"name": entry[0], "onFlavors": entry[1]} for entry in entries
    ]
    return {"admissionChecks": listed}


BOTH = ("f", "g")


def test_a_queue_with_everything_is_ready() -> None:
    assert activity(state_with(flavors=BOTH)) == (True, "Ready", "Can admit new workloads")


def test_missing_flavors_are_named_until_they_appear() -> None:
    state = state_with(flavors=())
    assert activity(state) == (
        False,
        "FlavorNotFound",
        "Can't admit new workloads: references missing ResourceFlavor(s): f,g.",
    )
    state.upsert_flavor(make_flavor("f"))
    state.upsert_flavor(make_flavor("g"))
    assert activity(state)[0]
    state.delete_flavor("g")
    assert activity(state)[2] == "Can't admit new workloads: references missing ResourceFlavor(s): g."


def test_a_terminating_queue_says_only_that() -> None:
    state = state_with(flavors=())
    queue = make_cluster_queue("cq", {"f": {"cpu": 1}})
    queue["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    state.upsert_cluster_queue(queue)
    assert activity(state) == (
        False,
        "Terminating",
        "Can't admit new workloads; clusterQueue is terminating",
    )


def test_a_stopped_queue_lists_everything_that_is_wrong_with_it() -> None:
    state = state_with(flavors=("f",), stopPolicy="Hold", admissionChecksStrategy=rules("gone"))
    assert activity(state) == (
        False,
        "Stopped",
        "Can't admit new workloads: is stopped, references missing ResourceFlavor(s): g, "
        "references missing AdmissionCheck(s): gone.",
    )


def test_inactive_checks_are_named_until_they_are_active() -> None:
    state = state_with(check("a", active=False), flavors=BOTH, admissionChecksStrategy=rules("a"))
    assert activity(state)[1:] == (
        "AdmissionCheckInactive",
        "Can't admit new workloads: references inactive AdmissionCheck(s): a.",
    )
    state.upsert_admission_check(check("a"))
    assert activity(state)[0]


def test_only_one_multikueue_check_is_allowed() -> None:
    state = state_with(
        check("b", MULTIKUEUE), check("a", MULTIKUEUE), flavors=BOTH, admissionChecksStrategy=rules("a", "b")
    )
    assert activity(state)[1:] == (
        "MultipleMultiKueueAdmissionChecks",
        "Can't admit new workloads: Cannot use multiple MultiKueue AdmissionChecks on the same ClusterQueue, found: a,b.",
    )


def test_a_multikueue_check_covers_all_flavors() -> None:
    state = state_with(check("a", MULTIKUEUE), flavors=BOTH, admissionChecksStrategy=rules(("a", ["f"])))
    assert activity(state)[1:] == (
        "MultiKueueAdmissionCheckAppliedPerFlavor",
        "Can't admit new workloads: Cannot specify MultiKueue AdmissionCheck per flavor, found: a.",
    )


def test_multikueue_and_provisioning_do_not_go_together() -> None:
    state = state_with(
        check("m", MULTIKUEUE), check("p", PROVISIONING), flavors=BOTH, admissionChecksStrategy=rules("m", "p")
    )
    assert activity(state)[1:] == (
        "MultiKueueWithProvisioningRequest",
        "Can't admit new workloads: Cannot use both MultiKueue and ProvisioningRequest AdmissionChecks together, "
        "found: m, p.",
    )


def tas_state(*checks: Obj, **spec: object) -> QueueingState:
    state = QueueingState()
    state.upsert_flavor(make_flavor("tas", nodeLabels={"pool": "x"}, topologyName="t"))
    for entry in checks:
        state.upsert_admission_check(entry)
    state.upsert_cluster_queue(make_cluster_queue("cq", {"tas": {"cpu": 1}}, **spec))  # type: ignore[arg-type]
    return state


def test_a_topology_flavor_needs_its_topology() -> None:
    state = tas_state()
    assert activity(state)[1:] == (
        "TopologyNotFound",
        'Can\'t admit new workloads: there is no Topology "t" for TAS flavor "tas".',
    )
    state.upsert_topology(make_topology("t", "kubernetes.io/hostname"))
    state.upsert_node(make_node("n", {"pool": "x"}, cpu="1"))
    assert activity(state)[0]


def test_a_topology_flavor_in_a_cohort_with_preemption_is_fine() -> None:
    state = tas_state(cohort="co", within="LowerPriority", reclaim="Any")
    state.upsert_topology(make_topology("t", "kubernetes.io/hostname"))
    assert activity(state)[0]


def test_with_multikueue_the_topology_is_the_workers_affair() -> None:
    assert activity(tas_state(check("m", MULTIKUEUE), admissionChecksStrategy=rules("m")))[0]


def test_a_queue_on_a_cohort_cycle_cannot_admit() -> None:
    state = state_with(flavors=BOTH, cohort="a")
    state.upsert_cohort(make_cohort("a", "b"))
    state.upsert_cohort(make_cohort("b", "a"))
    assert not activity(state)[0]
    assert state.questions.cohort("a").broken  # type: ignore[union-attr]
    state.delete_cohort("b")
    assert activity(state)[0]


def test_local_queues_say_why_they_are_not_active() -> None:
    state = state_with(flavors=("f",))
    key = Key("default", "lq")

    def says() -> tuple[bool, str, str]:
        view = state.questions.local_queue(key)
        assert view is not None
        return view.active, view.reason, view.message

    state.upsert_local_queue(make_local_queue("lq", "nowhere"))
    assert says() == (False, "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue")
    state.upsert_local_queue(make_local_queue("lq", "cq"))
    assert says() == (False, "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue")
    state.upsert_flavor(make_flavor("g"))
    assert says() == (True, "Ready", "Can submit new workloads to localQueue")
    state.upsert_local_queue(make_local_queue("lq", "cq", stopPolicy="HoldAndDrain"))
    assert says() == (False, "Stopped", "LocalQueue is stopped")


def test_required_checks_depend_on_flavors() -> None:
    from corral.decide.queueing.cycle.plan import PodSetAssignment

    state = state_with(
        check("all"),
        check("on-f"),
        check("both"),
        flavors=BOTH,
        admissionChecksStrategy=rules("all", ("on-f", ["f"]), ("both", ["f", "g"])),
    )
    assert state.questions.required_checks("cq") == ("all", "both")
    assert state.questions.required_checks("cq", [PodSetAssignment("main", 1, {"cpu": "g"}, {})]) == ("all", "both")
    assert state.questions.required_checks("cq", [PodSetAssignment("main", 1, {"cpu": "f"}, {})]) == (
        "all",
        "on-f",
        "both",
    )


CHANGES = {
    "CQA-05 RGs not change": ({}, {}, False),
    "status only": ({}, {"status": {"pendingWorkloads": 3}}, False),
    "RGs changed": ({"nominal": 2}, {}, True),
}


@pytest.mark.parametrize("name", CHANGES, ids=list(CHANGES))
def test_only_changed_resource_groups_start_searches_over(name: str) -> None:
    quota, extra, changes = CHANGES[name]

    def queue(nominal: int = 1) -> Obj:
        return make_cluster_queue("cq", {"f": {"cpu": nominal}, "g": {"cpu": 1}}, within="LowerPriority")

    state = QueueingState()
    for flavor in ("f", "g"):
        state.upsert_flavor(make_flavor(flavor))
    state.upsert_cluster_queue(queue())
    state.upsert_local_queue(make_local_queue("lq", "cq"))
    state.upsert_workload(make_workload("w", requests={"cpu": 5}))
    state.plan_cycle(EPOCH)
    before = state.world.queues["cq"].generation
    assert state.world.pending["cq"].is_parked(Key("default", "w"))
    state.upsert_cluster_queue({**queue(**quota), **extra})
    state.settle()
    assert (state.world.queues["cq"].generation > before) is changes
    assert state.world.pending["cq"].is_parked(Key("default", "w")) is not changes


# Checks the queue has before and after, is it terminating, and what its Active condition says then.
LISTS: dict[str, tuple[list[str], list[str], bool, tuple[bool, str, str]]] = {
    "CQA-07 Pending clusterQueue updated valid AC list": (
        ["gone"],
        ["good", "fine"],
        False,
        (True, "Ready", "Can admit new workloads"),
    ),
    "CQA-09 Active clusterQueue updated with not found AC": (
        ["good"],
        ["good", "gone"],
        False,
        (
            False,
            "AdmissionCheckNotFound",
            "Can't admit new workloads: references missing AdmissionCheck(s): gone.",
        ),
    ),
    "CQA-11 Active clusterQueue updated with inactive AC": (
        ["good"],
        ["good", "idle"],
        False,
        (
            False,
            "AdmissionCheckInactive",
            "Can't admit new workloads: references inactive AdmissionCheck(s): idle.",
        ),
    ),
    "CQA-15 Terminating clusterQueue updated with valid AC list": (
        ["gone"],
        ["good"],
        True,
        (False, "Terminating", "Can't admit new workloads; clusterQueue is terminating"),
    ),
    "CQA-17 Terminating clusterQueue updated with not found AC": (
        ["good"],
        ["gone"],
        True,
        (False, "Terminating", "Can't admit new workloads; clusterQueue is terminating"),
    ),
}


@pytest.mark.parametrize("name", LISTS, ids=list(LISTS))
def test_the_plain_list_of_the_old_version_means_the_same(name: str) -> None:
    before, after, terminating, expected = LISTS[name]
    state = state_with(check("good"), check("fine"), check("idle", active=False), flavors=BOTH)

    def put(names: list[str]) -> None:
        queue = make_cluster_queue("cq", {"f": {"cpu": 1}, "g": {"cpu": 1}}, admissionChecks=names)
        if terminating:
            queue["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        old = {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "ClusterQueue", **queue}
        state.upsert_cluster_queue(convert_cluster_queue(old, "v1beta2"))

    put(before)
    assert activity(state)[0] is (before == ["good"] and not terminating)
    put(after)
    assert activity(state) == expected
