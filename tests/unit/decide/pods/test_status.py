"""Statuses as a kubelet writes them."""

from __future__ import annotations

from typing import Any

from corral.core.meta import Obj
from corral.decide.pods.lifecycle import ended, plan, started
from corral.decide.pods.record import Ended, PodRecord, Running, Waiting, new_record
from corral.decide.pods.status import pod_status, record_from_status

NOW = 1_767_225_600.0


def pod(policy: str = "Never", **spec: Any) -> Obj:
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u", "generation": 1},
        "spec": {"restartPolicy": policy, "containers": [{"name": "c", "image": "busybox"}], **spec},
    }


def status(subject: Obj, record: PodRecord, now: float = NOW) -> Obj:
    return pod_status(subject, record, plan(subject, record, now), now, "127.0.0.1")


def conditions(written: Obj) -> dict[str, tuple[str, str | None]]:
    return {entry["type"]: (entry["status"], entry.get("reason")) for entry in written["conditions"]}


def test_pod_that_waits() -> None:
    written = status(pod(initContainers=[{"name": "i"}]), new_record(pod(initContainers=[{"name": "i"}]), NOW))
    assert written["phase"] == "Pending"
    assert conditions(written) == {
        "PodReadyToStartContainers": ("False", None),
        "Initialized": ("False", "ContainersNotInitialized"),
        "Ready": ("False", "ContainersNotReady"),
        "ContainersReady": ("False", "ContainersNotReady"),
        "PodScheduled": ("True", None),
    }
    assert written["containerStatuses"][0]["state"] == {"waiting": {"reason": "PodInitializing"}}


def test_pod_that_runs() -> None:
    record = new_record(pod(), NOW)
    record = PodRecord(
        {"c": started(record.containers["c"], 0, "x://1", NOW, is_ready=True)}, address="127.64.0.1", started_at=NOW
    )
    written = status(pod(), record)
    assert written["phase"] == "Running"
    assert written["podIPs"] == [{"ip": "127.64.0.1"}]
    assert {value for value, _ in conditions(written).values()} == {"True"}
    assert written["containerStatuses"] == [
        {
            "name": "c",
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            "lastState": {},
            "ready": True,
            "restartCount": 0,
            "image": "busybox",
            "imageID": "local/busybox",
            "containerID": "x://1",
            "started": True,
        }
    ]


def test_conditions_keep_their_transition_time_and_those_of_others() -> None:
    gate = {"type": "DisruptionTarget", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"}
    ready = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2025-01-01T00:00:00Z"}
    subject = {**pod(), "status": {"conditions": [gate, ready], "qosClass": "BestEffort"}}
    written = status(subject, new_record(subject, NOW))
    assert written["conditions"][0] == gate
    assert written["conditions"][-1]["lastTransitionTime"] == "2025-01-01T00:00:00Z"
    assert written["qosClass"] == "BestEffort"


def test_readiness_gates_hold_ready_back() -> None:
    subject = pod(readinessGates=[{"conditionType": "example.com/lb"}])
    record = new_record(subject, NOW)
    record = record.with_container(started(record.containers["c"], 0, "x", NOW, is_ready=True))
    found = {entry["type"]: entry for entry in status(subject, record)["conditions"]}
    assert found["ContainersReady"]["status"] == "True"
    assert found["Ready"]["reason"] == "ReadinessGatesNotReady"


def test_crash_loop_shows_why_and_what_was_before() -> None:
    subject = pod("Always")
    entry = started(new_record(subject, NOW).containers["c"], 1, "x", NOW - 2, is_ready=True)
    entry = ended(ended(entry, Ended(1, "Error", NOW - 9, NOW - 8)), Ended(2, "Error", NOW - 2, NOW))
    written = status(subject, PodRecord({"c": entry}, "127.64.0.1", NOW - 10))
    container = written["containerStatuses"][0]
    assert written["phase"] == "Running"
    assert container["state"] == {
        "waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s restarting failed container=c pod=p_ns(u)"}
    }
    assert container["lastState"]["terminated"]["exitCode"] == 2


def test_failure_of_the_pod_wins_over_its_containers() -> None:
    entry = ended(
        started(new_record(pod(), NOW).containers["c"], 0, "x", NOW, is_ready=True), Ended(0, "Completed", NOW, NOW)
    )
    written = status(pod(), PodRecord({"c": entry}, "", NOW, ("DeadlineExceeded", "too long")))
    assert (written["phase"], written["reason"], written["message"]) == ("Failed", "DeadlineExceeded", "too long")
    assert conditions(written)["Ready"] == ("False", "PodFailed")


def test_record_survives_the_way_through_a_status() -> None:
    subject = pod("Always", initContainers=[{"name": "i", "image": "b"}])
    record = new_record(subject, NOW - 10)
    record = record.with_container(
        ended(
            started(record.containers["i"], 0, "i0", NOW - 9, is_ready=True),
            Ended(0, "Completed", NOW - 9, NOW - 8, "", "i0"),
        )
    )
    record = record.with_container(started(record.containers["c"], 0, "c0", NOW - 7, is_ready=True))
    record = PodRecord(record.containers, "127.64.0.9", NOW - 10)
    found = record_from_status({**subject, "status": status(subject, record)}, NOW)
    assert found.address == "127.64.0.9"
    assert found.containers["c"].state == Running(NOW - 7)
    assert found.containers["i"].state == Ended(0, "Completed", NOW - 9, NOW - 8, "", "i0")


def test_record_of_a_new_pod_waits() -> None:
    assert isinstance(record_from_status(pod(), NOW).containers["c"].state, Waiting)
