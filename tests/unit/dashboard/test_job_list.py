"""Which jobs a page shows, and in which order."""

from __future__ import annotations

import pytest

from corral.core.errors import BadRequest
from corral.core.meta import Obj
from corral.dashboard.job_list import Choice, choice_from, choose


def job(name: str, state: str, created: str, ahead: int | None = None) -> Obj:
    return {"name": name, "state": state, "created": created, "ahead": ahead}


def test_what_waits_is_in_the_order_of_its_queue_and_what_has_no_place_yet_comes_last() -> None:
    given = [
        job("new", "pending", "5"), job("second", "pending", "1", 1), job("first", "pending", "2", 0),
        job("runs", "admitted", "3"), job("runs-newer", "admitted", "4"),
    ]  # fmt: skip
    shown = choose(given, Choice(), lambda one: one)
    assert [one["name"] for one in shown["jobs"]] == ["first", "second", "new", "runs-newer", "runs"]
    assert shown["counts"] == {"pending": 3, "quotaReserved": 0, "admitted": 2, "finished": 0}


def test_jobs_are_sorted_by_what_is_asked_for_and_those_that_lack_it_come_last() -> None:
    jobs = [
        {"name": name, "state": "admitted", "ahead": None, "created": created, "started": started}
        for name, created, started in (("b", "1", "9"), ("a", "2", ""), ("c", "3", "5"))
    ]

    def names(sort: str) -> list[str]:
        shown = choose(jobs, choice_from({"sort": sort}), lambda job: job)["jobs"]
        return [job["name"] for job in shown]

    assert names("name") == ["a", "b", "c"]
    assert names("-created") == ["c", "a", "b"]
    assert names("started") == ["c", "b", "a"]
    assert names("-started") == ["b", "c", "a"]
    with pytest.raises(BadRequest, match="jobs cannot be sorted by 'why'; there are name, queue"):
        choice_from({"sort": "why"})
