"""Steps in the life of a Workload."""

from __future__ import annotations

from corral.core import conditions
from corral.core.meta import Obj
from corral.kinds.kueue import names
from corral.workload import lifecycle, workload

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"
ADMISSION = {"clusterQueue": "cq", "podSetAssignments": [{"name": "main", "count": 1, "flavors": {"cpu": "f"}}]}


def fresh(**status: object) -> Obj:
    return {"metadata": {"name": "w", "namespace": "ns", "generation": 1}, "spec": {}, "status": dict(status)}


def admitted() -> Obj:
    return lifecycle.sync_admitted(lifecycle.reserve(fresh(), ADMISSION, NOW), [], NOW)


def test_reservation_and_admission_go_together_without_checks() -> None:
    result = admitted()
    assert workload.has_quota(result)
    assert workload.is_admitted(result)
    assert workload.cluster_queue_of(result) == "cq"


def test_checks_hold_admission_until_all_are_ready() -> None:
    reserved = lifecycle.reserve(fresh(admissionChecks=[{"name": "a", "state": "Pending"}]), ADMISSION, NOW)
    waiting = lifecycle.sync_admitted(reserved, ["a"], NOW)
    assert waiting is reserved
    ready = {**reserved, "status": {**reserved["status"], "admissionChecks": [{"name": "a", "state": "Ready"}]}}
    assert workload.is_admitted(lifecycle.sync_admitted(ready, ["a"], NOW))
    assert not workload.is_admitted(lifecycle.sync_admitted(ready, ["a", "b"], NOW))


def test_eviction_resets_checks_and_counts() -> None:
    checks = [
        {"name": "retry", "state": "Retry", "requeueAfterSeconds": 5, "podSetUpdates": [{"name": "main"}]},
        {"name": "pending", "state": "Pending", "message": "wait"},
    ]
    status = {"admissionChecks": checks, "clusterName": "w1", "nominatedClusterNames": ["w1"]}
    result = lifecycle.evict({**fresh(), "status": status}, "AdmissionCheck", "why", NOW)
    again = lifecycle.evict(result, "AdmissionCheck", "why", LATER)
    first, second = result["status"]["admissionChecks"]
    assert first == {
        "name": "retry",
        "state": "Pending",
        "requeueAfterSeconds": 5,
        "retryCount": 1,
        "lastTransitionTime": NOW,
        "message": "Reset to Pending after eviction. Previously: Retry",
    }
    assert second == checks[1]
    assert "clusterName" not in result["status"]
    assert "nominatedClusterNames" not in result["status"]
    assert again["status"]["schedulingStats"]["evictions"] == [
        {"reason": "AdmissionCheck", "underlyingCause": "", "count": 2}
    ]


def test_release_adds_up_the_time_it_ran_and_says_whether_it_may_return() -> None:
    evicted = lifecycle.preempt(admitted(), "InClusterQueue", "make room", NOW)
    released = lifecycle.release_evicted(evicted, [], LATER)
    assert not workload.has_quota(released)
    assert released["status"]["accumulatedPastExecutionTimeSeconds"] == 60
    assert conditions.is_true(released, "Requeued")
    stopped = lifecycle.evict(admitted(), "ClusterQueueStopped", "stopped", NOW)
    assert conditions.is_false(lifecycle.release_evicted(stopped, [], LATER), "Requeued")


def test_reservation_turns_an_eviction_into_history() -> None:
    evicted = lifecycle.release_evicted(lifecycle.preempt(admitted(), "InClusterQueue", "make room", NOW), [], NOW)
    again = lifecycle.reserve(evicted, ADMISSION, LATER)
    entry = conditions.find(again, "Evicted")
    assert entry is not None
    assert (entry["status"], entry["reason"], entry["message"]) == ("False", "QuotaReserved", "Previously: make room")


def test_readiness_tells_starting_from_recovering() -> None:
    waiting = lifecycle.sync_pods_ready(admitted(), False, NOW)
    assert (conditions.find(waiting, "PodsReady") or {})["reason"] == "WaitForStart"
    ready = lifecycle.sync_pods_ready(waiting, True, NOW)
    assert (conditions.find(ready, "PodsReady") or {})["reason"] == "Started"
    assert lifecycle.sync_pods_ready(ready, True, LATER) is ready
    lost = lifecycle.sync_pods_ready(ready, False, LATER)
    assert (conditions.find(lost, "PodsReady") or {})["reason"] == "WaitForRecovery"
    back = lifecycle.sync_pods_ready(lost, True, LATER)
    assert (conditions.find(back, "PodsReady") or {})["reason"] == "Recovered"


def test_a_workload_becomes_ready_when_it_starts_not_when_it_recovers() -> None:
    waiting = lifecycle.sync_pods_ready(admitted(), False, NOW)
    ready = lifecycle.sync_pods_ready(waiting, True, NOW)
    assert lifecycle.became_ready(waiting, ready)
    assert not lifecycle.became_ready(ready, ready)
    lost = lifecycle.sync_pods_ready(ready, False, LATER)
    assert not lifecycle.became_ready(lost, lifecycle.sync_pods_ready(lost, True, LATER))


def test_saying_the_same_again_changes_nothing() -> None:
    waiting = lifecycle.pending(fresh(), "Pending", "no room", NOW, [{"name": "main"}])
    assert lifecycle.pending(waiting, "Pending", "no room", LATER, [{"name": "main"}]) is waiting
    assert lifecycle.pending(waiting, "Pending", "other", LATER) is not waiting


def test_workload_names_are_stable_and_fit() -> None:
    name = workload.workload_name("Job", "batch", "sample", "uid-1")
    assert name == workload.workload_name("Job", "batch", "sample", "uid-1")
    assert name.startswith("job-sample-")
    assert len(workload.workload_name("Job", "batch", "x" * 300, "uid")) == 253


def test_a_preemptor_is_known_by_a_condition_whatever_its_message_says() -> None:
    preempting = lifecycle.pending(fresh(), "Pending", "words", NOW, preempting=True)
    assert lifecycle.is_preempting(preempting)
    assert lifecycle.pending(preempting, "Pending", "words", LATER, preempting=True) is preempting
    assert not lifecycle.is_preempting(lifecycle.pending(preempting, "Pending", "words", LATER))
    assert not lifecycle.is_preempting(lifecycle.pending(fresh(), "Pending", "Pending the preemption of 1", NOW))
    reserved = lifecycle.reserve(preempting, ADMISSION, LATER)
    assert conditions.find(reserved, names.PREEMPTING) is None


def test_every_reason_of_an_eviction_says_when_the_workload_is_queued_again() -> None:
    reasons = {value for name, value in vars(names).items() if name.startswith("BY_")}
    assert set(lifecycle.REQUEUE) == reasons


def test_a_reservation_ends_a_back_off() -> None:
    state = {"count": 2, "requeueAt": NOW}
    released = lifecycle.release_evicted(lifecycle.evict(admitted(), names.BY_ADMISSION_CHECK, "no", NOW), ["a"], NOW)
    waiting = {**released, "status": {**released["status"], "requeueState": state}}
    assert lifecycle.is_backing_off(waiting)
    result = lifecycle.reserve(waiting, ADMISSION, LATER)
    requeued = conditions.find(result, names.REQUEUED)
    assert requeued is not None
    assert (requeued["status"], requeued["reason"]) == ("True", "BackoffFinished")
    assert result["status"]["requeueState"] == {"count": 2}


def test_a_reservation_says_nothing_of_queueing_otherwise() -> None:
    stopped = lifecycle.evict(admitted(), names.BY_CLUSTER_QUEUE_STOPPED, "stopped", NOW)
    for workload_ in (fresh(), lifecycle.release_evicted(stopped, [], NOW)):
        before = conditions.find(workload_, names.REQUEUED)
        assert conditions.find(lifecycle.reserve(workload_, ADMISSION, LATER), names.REQUEUED) == before
