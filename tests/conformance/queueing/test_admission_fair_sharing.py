"""Usage history of LocalQueues: decay, penalties, settlement."""

from __future__ import annotations

import pytest

from corral.core.conditions import condition
from corral.core.meta import Key
from corral.core.timestamps import format_time
from corral.decide.queueing.admission_fairness import UsageLedger, alpha, decayed
from corral.decide.queueing.model import FlavorResource, LocalQueueSpec
from corral.decide.queueing.settings import AdmissionFairSharing, QueueingSettings
from corral.decide.queueing.workload import WorkloadDecoder
from corral.testing.queueing import (
    EPOCH,
    QueueingWorld,
    make_cluster_queue,
    make_flavor,
    make_local_queue,
    make_workload,
)

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
    assert book.settle("ns/a", info.key, 10.0)
    assert not book.settle("ns/a", info.key, 10.0)
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
    assert built.state.local_queue(Key("default", "lq")).usage_share == 2.0  # type: ignore[union-attr]


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
    assert built.state.local_queue(Key("default", "lq")).usage_share == 2.0  # type: ignore[union-attr]


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
    assert fresh.state.local_queue_history(Key("default", "lq"))[1] == EPOCH + 5 * MINUTE
