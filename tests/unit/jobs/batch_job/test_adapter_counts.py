"""A Job that failed on one worker and goes on on another: the API does not let the number of failures go down."""

from __future__ import annotations

from corral.core.meta import Obj, status_of
from corral.jobs.batch_job.adapter import BatchJob


def job(status: Obj) -> Obj:
    return {"metadata": {"name": "j"}, "spec": {"suspend": False}, "status": status}


def test_failures_of_earlier_runs_stay_counted() -> None:
    mirrored = BatchJob().sync_status(job({"failed": 2}), job({"active": 1}))
    assert mirrored is not None
    assert status_of(mirrored) == {"active": 1, "failed": 2}


def test_more_failures_are_copied() -> None:
    mirrored = BatchJob().sync_status(job({"failed": 2}), job({"failed": 3}))
    assert mirrored is not None
    assert status_of(mirrored) == {"failed": 3}


def test_nothing_is_written_when_only_the_count_differs() -> None:
    assert BatchJob().sync_status(job({"failed": 2}), job({})) is None
