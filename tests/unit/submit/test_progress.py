"""How far a job is."""

from __future__ import annotations

import pytest

from corral.core.meta import Obj
from corral.submit.progress import ending, exit_code, progress_of


def workload(cluster: str = "", **conditions: str) -> Obj:
    told = [
        {"type": kind, "status": "True" if not text else "False", "message": text} for kind, text in conditions.items()
    ]
    return {"spec": {"queueName": "team"}, "status": {"conditions": told, "clusterName": cluster}}


def stuck(reason: str) -> Obj:
    state = {"waiting": {"reason": reason, "message": "for long"}}
    return {
        "metadata": {"name": "p"},
        "status": {"phase": "Pending", "containerStatuses": [{"name": "c", "state": state}]},
    }


def pod(phase: str, *codes: int) -> Obj:
    statuses = [{"name": "c", "state": {"terminated": {"exitCode": code, "reason": "Error"}}} for code in codes]
    return {"metadata": {"name": "p"}, "status": {"phase": phase, "containerStatuses": statuses}}


@pytest.mark.parametrize(
    ("held", "pods", "success", "phase", "text"),
    [
        (None, [], None, "queued", "waiting for its Workload"),
        (workload(QuotaReserved="no room"), [], None, "queued", "queued in team: no room"),
        (workload(QuotaReserved=""), [], None, "queued", "has quota in team, waits for a cluster"),
        (workload("w1", QuotaReserved="", Admitted=""), [], None, "admitted", "admitted on w1, pods are starting"),
        (workload("w1", Admitted=""), [pod("Pending")], None, "admitted", "admitted on w1, pods are starting"),
        (workload("w1", Admitted=""), [pod("Running")], None, "running", "running on w1"),
        (
            workload("w1", Admitted=""),
            [stuck("ImagePullBackOff")],
            None,
            "admitted",
            "admitted on w1, pods are starting (ErrImagePull)",
        ),
        (
            workload("w1", Admitted=""),
            [pod("Running"), stuck("CrashLoopBackOff")],
            None,
            "running",
            "running on w1 (CrashLoopBackOff)",
        ),
        (workload("w1"), [pod("Failed")], False, "failed", "failed"),
        (workload("w1"), [], True, "succeeded", "succeeded"),
    ],
)
def test_the_furthest_a_job_has_come(
    held: Obj | None, pods: list[Obj], success: bool | None, phase: str, text: str
) -> None:
    found = progress_of(held, pods, success)
    assert (found.phase, found.text) == (phase, text)


def test_a_job_ends_with_the_first_code_of_its_containers_that_is_not_0() -> None:
    assert exit_code([pod("Succeeded", 0), pod("Failed", 0, 7)], False) == 7
    assert exit_code([pod("Failed", 7)], True) == 0
    assert exit_code([], False) == 1


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (pod("Failed", 3)["status"], "failed with exit code 3"),
        ({"phase": "Failed", "reason": "Evicted", "message": "no disk"}, "failed with exit code 1 (Evicted: no disk)"),
        (
            {
                "phase": "Failed",
                "containerStatuses": [
                    {"name": "c", "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}},
                ],
            },
            "failed with exit code 137 (OOMKilled)",
        ),
    ],
)
def test_an_ending_names_what_else_than_the_program_brought_it_about(status: Obj, told: str) -> None:
    pods = [{"metadata": {"name": "p"}, "status": status}]
    assert ending(pods, False) == told
    assert ending(pods, True) == "succeeded"


@pytest.mark.parametrize(
    ("position", "held", "text"),
    [
        (3, workload(QuotaReserved="no room"), "queued in team, 3 before it: no room"),
        (0, workload(QuotaReserved="no room"), "queued in team, the next: no room"),
        (2, workload(), "queued in team, 2 before it"),
        (2, workload(QuotaReserved=""), "has quota in team, waits for a cluster"),
    ],
)
def test_a_job_that_waits_is_shown_with_how_many_are_before_it(position: int, held: Obj, text: str) -> None:
    assert progress_of(held, [], None, position).text == text
