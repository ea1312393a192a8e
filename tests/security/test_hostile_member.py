"""A member that means no good reports about itself alone: what it says does not grow what tells of all members."""

from __future__ import annotations

import json
from typing import Any

import pytest

from corral.core.meta import Obj
from corral.decide.placement.progress import JOBS_STARTED, MAX_TEXT, job_conditions
from corral.decide.placement.works import MAX_REPORTED, MAX_REPORTED_TEXT, summarize
from corral.jobs.framework.registry import ENDINGS

MUCH = 4 * MAX_REPORTED_TEXT


def said(kind: str, **more: Any) -> Obj:
    return {"type": kind, "status": "False", "reason": "R", "observedGeneration": 1, "lastTransitionTime": "t", **more}


def drift(path: str) -> Obj:
    return {"path": path, "valueInHub": "a", "valueInMember": "b"}


def manifest(number: int, name: str, message: str, drifts: list[Obj]) -> Obj:
    details = {"observationTime": "t", "observedInMemberClusterGeneration": 1}
    return {
        "identifier": {"ordinal": number, "version": "v1", "kind": "ConfigMap", "name": name, "namespace": "default"},
        "conditions": [said("Applied", message=message)],
        "driftDetails": {**details, "firstDriftedObservedTime": "t", "observedDrifts": drifts},
        "diffDetails": {**details, "firstDiffedObservedTime": "t", "observedDiffs": drifts},
    }


def work(*manifests: Obj) -> Obj:
    metadata = {"name": "w", "namespace": "fleet-member-m", "generation": 1}
    return {"metadata": metadata, "status": {"conditions": [said("Applied")], "manifestConditions": [*manifests]}}


@pytest.mark.parametrize(
    "manifests",
    [
        [manifest(n, f"c{n}", "m" * MUCH, [drift("/a")]) for n in range(300)],
        [manifest(n, "n" * MUCH, "m", [drift("/a" * MUCH)]) for n in range(20)],
        [manifest(0, "c", "m", [drift(f"/{n}") for n in range(MUCH)])],
        [manifest(n, f"c{n}", "m", [drift(f"/{k}") for k in range(100)]) for n in range(300)],
    ],
    ids=["messages", "names and paths", "many drifts of one", "many drifts of many"],
)
def test_what_one_member_says_is_bounded(manifests: list[Obj]) -> None:
    summary = summarize([work(*manifests)], ENDINGS, report_diff=False)
    for entries in (summary.failed, summary.drifted, summary.diffed):
        assert entries, "something is said in any case"
        assert len(json.dumps(entries)) < 3 * MAX_REPORTED_TEXT


def test_what_is_short_is_said_whole() -> None:
    drifts = [drift(f"/data/k{n}") for n in range(30)]
    manifests = [manifest(n, f"c{n}", "m" * MAX_TEXT if n == 0 else "it failed", drifts) for n in range(5)]
    summary = summarize([work(*manifests)], ENDINGS, report_diff=False)
    assert [entry["condition"]["message"] for entry in summary.failed] == ["m" * MAX_TEXT, *["it failed"] * 4]
    assert [entry["observedDrifts"] for entry in summary.drifted] == [drifts] * 5
    many = [manifest(n, f"c{n}", "it failed", drifts[:1]) for n in range(2 * MAX_REPORTED)]
    assert len(summarize([work(*many)], ENDINGS, report_diff=False).failed) == MAX_REPORTED


NO_STATUS: list[Any] = ["x", 7, ["x"], {"status": "x"}, {"status": {"conditions": "x"}}, {"status": {"conditions": [7]}}, {"workload": "x"},
    {"workload": {"conditions": [{}]}}, {"status": {"conditions": [{"type": "Complete"}]}}, {"kind": "Job", "status": {"active": ["x"]}}]  # fmt: skip


@pytest.mark.parametrize("observed", NO_STATUS, ids=str)
def test_what_is_no_status_of_a_job_is_said_and_not_stumbled_over(observed: Any) -> None:
    identifier = {"group": "batch", "version": "v1", "kind": "Job", "name": "train", "namespace": "default"}
    manifest = {"identifier": identifier, "backReportedStatus": {"observedStatus": observed}}
    conditions = job_conditions([{"status": {"manifestConditions": [manifest]}}], ENDINGS)
    assert conditions[0]["type"] == JOBS_STARTED
    assert conditions[0]["message"].startswith("Job train")


def test_the_words_of_a_job_are_bounded() -> None:
    waiting = {"type": "QuotaReserved", "status": "False", "message": "m" * MUCH}
    identifier = {"group": "batch", "version": "v1", "kind": "Job", "name": "train", "namespace": "default"}
    observed = {"workload": {"conditions": [waiting]}}
    manifest = {"identifier": identifier, "backReportedStatus": {"observedStatus": observed}}
    for condition in job_conditions([{"status": {"manifestConditions": [manifest]}}], ENDINGS):
        assert len(condition["message"]) == MAX_TEXT
