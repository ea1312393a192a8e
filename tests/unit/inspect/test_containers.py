"""Which containers of a pod have something to read."""

from __future__ import annotations

from typing import Any

import pytest

from corral.inspect.containers import containers_of, failed_starts, has_begun, main_container

POD = {
    "metadata": {"name": "p"},
    "spec": {"initContainers": [{"name": "init"}], "containers": [{"name": "main"}, {"name": "side"}]},
}
RUNS, WAITS = {"state": {"running": {}}}, {"state": {"waiting": {"reason": "PodInitializing"}}}
FAILED = {"state": {"terminated": {"exitCode": 1}}}


@pytest.mark.parametrize(
    ("status", "begun"),
    [
        ({"phase": "Pending"}, []),
        ({"phase": "Running"}, ["init", "main", "side"]),
        (
            {
                "phase": "Pending",
                "initContainerStatuses": [{"name": "init", **RUNS}],
                "containerStatuses": [{"name": "main", **WAITS}, {"name": "side", **WAITS}],
            },
            ["init"],
        ),
        (
            {
                "phase": "Running",
                "initContainerStatuses": [{"name": "init", **FAILED}],
                "containerStatuses": [
                    {"name": "main", **WAITS, "lastState": FAILED["state"]},
                    {"name": "side", **RUNS},
                ],
            },
            ["init", "main", "side"],
        ),
    ],
)
def test_a_container_has_begun_when_it_may_have_written(status: Any, begun: list[str]) -> None:
    pod = {**POD, "status": status}
    assert [name for name in containers_of(pod) if has_begun(pod, name)] == begun


def test_a_container_before_the_one_that_is_meant_says_why_that_never_begins() -> None:
    assert failed_starts({**POD, "status": {"initContainerStatuses": [{"name": "init", **FAILED}]}}) == ["init"]
    assert failed_starts({**POD, "status": {"initContainerStatuses": [{"name": "init", **RUNS}]}}) == []


def test_the_first_container_is_meant_unless_the_pod_says_another() -> None:
    assert main_container(POD) == "main"
    named = {"metadata": {"annotations": {"kubectl.kubernetes.io/default-container": "side"}}, "spec": POD["spec"]}
    assert main_container(named) == "side"
