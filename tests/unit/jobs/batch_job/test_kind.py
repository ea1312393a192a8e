"""Jobs: what creation makes of them and which changes are allowed, against recordings of a real control plane."""

from __future__ import annotations

import copy
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from corral.core.errors import Cause
from corral.core.meta import Obj
from corral.jobs.batch_job import columns as batch_printing
from corral.jobs.batch_job.kind import CRON_JOB, JOB
from corral.kinds.machinery.decoding import decode

GOLDEN = json.loads((Path(__file__).parents[3] / "data" / "kinds" / "jobs.json").read_text())
ERRORS = {
    case["id"]: case
    for case in json.loads((Path(__file__).parents[3] / "data" / "kube-errors.json").read_text())["cases"]
}


def created(submitted: dict[str, Any], like: dict[str, Any]) -> dict[str, Any]:
    job, unknown = decode("batch/v1.Job", submitted)
    assert unknown == []
    JOB.default(job)
    job["metadata"] |= {field: like["metadata"][field] for field in ("uid", "namespace", "creationTimestamp")}
    job.pop("status", None)
    JOB.prepare_create(job)
    return dict(job)


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_create_persists_what_a_real_server_persists(name: str) -> None:
    want = GOLDEN[name]["created"]
    job = created(GOLDEN[name]["submitted"], want)
    assert JOB.validate(job) == []
    assert job["spec"] == want["spec"]
    assert job["status"] == want["status"]
    assert job["metadata"].get("labels") == want["metadata"].get("labels")


@pytest.mark.parametrize("name", sorted(GOLDEN))
def test_every_recorded_status_change_is_allowed(name: str) -> None:
    states = GOLDEN[name]["states"]
    for old, new in pairwise(states):
        if new["metadata"].get("deletionTimestamp") == old["metadata"].get("deletionTimestamp"):
            check = JOB.validate_status if new["spec"] == old["spec"] else JOB.validate_update
            assert check(new, old) == []


def suspended() -> dict[str, Any]:
    job: dict[str, Any] = copy.deepcopy(GOLDEN["suspended"]["created"])
    return job


def changed(**spec: Any) -> dict[str, Any]:
    job = suspended()
    job["spec"] |= spec
    return job


def fields(causes: list[Cause]) -> set[tuple[str, str]]:
    return {(cause.field, cause.message) for cause in causes}


def test_template_of_a_job_is_immutable_and_shown_as_the_server_shows_it() -> None:
    new = suspended()
    new["spec"]["template"]["spec"]["containers"][0]["image"] = "other"
    (cause,) = JOB.validate_update(new, suspended())
    want = ERRORS["immutable-job-template-image"]["body"]["details"]["causes"][0]
    uid, name = new["metadata"]["uid"], new["metadata"]["name"]
    recorded = want["message"]
    was = recorded.split('"batch.kubernetes.io/controller-uid":"')[1].split('"')[0]
    assert cause.field == "spec.template"
    assert cause.message == recorded.replace(was, uid).replace('job-name":"im"', f'job-name":"{name}"')


def test_scheduling_of_a_suspended_job_may_change_until_it_has_started() -> None:
    new = suspended()
    new["spec"]["template"]["spec"] |= {"nodeSelector": {"gpu": "h100"}, "schedulingGates": [{"name": "example.com/g"}]}
    new["spec"]["template"]["metadata"]["annotations"] = {"a": "b"}
    assert JOB.validate_update(new, suspended()) == []
    started = suspended()
    started["status"] = {"startTime": "2026-11-15T18:01:39Z"}
    assert [cause.field for cause in JOB.validate_update(new, started)] == ["spec.template"]


def test_completions_of_an_indexed_job_change_only_with_parallelism() -> None:
    old = changed(completionMode="Indexed", completions=2, parallelism=2)
    assert JOB.validate_update({**old, "spec": {**old["spec"], "completions": 3, "parallelism": 3}}, old) == []
    causes = JOB.validate_update({**old, "spec": {**old["spec"], "completions": 3}}, old)
    detail = "Invalid value: 3: can only be modified in tandem with spec.parallelism"
    assert ("spec.completions", detail) in fields(causes)


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        pytest.param(
            {"managedBy": "nobody"},
            ("spec.managedBy", 'Invalid value: "nobody": must be a domain-prefixed path (such as "acme.io/foo")'),
            id="manager without domain",
        ),
        pytest.param(
            {"maxFailedIndexes": 1, "completionMode": "Indexed"},
            ("spec.backoffLimitPerIndex", "Required value: when maxFailedIndexes is specified"),
            id="failed indexes without limit per index",
        ),
        pytest.param(
            {"parallelism": 100001, "completionMode": "Indexed"},
            (
                "spec.parallelism",
                "Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed",
            ),
            id="too parallel",
        ),
        pytest.param(
            {"podFailurePolicy": {"rules": [{"action": "Explode", "onExitCodes": {"operator": "In", "values": [1]}}]}},
            (
                "spec.podFailurePolicy.rules[0].action",
                'Unsupported value: "Explode": supported values: "Count", "FailIndex", "FailJob", "Ignore"',
            ),
            id="unknown action",
        ),
        pytest.param(
            {"podFailurePolicy": {"rules": [{"action": "Count"}]}},
            (
                "spec.podFailurePolicy.rules[0]",
                "Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
            ),
            id="rule about nothing",
        ),
        pytest.param(
            {"completionMode": "Indexed", "successPolicy": {"rules": [{"succeededIndexes": "0-9"}]}},
            (
                "spec.successPolicy.rules[0].succeededIndexes",
                'Invalid value: "0-9": error parsing succeededIndexes: too large index: "9"',
            ),
            id="success policy beyond completions",
        ),
    ],
)
def test_job_specs_are_refused_in_upstreams_words(spec: dict[str, Any], cause: tuple[str, str]) -> None:
    assert cause in fields(JOB.validate(changed(**spec)))


def cron_job(**spec: Any) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    body = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}, **spec}
    job, _ = decode("batch/v1.CronJob", {"metadata": {"name": "c", "namespace": "n"}, "spec": body})
    CRON_JOB.default(job)
    return dict(job)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"schedule": "bad"}, 'Invalid value: "bad": expected exactly 5 fields, found 1: [bad]'),
        ({"schedule": "61 * * * *"}, 'Invalid value: "61 * * * *": end of range (61) above maximum (59): 61'),
        ({"schedule": "@never"}, 'Invalid value: "@never": unrecognized descriptor: @never'),
        ({"timeZone": "Mars/Olympus"}, 'Invalid value: "Mars/Olympus": unknown time zone Mars/Olympus'),
        ({"concurrencyPolicy": "Maybe"}, 'Unsupported value: "Maybe": supported values: "Allow", "Forbid", "Replace"'),
    ],
)
def test_cron_jobs_are_refused_in_upstreams_words(spec: dict[str, Any], message: str) -> None:
    assert [cause.message for cause in CRON_JOB.validate(cron_job(**spec))] == [message]


@pytest.mark.parametrize(
    "schedule", ["*/5 * * * *", "0 0 1 jan mon-fri", "@hourly", "@every 1h30m", "1,2,3-5/2 * * * ?"]
)
def test_cron_jobs_with_usual_schedules_are_fine(schedule: str) -> None:
    assert CRON_JOB.validate(cron_job(schedule=schedule)) == []


@pytest.mark.parametrize(
    ("spec", "status", "shown"),
    [
        ({"suspend": True}, {}, "Suspended"),
        ({"suspend": True}, {"active": 1}, "Running"),
        ({"suspend": False}, {}, "Running"),
        ({"suspend": True}, {"conditions": [{"type": "Complete", "status": "True"}]}, "Complete"),
    ],
)
def test_a_job_that_waits_is_not_shown_as_running(spec: Obj, status: Obj, shown: str) -> None:
    assert batch_printing._status({"metadata": {"name": "j"}, "spec": spec, "status": status}, 0.0) == shown
