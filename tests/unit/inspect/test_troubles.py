"""What is wrong with pods, as their statuses and events tell it."""

from __future__ import annotations

import pytest

from corral.core.meta import Obj
from corral.inspect.troubles import is_held_up, trouble_of_events, troubles_of

EXIT_3 = {"terminated": {"exitCode": 3, "reason": "Error"}}


def pod(name: str, status: Obj, node: str = "n1") -> Obj:
    return {"metadata": {"name": name}, "spec": {"nodeName": node}, "status": status}


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"state": {"running": {"startedAt": "2026-11-16T08:00:00Z"}}}, ""),
        ({"state": {"waiting": {"reason": "ContainerCreating"}}}, ""),
        ({"state": {"waiting": {"reason": "PodInitializing"}}}, ""),
        ({"state": {}}, ""),
        (
            {"state": {"waiting": {"reason": "ContainerCreating", "message": 'configmap "code" not found'}}},
            'ContainerCreating: configmap "code" not found',
        ),
        (
            {"state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}, "lastState": EXIT_3},
            "CrashLoopBackOff: back-off 10s; before it ended with Error, exit code 3",
        ),
        ({"state": {"waiting": {"reason": "ErrImagePull"}}}, "ErrImagePull"),
        ({"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}, ""),
        ({"state": EXIT_3}, "Error, exit code 3"),
        (
            {"state": {"terminated": {"exitCode": 128, "reason": "StartError", "message": "no x"}}},
            "StartError, exit code 128: no x",
        ),
    ],
)
def test_only_what_went_wrong_with_a_container_is_told(entry: Obj, told: str) -> None:
    found = troubles_of([pod("p", {"phase": "Pending", "containerStatuses": [{"name": "main", **entry}]})])
    assert [trouble.text for trouble in found] == ([told] if told else [])


def unschedulable(message: str, reason: str = "Unschedulable") -> Obj:
    return {"conditions": [{"type": "PodScheduled", "status": "False", "reason": reason, "message": message}]}


@pytest.mark.parametrize(
    ("status", "told"),
    [
        ({"phase": "Running", "containerStatuses": [{"name": "main", "state": {"running": {}}}]}, []),
        ({"phase": "Pending", **unschedulable("0/1 nodes")}, ["pod p has no node: 0/1 nodes"]),
        ({"phase": "Pending", **unschedulable("gated", "SchedulingGated")}, []),
        ({"phase": "Failed", "reason": "Evicted", "message": "no disk"}, ["pod p: Evicted: no disk"]),
        (
            {"phase": "Failed", "reason": "Evicted", "containerStatuses": [{"name": "main", "state": EXIT_3}]},
            ["pod p: Evicted"],
        ),
        (
            {"phase": "Failed", "initContainerStatuses": [{"name": "install", "state": EXIT_3}]},
            ["pod p, container install: Error, exit code 3"],
        ),
    ],
)
def test_a_pod_is_told_with_what_keeps_it_from_running_or_ended_it(status: Obj, told: list[str]) -> None:
    assert [str(trouble) for trouble in troubles_of([pod("p", status)])] == told


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (unschedulable("0/3 nodes are available"), unschedulable("0/4 nodes are available"), True),
        (unschedulable('claim "a" not found'), unschedulable('claim "b" not found'), False),
        (
            {"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ErrImagePull", "message": "no"}}}]},
            {"containerStatuses": [{"name": "c", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]},
            True,
        ),
        (
            {"containerStatuses": [{"name": "c", "state": EXIT_3}]},
            {"containerStatuses": [{"name": "d", "state": EXIT_3}]},
            False,
        ),
        (
            {"containerStatuses": [{"name": "c", "state": EXIT_3}]},
            {"containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 4, "reason": "Error"}}}]},
            False,
        ),
    ],
)
def test_troubles_are_of_one_sort_if_only_numbers_and_tries_tell_them_apart(
    one: Obj, other: Obj, is_same: bool
) -> None:
    (first,), (second,) = troubles_of([pod("a", one)]), troubles_of([pod("b", other)])
    assert (first.sort == second.sort) is is_same


def test_the_latest_warning_tells_what_a_status_does_not() -> None:
    mounted = {
        "type": "Warning",
        "reason": "FailedMount",
        "message": "no volume",
        "lastTimestamp": "2026-11-16T08:00:02Z",
    }
    older = {"type": "Warning", "reason": "Failed", "message": "older", "eventTime": "2026-11-16T08:00:01.5Z"}
    normal = {"type": "Normal", "reason": "Pulling", "message": "m", "lastTimestamp": "2026-11-16T08:00:09Z"}
    assert str(trouble_of_events("pod p", [older, mounted, normal])) == "pod p: FailedMount: no volume"
    assert trouble_of_events("pod p", [normal]) is None


@pytest.mark.parametrize(
    ("status", "node", "expected"),
    [({}, "n1", True), ({"phase": "Pending"}, "", False), ({"phase": "Running"}, "n1", False)],
)
def test_a_pod_is_held_up_while_a_node_has_it_and_did_not_start_it(status: Obj, node: str, expected: bool) -> None:
    assert is_held_up(pod("p", status, node)) is expected
