"""The steps of a Workload's life by themselves: what the first of them that has an answer answers."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from corral.configuration.queueing import QueueingConfig, Retention, WaitForPodsReady
from corral.core import conditions
from corral.core.meta import Key, Obj
from corral.core.timestamps import format_time
from corral.kinds.kueue import names
from corral.workload.steps import END, LEAVING, LIFE
from corral.workload.steps.step_api import (
    OBJECT,
    WHOLE_STATUS,
    Delete,
    FinishWorkload,
    LookAgain,
    Move,
    RemoveFinalizer,
    Step,
    WorkloadView,
    WriteWorkload,
)

NOW = 1_767_225_600.0


class Held:
    """A cache of a few objects."""

    def __init__(self, **objects: Obj) -> None:
        self._objects = objects

    def get(self, key: Key) -> Obj | None:
        return self._objects.get(key.name)

    def list(self, namespace: str = "") -> list[Obj]:
        return list(self._objects.values())

    def by_index(self, name: str, value: str) -> list[Obj]:
        return []


class World(NamedTuple):
    local_queues: Held
    cluster_queues: Held


def world(*, local: Obj | None = None, **cluster: Any) -> World:
    return World(
        Held(q={"metadata": {"name": "q"}, "spec": {"clusterQueue": "cq", **(local or {})}}),
        Held(cq={"metadata": {"name": "cq"}, "spec": cluster}),
    )


def cond(kind: str, status: str = "True", reason: str = "", ago: float = 0) -> Obj:
    entry = {"type": kind, "status": status, "reason": reason or kind, "message": "m"}
    return {**entry, "lastTransitionTime": format_time(NOW - ago)}


def workload(*held: Obj, spec: Obj | None = None, status: Obj | None = None, **metadata: Any) -> Obj:
    owners = [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}]
    return {
        "metadata": {"name": "w", "namespace": "default", "ownerReferences": owners, **metadata},
        "spec": {"queueName": "q", **(spec or {})},
        "status": {"conditions": list(held), **(status or {})},
    }


RESERVED, ADMITTED = cond("QuotaReserved", ago=60), cond("Admitted", ago=60)
RUNNING = {"admission": {"clusterQueue": "cq"}}
CHECKED = {"admissionChecksStrategy": {"admissionChecks": [{"name": "ac"}]}}
READY_IN_30 = QueueingConfig(wait_for_pods_ready=WaitForPodsReady(timeout_s=30))


def answer(steps: tuple[Step, ...], subject: Obj, around: World, config: QueueingConfig) -> tuple[str, Move | None]:
    """The step that answers first, and its answer."""
    view = WorkloadView(subject, around, config, NOW)
    for step in steps:
        move = step(subject, view)
        if move is not None:
            return getattr(step, "__name__", ""), move
    return "", None


class Case(NamedTuple):
    subject: Obj
    step: str = ""
    move: type[Move] | None = None
    around: World = world()
    config: QueueingConfig = QueueingConfig()
    steps: tuple[Step, ...] = LIFE


CASES = {
    "waits for the scheduler": Case(workload()),
    "runs": Case(workload(RESERVED, ADMITTED, cond("PodsReady"), status=RUNNING)),
    "its job is gone": Case(workload(ownerReferences=[], labels={names.JOB_UID: "u"}), "finish_orphan", FinishWorkload),
    "made by hand": Case(workload(ownerReferences=[])),
    "switched off": Case(workload(spec={"active": False}), "deactivate", WriteWorkload),
    "to be switched off": Case(workload(cond("DeactivationTarget")), "deactivate", WriteWorkload),
    "switched on again": Case(workload(cond("Requeued", "False", "Deactivated")), "reactivate", WriteWorkload),
    "queue started again": Case(workload(cond("Requeued", "False", "ClusterQueueStopped")), "restart", WriteWorkload),
    "queue still stopped": Case(
        workload(cond("QuotaReserved", "False", "Inadmissible"), cond("Requeued", "False", "ClusterQueueStopped")),
        "explain_waiting",
        WriteWorkload,
        world(stopPolicy="Hold"),
    ),
    "queue takes it again, whatever was told": Case(
        workload(cond("QuotaReserved", "False", "Inadmissible")), "explain_waiting", WriteWorkload
    ),
    "in back-off": Case(
        workload(
            cond("Requeued", "False", "PodsReadyTimeout"),
            status={"requeueState": {"count": 1, "requeueAt": format_time(NOW + 9)}},
        ),
        "end_backoff",
        LookAgain,
    ),
    "back-off is over": Case(workload(cond("Requeued", "False", "PodsReadyTimeout")), "end_backoff", WriteWorkload),
    "gates of the spec": Case(workload(spec={"preemptionGates": [{"name": "g"}]}), "sync_gates", WriteWorkload),
    "drained": Case(
        workload(RESERVED, ADMITTED, status=RUNNING), "drain", WriteWorkload, world(stopPolicy="HoldAndDrain")
    ),
    "held, not drained": Case(
        workload(RESERVED, ADMITTED, cond("PodsReady"), status=RUNNING), around=world(stopPolicy="Hold")
    ),
    "a check to pass": Case(workload(RESERVED, status=RUNNING), "sync_checks", WriteWorkload, world(**CHECKED)),
    "a check to wait for": Case(
        workload(RESERVED, status={**RUNNING, "admissionChecks": [{"name": "ac", "state": "Pending"}]}),
        around=world(**CHECKED),
    ),
    "a check that passed": Case(
        workload(RESERVED, status={**RUNNING, "admissionChecks": [{"name": "ac", "state": "Ready"}]}),
        "sync_admitted",
        WriteWorkload,
        world(**CHECKED),
    ),
    "a check that rejects": Case(
        workload(RESERVED, status={**RUNNING, "admissionChecks": [{"name": "ac", "state": "Rejected"}]}),
        "act_on_checks",
        WriteWorkload,
        world(**CHECKED),
    ),
    "a queue that is not there": Case(workload(spec={"queueName": "other"}), "explain_waiting", WriteWorkload),
    "has time left": Case(
        workload(RESERVED, ADMITTED, spec={"maximumExecutionTimeSeconds": 90}, status=RUNNING),
        "limit_execution",
        LookAgain,
    ),
    "ran too long": Case(
        workload(RESERVED, ADMITTED, spec={"maximumExecutionTimeSeconds": 50}, status=RUNNING),
        "limit_execution",
        WriteWorkload,
    ),
    "pods are late": Case(
        workload(RESERVED, ADMITTED, status=RUNNING), "require_readiness", WriteWorkload, config=READY_IN_30
    ),
    "pods are ready": Case(workload(RESERVED, ADMITTED, cond("PodsReady"), status=RUNNING), config=READY_IN_30),
    "finished, kept": Case(workload(cond("Finished")), steps=END),
    "finished, for a while": Case(
        workload(cond("Finished")),
        "retire",
        LookAgain,
        config=QueueingConfig(retention=Retention(after_finished_s=5)),
        steps=END,
    ),
    "finished long ago": Case(
        workload(cond("Finished", ago=9)),
        "retire",
        Delete,
        config=QueueingConfig(retention=Retention(after_finished_s=5)),
        steps=END,
    ),
    "leaves with its job": Case(workload(deletionTimestamp="now"), steps=LEAVING),
    "leaves alone": Case(
        workload(deletionTimestamp="now", ownerReferences=[]), "release_orphan", RemoveFinalizer, steps=LEAVING
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_next_move(name: str) -> None:
    case = CASES[name]
    step, move = answer(case.steps, case.subject, case.around, case.config)
    assert (step, None if move is None else type(move)) == (case.step, case.move)


def test_what_is_told_and_counted() -> None:
    _, late = answer(LIFE, CASES["pods are late"].subject, world(), READY_IN_30)
    assert isinstance(late, WriteWorkload)
    assert late.eviction == ("PodsReadyTimeout", "WaitForStart")
    assert late.event == ("Normal", "EvictedDueToPodsReadyTimeout", "Exceeded the PodsReady timeout default/w")
    assert late.workload["status"]["requeueState"] == {"count": 1, "requeueAt": format_time(NOW + 60)}
    _, passed = answer(LIFE, CASES["a check that passed"].subject, world(**CHECKED), QueueingConfig())
    assert isinstance(passed, WriteWorkload)
    assert passed.admits
    assert conditions.is_true(passed.workload, "Admitted")
    assert passed.event == ("Normal", "Admitted", "Admitted by ClusterQueue cq, wait time since reservation was 60s")


def test_which_part_is_written() -> None:
    parts = {}
    for name in ("to be switched off", "a check to pass", "switched off"):
        _, move = answer(LIFE, CASES[name].subject, CASES[name].around, QueueingConfig())
        assert isinstance(move, WriteWorkload)
        parts[name] = move.part
    assert parts == {"to be switched off": OBJECT, "a check to pass": WHOLE_STATUS, "switched off": "status"}
