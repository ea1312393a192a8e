"""What a manager does next with a dispatched Workload, one row per rule; and the dispatchers' choice of clusters."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core.meta import Obj
from corral.core.timestamps import format_time
from corral.decide.dispatch import nominate
from corral.decide.dispatch.machine import next_step
from corral.decide.dispatch.model import (
    CleanUp,
    Deactivate,
    DispatchStep,
    DispatchView,
    Finish,
    Mirror,
    Nominate,
    Nothing,
    RemoteView,
    SendBack,
    Settle,
    Start,
    SyncStatus,
    UpdateSpec,
)
from corral.decide.dispatch.workload_copy import remote_workload

NOW = 10_000.0
LOST_TIMEOUT = 900.0
SPEC: Obj = {"podSets": [{"name": "main", "count": 1}], "queueName": "q", "priority": 0}


def workload(*true: str, check: str = "Pending", at: float = NOW, spec: Obj | None = None, **status: Any) -> Obj:
    """A Workload with these conditions True since `at`. `Finished:Reason` gives a reason."""
    conditions = [
        {
            "type": entry.partition(":")[0],
            "status": "True",
            "reason": entry.partition(":")[2] or entry,
            "message": f"msg {entry.partition(':')[0]}",
            "lastTransitionTime": format_time(at),
        }
        for entry in true
    ]
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "w", "namespace": "n"},
        "spec": spec or SPEC,
        "status": {"conditions": conditions, "admissionChecks": [{"name": "mk", "state": check}], **status},
    }


def step_of(local: Obj, strays: dict[str, Obj] | None = None, **remotes: RemoteView) -> DispatchStep:
    return next_step(DispatchView(local, "mk", remotes, NOW, LOST_TIMEOUT, strays or {}))


def up(copy: Obj | None = None, admitted_at: float = 0.0) -> RemoteView:
    return RemoteView(True, copy, 0.0, admitted_at)


def away(since: float) -> RemoteView:
    return RemoteView(False, None, since)


RESERVED = workload("QuotaReserved")
READY = workload("QuotaReserved", "Admitted", check="Ready", clusterName="w1")
ADMITTED_COPY = workload("QuotaReserved", "Admitted")

ROWS: list[tuple[str, Obj, dict[str, RemoteView], DispatchStep]] = [
    ("no reservation: the copy goes", workload(), {"w1": up(workload())}, CleanUp(("w1",))),
    ("no reservation, a worker is away: look again", workload(), {"w1": away(0)}, Nothing("no copies are left on reachable workers", LOST_TIMEOUT)),
    ("finished: the copies go", workload("Finished", "QuotaReserved"), {"w1": up(ADMITTED_COPY), "w2": up()}, CleanUp(("w1",))),
    ("reserved: ask workers", RESERVED, {"w1": up(), "w2": up()}, Nominate()),
    ("a copy that only has quota does not win", RESERVED, {"w1": up(workload("QuotaReserved")), "w2": up(workload())}, Nominate()),
    ("the first to admit wins, the other copy goes", RESERVED, {"w1": up(ADMITTED_COPY), "w2": up(workload())}, Start("w1", ("w2",))),
    (
        "both admitted: the earlier second wins",
        RESERVED,
        {"w1": up(workload("Admitted", at=NOW)), "w2": up(workload("Admitted", at=NOW - 5))},
        Start("w2", ("w1",)),
    ),
    (
        "both admitted in one second: the one seen first wins",
        RESERVED,
        {"w1": up(workload("Admitted"), 10.2), "w2": up(workload("Admitted"), 10.1)},
        Start("w2", ("w1",)),
    ),
    ("the worker that has it goes on: its job is mirrored", READY, {"w1": up(ADMITTED_COPY), "w2": up()}, Mirror("w1")),
    ("beside the worker that has it, a copy goes before anything is mirrored", READY, {"w1": up(ADMITTED_COPY), "w2": up(workload())}, CleanUp(("w2",), 0.0)),
    (
        "evicted on the manager: the worker is told to stop",
        workload("QuotaReserved", "Evicted", check="Ready", clusterName="w1"),
        {"w1": up(ADMITTED_COPY)},
        Deactivate("w1", "Evicted on manager: msg Evicted"),
    ),
    (
        "evicted on both sides: status still comes back",
        workload("QuotaReserved", "Evicted", check="Ready", clusterName="w1"),
        {"w1": up(workload("Evicted"))},
        SyncStatus("w1"),
    ),
    (
        "evicted on the worker: sent back",
        READY,
        {"w1": up(workload("Evicted"))},
        SendBack(
            "EvictedOnWorker",
            'Workload evicted on worker cluster: "w1", resetting for re-admission. Previously: "Ready"',
            "Normal",
            'Workload evicted on worker cluster: "w1", resetting for re-admission. Previously: "Ready"',
        ),
    ),
    (
        "finished on the worker: finished here",
        READY,
        {"w1": up(workload("QuotaReserved", "Admitted", "Finished:Succeeded"))},
        Finish(
            "w1",
            {"type": "Finished", "status": "True", "reason": "Succeeded", "message": "msg Finished", "lastTransitionTime": format_time(NOW)},
        ),
    ),
    (
        "out of sync on the worker: sent back with a warning",
        READY,
        {"w1": up(workload("Finished:OutOfSync"))},
        SendBack(
            "OutOfSync",
            'Remote workload on worker cluster "w1" is out of sync with its user job, resetting for re-dispatch, Previously: "Ready"',
            "Warning",
            'Remote workload on worker cluster "w1" is out of sync with its user job, resetting for re-dispatch',
        ),
    ),
    ("out of sync and sent back already: nothing more", workload("QuotaReserved", "Admitted", check="Retry", clusterName="w1"), {"w1": up(workload("Finished:OutOfSync"))}, Nothing("the copy on w1 is out of sync and is being replaced")),
    ("a copy out of sync beside the live run goes; the run stays", READY, {"w1": up(ADMITTED_COPY), "w2": up(workload(spec={**SPEC, "podSets": []}))}, CleanUp(("w2",), 0.0)),
    ("admitted long ago, lost just now: the time counts from the loss", workload("QuotaReserved", "Admitted", check="Ready", at=NOW - 9999, clusterName="w1"), {"w1": away(NOW - 1)}, Nothing("worker w1 cannot be reached; waiting for it", 899.0)),
    ("worker away for less than the timeout: wait for the rest", READY, {"w1": away(NOW - 100)}, Nothing("worker w1 cannot be reached; waiting for it", 800.0)),
    ("worker away for too long: sent back", READY, {"w1": away(NOW - 901), "w2": up()}, SendBack("WorkerLost", 'Admitting remote lost, Previously: "Ready"')),
    ("the copy is gone from a reachable worker: sent back at once", READY, {"w1": up()}, SendBack("CopyGone", 'Admitting remote no longer exists, Previously: "Ready"')),
    (
        "ready without a cluster: sent back, with a request to report it",
        workload("QuotaReserved", "Admitted", check="Ready"),
        {"w1": up()},
        SendBack(
            "NoCluster",
            "Admission check is Ready but no admitting cluster is recorded; this is unexpected, please report it"
            ', Previously: "Ready"',
        ),
    ),
    ("a stale copy on a returning worker is removed; the live run stays", READY, {"w1": up(ADMITTED_COPY), "w2": up(workload("Admitted", at=NOW - 999))}, CleanUp(("w2",), 0.0)),
    ("no worker is asked while an eviction is not over", workload("QuotaReserved", "Evicted"), {"w1": up()}, Settle()),
    (
        "a changed priority is followed, not redispatched",
        workload("QuotaReserved", spec={**SPEC, "priority": 9}),
        {"w1": up(workload("QuotaReserved"))},
        UpdateSpec("w1", {"priority": 9, "priorityClassRef": None}),
    ),
    (
        "a copy with other pod sets is removed",
        workload("QuotaReserved", spec={**SPEC, "podSets": []}),
        {"w1": up(workload("QuotaReserved"))},
        CleanUp(("w1",), 0.0),
    ),
    (
        "preemption gates on the copy are no difference",
        RESERVED,
        {"w1": up(workload("QuotaReserved", spec={**SPEC, "preemptionGates": [{"name": "x"}]}))},
        Nominate(),
    ),
    ("a check that is not pending stops nomination", workload("QuotaReserved", check="Retry"), {"w1": up()}, Nothing("not waiting for a cluster")),
]  # fmt: skip


@pytest.mark.parametrize(("local", "remotes", "expected"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_the_next_step_is(local: Obj, remotes: dict[str, RemoteView], expected: DispatchStep) -> None:
    assert step_of(local, **remotes) == expected


def running(copy: Obj | None) -> RemoteView:
    """A worker that has the job."""
    return RemoteView(True, copy, has_job=True)


def waits_for(*clusters: str, seconds: float) -> Nothing:
    return Nothing(f"may be running on {', '.join(clusters)}, out of reach", seconds, is_reported=True)


LATER_COPY = workload("QuotaReserved", "Admitted", at=NOW)
EARLIER_COPY = workload("QuotaReserved", "Admitted", at=NOW - 60)
EVICTED = workload("QuotaReserved", "Evicted", check="Ready", clusterName="w1")
GONE = SendBack("CopyGone", 'Admitting remote no longer exists, Previously: "Ready"')
LOST = SendBack("WorkerLost", 'Admitting remote lost, Previously: "Ready"')

TWICE: list[tuple[str, Obj, dict[str, RemoteView], dict[str, float], DispatchStep]] = [
    ("the worker that has the job wins over one that admitted earlier", RESERVED, {"w1": up(EARLIER_COPY), "w2": running(LATER_COPY)}, {}, Start("w2", ("w1",))),
    ("a job on a worker that does not admit it goes before another runs it", RESERVED, {"w1": up(LATER_COPY), "w2": running(workload())}, {}, CleanUp(("w2",), 0.0)),
    ("a job without a copy goes before workers are asked", RESERVED, {"w1": up(), "w2": running(None)}, {}, CleanUp(("w2",), 0.0)),
    ("a job beside the chosen worker goes, copy or not", READY, {"w1": running(ADMITTED_COPY), "w2": running(None)}, {}, CleanUp(("w2",), 0.0)),
    ("nobody else runs it while a lost worker may", RESERVED, {"w1": up(LATER_COPY), "w2": away(NOW - 300)}, {"w2": NOW - 300}, waits_for("w2", seconds=600.0)),
    ("nobody else is asked while a lost worker may run it", RESERVED, {"w1": up(), "w2": away(NOW - 300)}, {"w2": NOW - 300}, waits_for("w2", seconds=600.0)),
    ("the last of several lost workers is waited for", RESERVED, {"w1": up()}, {"w2": NOW - 300, "w3": NOW}, waits_for("w2", "w3", seconds=900.0)),
    ("a lost worker that is given up is not waited for", RESERVED, {"w1": up(LATER_COPY), "w2": away(0)}, {"w2": 0.0}, Start("w1", ())),
    ("a worker that runs it goes on although another is lost", READY, {"w1": running(ADMITTED_COPY), "w2": away(NOW)}, {"w2": NOW}, Mirror("w1")),
    ("an eviction is not over while a lost worker may run it", EVICTED, {"w1": away(NOW - 300)}, {"w1": NOW - 300}, waits_for("w1", seconds=600.0)),
    ("an eviction ends when the worker is given up", EVICTED, {"w1": away(0)}, {"w1": 0.0}, Settle()),
    ("its worker is described no more and may run it: wait", READY, {"w2": up()}, {"w1": NOW - 300}, Nothing("worker w1 cannot be reached; waiting for it", 600.0)),
    ("its worker is described no more and given up: sent back", READY, {"w2": up()}, {"w1": 0.0}, LOST),
    ("its worker was left empty and is described no more: sent back", READY, {"w2": up()}, {}, GONE),
]  # fmt: skip


@pytest.mark.parametrize(
    ("local", "remotes", "lost", "expected"), [row[1:] for row in TWICE], ids=[row[0] for row in TWICE]
)
def test_a_job_does_not_run_twice(
    local: Obj, remotes: dict[str, RemoteView], lost: dict[str, float], expected: DispatchStep
) -> None:
    assert next_step(DispatchView(local, "mk", remotes, NOW, LOST_TIMEOUT, away=lost)) == expected


def test_a_copy_on_a_cluster_taken_out_of_the_config_is_removed() -> None:
    assert step_of(RESERVED, {"w9": ADMITTED_COPY}, w1=up()) == CleanUp(("w9",), 0.0)


def test_other_checks_come_first() -> None:
    local = workload(
        "QuotaReserved", admissionChecks=[{"name": "mk", "state": "Pending"}, {"name": "other", "state": "Pending"}]
    )
    assert step_of(local, w1=up()) == Nothing("waiting for admission check other")


def test_the_copy_carries_name_labels_and_spec_but_no_identity() -> None:
    local = workload("QuotaReserved")
    local["metadata"] |= {
        "uid": "u", "resourceVersion": "7", "finalizers": ["f"], "ownerReferences": [{}],
        "labels": {"a": "b", "kueue.x-k8s.io/job-uid": "u"}, "annotations": {"x": "y", "corral.dev/note": "z"},
    }  # fmt: skip
    assert remote_workload(local, "here") == {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {
            "name": "w",
            "namespace": "n",
            "labels": {"a": "b", "kueue.x-k8s.io/multikueue-origin": "here"},
            "annotations": {"x": "y"},
        },
        "spec": SPEC,
    }


def rounds(nominated: str = "", started: float | None = None) -> Obj:
    local = workload("QuotaReserved", nominatedClusterNames=list(nominated))
    if started is not None:
        local["metadata"]["annotations"] = {nominate.ROUND_ANNOTATION: format_time(started)}
    return local


INCREMENTAL: list[tuple[str, Obj, str, int, str]] = [
    ("one cluster", rounds(), "A", 3, "A"),
    ("the first three, in the order of the config", rounds(), "CBA", 3, "CBA"),
    ("fifteen clusters: the first three", rounds(), "ONMLKJIHGFEDCBA", 3, "ONM"),
    ("the round is over: three more", rounds("FED", NOW - 301), "FEDCBA", 3, "FEDCBA"),
    ("the round is running: unchanged", rounds("FED", NOW - 10), "FEDCBA", 3, "FED"),
    ("two left: both", rounds("HGFEDC", NOW - 301), "HGFEDCBA", 3, "HGFEDCBA"),
    ("none left: unchanged", rounds("BA", NOW - 301), "BA", 3, "BA"),
    ("steps of two", rounds("ED", NOW - 301), "EDCBA", 2, "EDCB"),
]


@pytest.mark.parametrize(
    ("local", "configured", "step", "expected"), [row[1:] for row in INCREMENTAL], ids=[row[0] for row in INCREMENTAL]
)
def test_incremental_rounds(local: Obj, configured: str, step: int, expected: str) -> None:
    chosen = nominate.incremental(local, list(configured), NOW, step=step)
    assert "".join(chosen.clusters) == expected


def test_a_running_round_says_when_to_look_again() -> None:
    chosen = nominate.incremental(rounds("FED", NOW - 10), list("FEDCBA"), NOW)
    assert chosen.again_after == pytest.approx(290.0, abs=0.1)
    assert not chosen.new_round


def test_all_at_once_keeps_the_list_when_it_names_the_same_clusters() -> None:
    assert nominate.all_at_once(rounds("BA"), ["A", "B"]).clusters == ("B", "A")
    assert nominate.all_at_once(rounds("BA"), ["A", "B", "C"]).clusters == ("A", "B", "C")
