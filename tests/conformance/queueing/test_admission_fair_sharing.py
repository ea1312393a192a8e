"""Usage history of LocalQueues: decay, penalties, settlement."""

from __future__ import annotations

import pytest

from corral.core.conditions import condition
from corral.core.meta import Key, Obj
from corral.core.timestamps import format_time
from corral.decide.queueing.model.settings import AdmissionFairSharing, QueueingSettings
from corral.decide.queueing.model.values import FlavorResource, LocalQueueSpec
from corral.decide.queueing.model.workload import WorkloadDecoder
from corral.decide.queueing.quota.admission_fair_sharing import UsageLedger, alpha, decayed
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
NANO = 10**9
MINUTE = 60.0


@pytest.mark.parametrize(
    ("half_life", "old", "running", "expected"),
    [
        pytest.param(5 * MINUTE, {"cpu": 8}, {}, {"cpu": 4.0}, id="decays if there is no running workloads"),
        pytest.param(
            5 * MINUTE, {"cpu": 8}, {"cpu": 4}, {"cpu": 6.0}, id="sums the previous state and running workloads"
        ),
        pytest.param(
            5 * MINUTE,
            {"cpu": 8, "gpu": 16},
            {"cpu": 4, "gpu": 4},
            {"cpu": 6.0, "gpu": 10.0},
            id="sums the usage from different flavors and resources",
        ),
        pytest.param(
            10 * MINUTE, {"cpu": 8}, {"cpu": 4}, {"cpu": 6.828427124}, id="half time twice larger than sampling"
        ),
        pytest.param(10 * MINUTE, {"gpu": 8}, {"gpu": 4}, {"gpu": 6.828427124}, id="AFS-24 running GPU workloads"),
        pytest.param(1440 * MINUTE, {"cpu": 8}, {}, {"cpu": 7.980769063}, id="with long half time"),
        pytest.param(0.0, {"gpu": 8}, {"gpu": 4}, {}, id="resets to 0 when half life is 0"),
    ],
)
def test_decay_over_five_minutes(
    half_life: float, old: dict[str, int], running: dict[str, int], expected: dict[str, float]
) -> None:
    past = {name: amount * NANO for name, amount in old.items()}
    present = {name: amount * NANO for name, amount in running.items()}
    found = decayed(past, present, 5 * MINUTE, half_life)
    assert found == {name: round(amount * NANO) for name, amount in expected.items()}


def ledger(half_life: float = 5 * MINUTE, **settings: object) -> UsageLedger:
    return UsageLedger(AdmissionFairSharing(half_life_s=half_life, **settings))  # type: ignore[arg-type]


def spec(name: str, weight: float = 1.0, consumed: int | None = None, at: float = 0.0) -> LocalQueueSpec:
    history = {} if consumed is None else {"cpu": consumed * NANO}
    return LocalQueueSpec(
        Key("ns", name), "cq", weight=weight, consumed=history, consumed_at=None if consumed is None else at
    )


def test_too_early_samples_are_not_taken() -> None:
    book = ledger()
    book.set_queue(spec("a", consumed=8))
    assert book.sample("ns/a", {}, 4 * MINUTE) is None
    assert book.sample("ns/a", {}, 5 * MINUTE) == {"cpu": 4 * NANO}


def test_a_queue_without_history_starts_with_nothing() -> None:
    book = ledger()
    book.set_queue(spec("a"))
    assert book.sample("ns/a", {"cpu": 4000}, 100.0) == {}
    assert book.sample("ns/a", {"cpu": 4000}, 100.0 + 5 * MINUTE) == {"cpu": 2 * NANO}


def test_persisted_history_is_merged_once() -> None:
    book = ledger()
    book.set_queue(spec("a", consumed=8))
    book.set_queue(spec("a", consumed=8))
    assert book.usage("ns/a") == 8.0


def test_weights_of_queues_and_resources() -> None:
    book = ledger(resource_weights={"cpu": 3.0})
    book.set_queue(spec("a", weight=2.0, consumed=8))
    assert book.usage("ns/a") == 12.0
    book.set_queue(spec("zero", weight=0.0))
    assert book.usage("ns/zero") == float("inf")


def decoded(name: str):  # type: ignore[no-untyped-def]
    return WorkloadDecoder(QueueingSettings()).decode(make_workload(name, "a", namespace="ns", requests={"cpu": 4}))


def test_a_penalty_counts_at_once_and_is_settled_once() -> None:
    book = ledger()
    book.set_queue(spec("a", consumed=0))
    info = decoded("w")
    book.penalize(info, {FlavorResource("f", "cpu"): 4000})
    rate = alpha(5 * MINUTE, 5 * MINUTE)
    assert book.usage("ns/a") == 4 * rate
    assert book.settle("ns/a", info.key, {}, 10.0)
    assert not book.settle("ns/a", info.key, {}, 10.0)
    assert book.usage("ns/a") == 4 * rate
    assert not book.has_penalty("ns/a", info.key)


def test_a_forgiven_penalty_leaves_no_trace() -> None:
    book = ledger()
    info = decoded("w")
    book.penalize(info, {FlavorResource("f", "cpu"): 4000})
    book.forgive("ns/a", info.key)
    assert book.usage("ns/a") == 0.0


def test_deleting_a_queue_forgets_its_history() -> None:
    book = ledger()
    book.set_queue(spec("a", consumed=8))
    book.delete_queue(Key("ns", "a"))
    assert book.usage("ns/a") == 0.0


# -- through the state ------------------------------------------------------------------------------------------------


def world(**cluster_queue: object) -> QueueingWorld:
    settings = QueueingSettings(admission_fair_sharing=AdmissionFairSharing(half_life_s=5 * MINUTE))
    built = QueueingWorld(settings)
    built.state.upsert_flavor(make_flavor("f"))
    scope = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}, **cluster_queue}
    built.state.upsert_cluster_queue(make_cluster_queue("cq", {"f": {"cpu": 8}}, **scope))  # type: ignore[arg-type]
    built.state.upsert_local_queue(make_local_queue("lq", "cq"))
    return built


KEY = Key("default", "w")


def has_penalty(built: QueueingWorld) -> bool:
    return built.state.world.ledger.has_penalty("default/lq", KEY)


def test_an_admission_is_penalized_until_it_is_seen() -> None:
    built = world()
    built.put(make_workload("w", requests={"cpu": 4}))
    built.state.plan_cycle(EPOCH)
    assert has_penalty(built)
    built.state.admission_failed(KEY)
    assert not has_penalty(built)
    built.cycle()
    assert not has_penalty(built)
    assert built.state.questions.local_queue(Key("default", "lq")).usage_share == 2.0  # type: ignore[union-attr]


def test_a_queue_without_usage_based_mode_is_not_penalized() -> None:
    built = world(admissionScope={"admissionMode": "NoAdmissionFairSharing"})
    built.put(make_workload("w", requests={"cpu": 4}))
    built.state.plan_cycle(EPOCH)
    assert not has_penalty(built)


def test_a_reservation_that_still_waits_for_checks_keeps_its_penalty() -> None:
    built = world()
    built.put(make_workload("w", requests={"cpu": 4}))
    (admission,) = built.state.plan_cycle(EPOCH).admissions
    reserved = {
        **built.get("w"),
        "status": {"admission": admission.admission, "conditions": [condition("QuotaReserved", "True", "", "")]},
    }
    built.put(reserved)
    assert has_penalty(built)
    conditions = [*reserved["status"]["conditions"], condition("Admitted", "True", "", "")]
    built.put({**reserved, "status": {**reserved["status"], "conditions": conditions}})
    assert not has_penalty(built)
    built.put({**built.get("w")})
    assert built.state.questions.local_queue(Key("default", "lq")).usage_share == 2.0  # type: ignore[union-attr]


@pytest.mark.parametrize("how", ["move", "finish", "delete"])
def test_a_penalty_that_cannot_be_settled_is_dropped(how: str) -> None:
    built = world()
    built.put(make_workload("w", requests={"cpu": 4}))
    built.state.plan_cycle(EPOCH)
    if how == "move":
        built.put(make_workload("w", "elsewhere", requests={"cpu": 4}))
    elif how == "finish":
        built.finish("w")
    else:
        built.delete("w")
    assert not has_penalty(built)


def test_usage_is_sampled_from_what_runs() -> None:
    built = world()
    history = {"consumedResources": {"cpu": "8"}, "lastUpdate": format_time(EPOCH)}
    queue = make_local_queue("lq", "cq")
    queue["status"] = {"fairSharing": {"admissionFairSharingStatus": history}}
    fresh = QueueingWorld(built.state.settings)
    fresh.state.upsert_flavor(make_flavor("f"))
    fresh.state.upsert_cluster_queue(make_cluster_queue("cq", {"f": {"cpu": 8}}))
    fresh.state.upsert_local_queue(queue)
    fresh.put(make_workload("w", requests={"cpu": 4}))
    fresh.cycle()
    assert fresh.state.sample_local_queue(Key("default", "lq"), EPOCH + 5 * MINUTE) == {"cpu": 6 * NANO}
    assert fresh.state.questions.local_queue_history(Key("default", "lq"))[1] == EPOCH + 5 * MINUTE


# -- penalties through a workload's life ------------------------------------------------------------------------------

LQ, OTHER = Key("default", "lq"), Key("default", "other")


def planned(built: QueueingWorld, *names: str) -> dict[str, Obj]:
    """Workloads of 4 cpus, as they will look once the admissions of a plan that is running are written."""
    plan = built.state.plan_cycle(built.now)
    assert {admission.key.name for admission in plan.admissions} == set(names)
    written = {}
    for admission in plan.admissions:
        workload = built.get(admission.key.name)
        written[admission.key.name] = {**workload, "status": status(admission.admission, "QuotaReserved", "Admitted")}
    return written


def status(admission: Obj, *true: str) -> Obj:
    return {"admission": admission, "conditions": [condition(kind, "True", "", "") for kind in true]}


def test_afs_03_a_deleted_queue_does_not_hinder_the_admissions_of_others() -> None:
    built = world()
    built.state.upsert_local_queue(make_local_queue("other", "cq"))
    built.put(make_workload("a", "lq", requests={"cpu": 4}), make_workload("b", "other", requests={"cpu": 4}))
    written = planned(built, "a", "b")
    built.state.delete_local_queue(OTHER)
    built.put(*written.values())
    assert built.admitted() == {"cq": ["a", "b"]}
    assert built.state.questions.cluster_queue("cq").admitted == 2  # type: ignore[union-attr]
    assert built.state.questions.local_queue(LQ).usage_share == 2.0  # type: ignore[union-attr]
    assert (built.state.questions.local_queue(OTHER), built.state.world.ledger.usage("default/other")) == (None, 0.0)


def test_a_workload_whose_queue_is_gone_before_its_turn_waits() -> None:
    built = world()
    built.state.upsert_local_queue(make_local_queue("other", "cq"))
    built.put(make_workload("a", "lq", requests={"cpu": 4}), make_workload("b", "other", requests={"cpu": 4}))
    built.state.delete_local_queue(OTHER)
    built.cycle()
    assert built.admitted() == {"cq": ["a"]}
    found = built.state.questions.explain(Key("default", "b"))
    assert found is not None
    assert (found.reason, found.message) == ("Inadmissible", "LocalQueue other doesn't exist")


def test_afs_04_an_admission_stands_even_if_its_own_queue_was_deleted_meanwhile() -> None:
    built = world()
    built.put(make_workload("w", requests={"cpu": 8}))
    written = planned(built, "w")
    built.state.delete_local_queue(LQ)
    built.put(*written.values())
    assert built.state.questions.cluster_queue("cq").admitted == 1  # type: ignore[union-attr]
    assert built.state.world.ledger.usage("default/lq") == 0.0
    built.delete("w")
    assert built.state.questions.cluster_queue("cq").admitted == 0  # type: ignore[union-attr]


def test_afs_10_without_configuration_nobody_is_penalized() -> None:
    built = QueueingWorld()
    built.state.upsert_flavor(make_flavor("f"))
    scope = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}
    built.state.upsert_cluster_queue(make_cluster_queue("cq", {"f": {"cpu": 8}}, **scope))
    built.state.upsert_local_queue(make_local_queue("lq", "cq"))
    built.put(make_workload("w", requests={"cpu": 4}))
    planned(built, "w")
    assert not has_penalty(built)
    assert built.state.questions.local_queue(LQ).usage_share == 0.0  # type: ignore[union-attr]


def second_pass() -> QueueingWorld:
    """A workload that holds quota and only waits for its places on nodes, which can be found now."""
    built = world()
    built.state.upsert_topology(make_topology("t", HOST))
    built.state.upsert_flavor(make_flavor("tas", topologyName="t"))
    built.state.upsert_node(make_node("x1", cpu="8"))
    active = {"conditions": [{"type": "Active", "status": "True"}]}
    controller = {"controllerName": "kueue.x-k8s.io/provisioning-request"}
    built.state.upsert_admission_check({"metadata": {"name": "prov"}, "spec": controller, "status": active})
    extra = {
        "admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"},
        "admissionChecksStrategy": {"admissionChecks": [{"name": "prov"}]},
    }
    built.state.upsert_cluster_queue(make_cluster_queue("cq", {"tas": {"cpu": 8}}, **extra))
    built.put(make_workload("w", "lq", make_pod_set("main", 1, {"cpu": 4}, topology={"required": HOST})))
    (first,) = built.state.plan_cycle(built.now).admissions
    assert first.pod_sets[0].delayed_topology == "Pending"
    reserved = status(first.admission, "QuotaReserved")
    built.put({**built.get("w"), "status": {**reserved, "admissionChecks": [{"name": "prov", "state": "Ready"}]}})
    return built


def test_afs_12_a_second_pass_is_not_penalized() -> None:
    built = second_pass()
    built.state.world.ledger.forgive("default/lq", KEY)
    (second,) = built.state.plan_cycle(built.now).admissions
    assert second.second_pass
    assert not has_penalty(built)


def test_afs_13_a_second_pass_keeps_the_one_penalty_of_the_first() -> None:
    built = second_pass()
    (second,) = built.state.plan_cycle(built.now).admissions
    assert second.pod_sets[0].topology is not None
    assert built.state.questions.local_queue(LQ).usage_share == 2.0  # type: ignore[union-attr]
    built.state.admission_failed(KEY)
    assert has_penalty(built), "the failed write was not the one that was penalized"
    built.put({**built.get("w"), "status": status(second.admission, "QuotaReserved", "Admitted")})
    assert not has_penalty(built)
    assert built.state.questions.local_queue(LQ).usage_share == 2.0  # type: ignore[union-attr]


def test_afs_17_the_queue_of_a_deleted_cluster_queue_is_inactive_and_empty() -> None:
    built = world()
    built.put(make_workload("w", requests={"cpu": 4}))
    built.cycle()
    assert built.state.questions.local_queue(LQ).admitted == 1  # type: ignore[union-attr]
    built.state.delete_cluster_queue("cq")
    view = built.state.questions.local_queue(LQ)
    assert view is not None
    assert (view.active, view.reason) == (False, "ClusterQueueDoesNotExist")
    assert view.message == "Can't submit new workloads to clusterQueue"
    assert (view.reserving, view.admitted, view.flavors_usage, view.flavors_reservation) == (0, 0, [], [])


def test_afs_30_persisted_history_is_merged_into_a_ledger_that_a_settlement_made() -> None:
    book = ledger()
    info = decoded("w")
    book.penalize(info, {FlavorResource("f", "cpu"): 4000})
    book.settle("ns/a", info.key, {}, 0.0)
    book.set_queue(spec("a", consumed=8))
    assert book.usage("ns/a") == 10.0
    book.set_queue(spec("a", consumed=8))
    assert book.usage("ns/a") == 10.0
    assert book.sample("ns/a", {"cpu": 4000}, 5 * MINUTE) == {"cpu": 7 * NANO}


def test_afs_38_a_settlement_without_history_starts_one_with_the_penalty() -> None:
    book = ledger()
    info = decoded("w")
    book.penalize(info, {FlavorResource("f", "cpu"): 4000})
    assert book.settle("ns/a", info.key, {"cpu": 4000}, 60.0)
    assert book.consumed("ns/a") == ({"cpu": 2 * NANO}, 60.0)


def test_a_settlement_ages_the_history_first() -> None:
    book = ledger()
    book.set_queue(spec("a", consumed=8))
    info = decoded("w")
    book.penalize(info, {FlavorResource("f", "cpu"): 4000})
    book.settle("ns/a", info.key, {"cpu": 4000}, 5 * MINUTE)
    assert book.consumed("ns/a") == ({"cpu": (4 + 2 + 2) * NANO}, 5 * MINUTE)


def test_afs_19_a_history_from_the_future_waits_for_its_time() -> None:
    book = ledger()
    book.set_queue(spec("a", consumed=8, at=5 * MINUTE))
    assert book.sample("ns/a", {"cpu": 4000}, 0.0) is None
    assert book.sample("ns/a", {"cpu": 4000}, 9 * MINUTE) is None
    assert book.consumed("ns/a") == ({"cpu": 8 * NANO}, 5 * MINUTE)
    assert book.sample("ns/a", {"cpu": 4000}, 10 * MINUTE) == {"cpu": 6 * NANO}


def test_afs_40_a_settlement_never_turns_time_back() -> None:
    book = ledger()
    book.set_queue(spec("a", consumed=8, at=5 * MINUTE))
    info = decoded("w")
    book.penalize(info, {FlavorResource("f", "cpu"): 4000})
    assert book.settle("ns/a", info.key, {"cpu": 4000}, 0.0)
    assert book.consumed("ns/a") == ({"cpu": 10 * NANO}, 5 * MINUTE)


def admission_of(built: QueueingWorld) -> Obj:
    (admission,) = built.state.plan_cycle(built.now).admissions
    return admission.admission


# What becomes of a workload whose quota was reserved and penalized; is the penalty still open, and what is the usage?
LIVES = {
    "AFS-37 deactivation in the same event does not settle and keeps the record": (
        {"active": False},
        ("QuotaReserved", "Admitted"),
        True,
    ),
    "AFS-42 deactivation with the reservation gone drops the record": ({"active": False}, (), False),
    "AFS-43 deactivation that keeps the reservation keeps the record": ({"active": False}, ("QuotaReserved",), True),
    "AFS-45 eviction back to pending on the same LocalQueue keeps the record": ({}, (), True),
    "admission settles it": ({}, ("QuotaReserved", "Admitted"), False),
}


@pytest.mark.parametrize("name", LIVES, ids=list(LIVES))
def test_the_life_of_a_penalty(name: str) -> None:
    spec, true, still = LIVES[name]
    built = world()
    workload = make_workload("w", requests={"cpu": 4})
    built.put(workload)
    admission = admission_of(built)
    built.put({**workload, "status": status(admission, "QuotaReserved")})
    after = status(admission, *true) if true else {"conditions": [condition("QuotaReserved", "False", "Pending", "")]}
    built.put({**workload, "spec": {**workload["spec"], **spec}, "status": after})
    assert has_penalty(built) is still
    settled = {"cpu": 2 * NANO} if "Admitted" in true and not still else {}
    assert built.state.questions.local_queue_history(LQ)[0] == settled


def test_a_kept_penalty_is_settled_when_the_workload_is_active_again() -> None:
    built = world()
    workload = make_workload("w", requests={"cpu": 4})
    built.put(workload)
    admission = admission_of(built)
    inactive = {**workload, "spec": {**workload["spec"], "active": False}}
    built.put({**inactive, "status": status(admission, "QuotaReserved")})
    built.put({**workload, "status": status(admission, "QuotaReserved", "Admitted")})
    assert not has_penalty(built)
    assert built.state.questions.local_queue(LQ).usage_share == 2.0  # type: ignore[union-attr]
