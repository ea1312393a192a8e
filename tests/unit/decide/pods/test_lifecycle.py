"""What containers do next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from corral.core.meta import Obj
from corral.decide.pods.lifecycle import abandoned, backoff, ended, plan, started
from corral.decide.pods.record import Ended, PodRecord, Running, new_record

NOW = 1000.0


def pod(policy: str = "Always", *, init: list[Obj] | None = None, main: tuple[str, ...] = ("c",), **more: Any) -> Obj:
    spec = {"restartPolicy": policy, "containers": [{"name": name} for name in main], "initContainers": init or []}
    return {"metadata": {"name": "p", **more.pop("metadata", {})}, "spec": {**spec, **more}}


def world(subject: Obj, **states: Any) -> PodRecord:
    """A record in which containers are `running` or ended with an exit code."""
    record = new_record(subject, NOW - 100)
    for name, state in states.items():
        entry = started(record.containers[name], 0, "id", NOW - 50, is_ready=True)
        if state != "running":
            entry = ended(entry, Ended(state, "Error" if state else "Completed", NOW - 50, NOW))
        record = record.with_container(entry)
    return record


SIDECAR = {"name": "side", "restartPolicy": "Always"}


@pytest.mark.parametrize(
    ("subject", "states", "start", "stop", "is_over"),
    [
        pytest.param(pod(main=("a", "b")), {}, ["a", "b"], [], False, id="all main containers start together"),
        pytest.param(
            pod(init=[{"name": "i"}, {"name": "j"}]), {}, ["i"], [], False, id="the first init container first"
        ),
        pytest.param(pod(init=[{"name": "i"}, {"name": "j"}]), {"i": 0}, ["j"], [], False, id="then the next"),
        pytest.param(
            pod(init=[{"name": "i"}]), {"i": "running"}, [], [], False, id="wait for a running init container"
        ),
        pytest.param(pod(init=[{"name": "i"}]), {"i": 0}, ["c"], [], False, id="then the main containers"),
        pytest.param(
            pod("Never", init=[{"name": "i"}]), {"i": 1}, [], [], True, id="a failed init container ends the pod"
        ),
        pytest.param(pod("OnFailure", init=[{"name": "i"}]), {"i": 1}, ["i"], [], False, id="or is tried again"),
        pytest.param(
            pod(init=[SIDECAR]), {"side": "running"}, ["c"], [], False, id="a sidecar that has started is enough"
        ),
        pytest.param(
            pod("Never", init=[SIDECAR]), {"side": "running", "c": 0}, [], ["side"], False, id="sidecars end last"
        ),
        pytest.param(pod("Never", init=[SIDECAR]), {"side": 143, "c": 0}, [], [], True, id="and then it is over"),
        pytest.param(pod("Never"), {"c": 3}, [], [], True, id="Never stays down"),
        pytest.param(pod("OnFailure"), {"c": 3}, ["c"], [], False, id="OnFailure restarts a failure"),
        pytest.param(pod("OnFailure"), {"c": 0}, [], [], True, id="OnFailure accepts success"),
        pytest.param(pod("Always"), {"c": 0}, ["c"], [], False, id="Always always restarts"),
        pytest.param(
            pod("Never", main=("a", "b")), {"a": 0, "b": "running"}, [], [], False, id="one of two still runs"
        ),
        pytest.param(
            pod(metadata={"deletionTimestamp": "x"}), {"c": "running"}, [], ["c"], False, id="deletion stops what runs"
        ),
        pytest.param(pod(metadata={"deletionTimestamp": "x"}), {"c": 143}, [], [], True, id="and restarts nothing"),
    ],
)
def test_plan(subject: Obj, states: dict[str, Any], start: list[str], stop: list[str], is_over: bool) -> None:
    step = plan(subject, world(subject, **states), NOW)
    assert (step.start, step.stop, step.is_over) == (start, stop, is_over)


def test_back_off_grows_and_ends() -> None:
    assert [backoff(crashes) for crashes in (1, 2, 3, 4, 7, 20)] == [0, 10, 20, 40, 300, 300]
    subject = pod("Always")
    record = world(subject, c=1)
    record = record.with_container(replace(record.containers["c"], crashes=3))
    step = plan(subject, record, NOW + 5)
    assert (step.start, step.backing_off, step.wake_at) == ([], {"c": 20.0}, NOW + 20)
    assert plan(subject, record, NOW + 20).start == ["c"]


def test_a_long_run_ends_the_back_off() -> None:
    entry = started(new_record(pod(), 0).containers["c"], 5, "id", 0, is_ready=True)
    entry = replace(entry, crashes=5)
    assert ended(entry, Ended(1, "Error", 0, 10)).crashes == 6
    assert ended(entry, Ended(1, "Error", 0, 700)).crashes == 1


def test_a_deadline_wakes_the_plan() -> None:
    subject = pod("Never", activeDeadlineSeconds=150)
    assert plan(subject, world(subject, c="running"), NOW).wake_at == NOW + 50


def test_containers_that_never_ran_are_accounted_for() -> None:
    subject = pod("Never", main=("a", "b"))
    record = abandoned(subject, world(subject, a=0), NOW)
    state = record.containers["b"].state
    assert isinstance(state, Ended)
    assert (state.exit_code, state.reason) == (137, "ContainerStatusUnknown")


def test_started_keeps_the_last_ending() -> None:
    entry = ended(started(new_record(pod(), 0).containers["c"], 0, "a", 0, is_ready=True), Ended(1, "Error", 0, 5))
    again = started(entry, 1, "b", 9, is_ready=False)
    assert (again.state, again.last, again.attempt, again.ready) == (Running(9), Ended(1, "Error", 0, 5), 1, False)
