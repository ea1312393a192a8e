"""Names of provisioning requests, and what their attempts mean."""

from __future__ import annotations

import pytest

from corral.core.meta import Obj
from corral.decide.queueing import provisioning as decide
from corral.kinds.kueue import names


def test_names_say_whose_and_which_attempt() -> None:
    assert decide.request_name("wl", "check", 3) == "wl-check-3"
    assert decide.template_name("wl-check-3", "main") == "ppt-wl-check-3-main"


@pytest.mark.parametrize(
    ("name", "attempt"),
    [
        ("wl-check-1", 1),
        ("wl-check-12", 12),
        ("wl-check-", None),
        ("wl-check-x", None),
        ("wl-check-two-1", None),
        ("other-check-1", None),
    ],
)
def test_attempts_are_read_from_names(name: str, attempt: int | None) -> None:
    assert decide.attempt_of(name, "wl", "check") == attempt


@pytest.mark.parametrize("length", range(230, 260))
def test_long_names_stay_valid_distinct_and_readable(length: int) -> None:
    workload = "w" * length
    made = [decide.request_name(workload, "check", attempt) for attempt in range(1, 12)]
    assert all(len(name) <= 253 for name in made)
    assert len(set(made)) == len(made)
    assert [decide.attempt_of(name, workload, "check") for name in made] == list(range(1, 12))
    assert decide.attempt_of(made[0], workload, "other") is None


def _request(name: str, **spec: object) -> Obj:
    return {"metadata": {"name": name}, "spec": {"provisioningClassName": "c", **spec}}


def test_the_last_attempt_that_is_still_wanted_counts() -> None:
    workload: Obj = {"metadata": {"name": "wl"}}
    config: Obj = {"spec": {"provisioningClassName": "c", "parameters": {"a": "b"}}}
    first, second, third = (_request(f"wl-check-{n}", parameters={"a": "b"}) for n in (1, 2, 10))
    other = _request("wl-check-11", parameters={"a": "x"})
    foreign = _request("wl-other-12", parameters={"a": "b"})
    assert decide.latest([third, first, other, foreign, second], workload, "check", config) is third
    assert decide.latest([], workload, "check", config) is None
    assert decide.latest([other], workload, "check", config) is None


def test_a_pod_set_without_an_assignment_is_an_inconsistency() -> None:
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": []}}}
    workload: Obj = {"metadata": {"name": "wl"}, "spec": {"podSets": [pod_set]}, "status": {"admission": {}}}
    with pytest.raises(decide.InconsistentAssignments, match='missing assignment for PodSet "main"'):
        decide.shares(workload, {"spec": {}})


def test_the_check_remembers_attempts_whose_requests_are_gone() -> None:
    workload: Obj = {"metadata": {"name": "wl"}}
    assert decide.next_attempt(workload, "check", {"state": names.PENDING, "retryCount": 2}, None) == 3
    assert decide.next_attempt(workload, "check", {"state": names.READY}, None) is None


def test_an_attempt_is_counted_once() -> None:
    """A failed request of an attempt that was retried already does not cause another retry."""
    condition = {"type": "Failed", "status": "True", "message": "no room"}
    request = {**_request("wl-check-1"), "status": {"conditions": [condition]}}
    state = {"name": "check", "state": names.PENDING, "retryCount": 1}
    found = decide.judged(state, {"metadata": {"name": "wl"}}, request, {"spec": {}}, [])
    assert found == {**state, "message": "Retrying after failure: no room"}
