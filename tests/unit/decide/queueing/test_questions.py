"""What the queueing state answers: where a workload stands, and nothing at all about what it does not know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from corral.core.conditions import condition
from corral.core.meta import Key, Obj
from corral.decide.queueing.model.settings import Features, QueueingSettings
from corral.decide.queueing.state import QueueingState
from corral.testing.queueing import QueueingWorld, make_cluster_queue, make_flavor, make_local_queue, make_workload

KEY = Key("default", "w")
NOBODY = Key("default", "nobody")
GATED = {"kueue.x-k8s.io/admission-gated-by": "quota.io/gate"}


def world(quota: int = 4, *, strict: bool = False, **spec: Any) -> QueueingWorld:
    built = QueueingWorld(QueueingSettings(features=Features(admission_gates=True, granular_reasons=True)))
    built.state.upsert_flavor(make_flavor("default"))
    built.state.upsert_cluster_queue(make_cluster_queue("cq", {"default": {"cpu": quota}}, strict=strict, **spec))
    built.state.upsert_local_queue(make_local_queue("lq", "cq"))
    return built


def waiting(**parts: Any) -> Obj:
    workload = make_workload("w", "lq", requests={"cpu": 2})
    return {**workload, **{name: {**(workload.get(name) or {}), **part} for name, part in parts.items()}}


def held(*conditions: Obj, **status: Any) -> Obj:
    usage = {"name": "main", "count": 1, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "2"}}
    stamped = [
        {**entry, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for entry in (condition("QuotaReserved", True, "QuotaReserved", ""), *conditions)
    ]
    admission = {"clusterQueue": "cq", "podSetAssignments": [usage]}
    return waiting(status={"admission": admission, "conditions": stamped, **status})


CHECKS = [{"name": "b", "state": "Pending"}, {"name": "a", "state": "Retry"}, {"name": "c", "state": "Ready"}]


@pytest.mark.parametrize(
    ("workload", "state", "reason", "message"),
    [
        pytest.param(waiting(), "pending", "Pending", "The workload has not been considered yet", id="new"),
        pytest.param(
            waiting(spec={"active": False}),
            "inadmissible",
            "Deactivated",
            "The workload is deactivated",
            id="deactivated",
        ),
        pytest.param(
            waiting(metadata={"annotations": GATED}),
            "inadmissible",
            "AdmissionGated",
            "The workload is held back by a gate",
            id="gated",
        ),
        pytest.param(
            waiting(status={"requeueState": {"requeueAt": "2099-01-01T00:00:00Z"}}),
            "pending",
            "Backoff",
            "The workload waits for its back-off to end",
            id="in back-off",
        ),
        pytest.param(
            waiting(spec={"queueName": "other"}),
            "inadmissible",
            "Misconfigured",
            "LocalQueue other doesn't exist",
            id="lost",
        ),
        pytest.param(held(), "quotaReserved", "QuotaReserved", "Quota reserved in ClusterQueue cq", id="reserved"),
        pytest.param(
            held(admissionChecks=CHECKS),
            "quotaReserved",
            "QuotaReserved",
            "Quota reserved in ClusterQueue cq, waiting for admission checks: a, b",
            id="waits for checks",
        ),
        pytest.param(
            held(condition("Admitted", True, "Admitted", "")),
            "admitted",
            "Admitted",
            "The workload is admitted",
            id="admitted",
        ),
        pytest.param(
            held(condition("Finished", True, "Succeeded", "")),
            "finished",
            "Finished",
            "The workload is finished",
            id="finished",
        ),
    ],
)
def test_explanations(workload: Obj, state: str, reason: str, message: str) -> None:
    built = world()
    built.put(workload)
    found = built.state.questions.explain(KEY)
    assert found is not None
    assert (found.state, found.reason, found.message) == (state, reason, message)


def test_who_is_ahead_in_a_strict_queue_and_what_is_missing() -> None:
    built = world(quota=1, strict=True)
    built.put(
        make_workload("first", "lq", requests={"cpu": 3}, created=1),
        waiting(metadata={"creationTimestamp": "2099-01-01T00:00:00Z"}),
    )
    built.cycle()
    found = built.state.questions.explain(KEY)
    assert found is not None
    assert (found.position, found.blocked_by) == (1, (Key("default", "first"),))
    (shortage,) = found.shortages
    assert (shortage.requested, shortage.available, shortage.maximum) == ("2", "1", "1")


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        pytest.param(lambda state: state.questions.explain(NOBODY), None, id="explain"),
        pytest.param(lambda state: state.questions.refusal(NOBODY), "", id="refusal"),
        pytest.param(lambda state: state.questions.last_message(NOBODY), None, id="last_message"),
        pytest.param(lambda state: state.questions.no_fit_reason(NOBODY), None, id="no fit"),
        pytest.param(lambda state: state.questions.uncounted(NOBODY), "", id="uncounted"),
        pytest.param(lambda state: state.questions.is_at_rest(NOBODY, 0.0), False, id="at rest"),
        pytest.param(lambda state: state.questions.cluster_queue("other"), None, id="ClusterQueue"),
        pytest.param(lambda state: state.questions.local_queue(NOBODY), None, id="LocalQueue"),
        pytest.param(lambda state: state.questions.cohort("other"), None, id="Cohort"),
        pytest.param(lambda state: state.questions.pending("other"), [], id="pending"),
        pytest.param(lambda state: state.questions.ancestors("other"), [], id="ancestors"),
        pytest.param(lambda state: state.questions.members("other"), ([], []), id="members"),
        pytest.param(lambda state: state.questions.required_checks("other"), (), id="checks"),
        pytest.param(lambda state: state.questions.local_queue_history(NOBODY), ({}, None), id="history"),
    ],
)
def test_what_is_not_known_has_an_empty_answer(ask: Callable[[QueueingState], object], answer: object) -> None:
    assert ask(world().state) == answer


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda state: state.delete_cluster_queue("other"), id="ClusterQueue"),
        pytest.param(lambda state: state.delete_cohort("other"), id="Cohort"),
        pytest.param(lambda state: state.delete_local_queue(NOBODY), id="LocalQueue"),
        pytest.param(lambda state: state.delete_flavor("other"), id="ResourceFlavor"),
        pytest.param(lambda state: state.delete_admission_check("other"), id="AdmissionCheck"),
        pytest.param(lambda state: state.delete_topology("other"), id="Topology"),
        pytest.param(lambda state: state.delete_node("other"), id="Node"),
        pytest.param(lambda state: state.delete_pod(NOBODY), id="Pod"),
        pytest.param(lambda state: state.delete_namespace("other"), id="Namespace"),
        pytest.param(lambda state: state.delete_claim_template(NOBODY), id="ResourceClaimTemplate"),
        pytest.param(lambda state: state.delete_resource_slice("other"), id="ResourceSlice"),
        pytest.param(lambda state: state.delete_device_class("other"), id="DeviceClass"),
        pytest.param(lambda state: state.delete_workload(NOBODY), id="Workload"),
        pytest.param(lambda state: state.flush_cluster_queue("other"), id="flush"),
        pytest.param(lambda state: state.admission_failed(NOBODY), id="admission"),
        pytest.param(lambda state: state.eviction_failed(NOBODY), id="eviction"),
    ],
)
def test_what_is_not_known_can_be_taken_away(change: Callable[[QueueingState], None]) -> None:
    built = world()
    built.put(held(condition("Admitted", True, "Admitted", "")))
    built.cycle()
    before = built.state.questions.cluster_queue("cq")
    change(built.state)
    assert built.state.questions.cluster_queue("cq") == before
    assert not built.state.questions.needs_cycle(built.now)
