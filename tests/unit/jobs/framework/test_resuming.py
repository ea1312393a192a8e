"""What a suspended child Job takes over when it runs on, and what it keeps."""

from __future__ import annotations

import pytest

from corral.core.meta import Obj
from corral.jobs.framework.resuming import resumed


def job(metadata: Obj, pod: Obj) -> Obj:
    return {"metadata": {"name": "j"}, "spec": {"suspend": True, "template": {"metadata": metadata, "spec": pod}}}


@pytest.mark.parametrize(
    ("held", "wanted", "expected"),
    [
        pytest.param({}, {}, {}, id="nothing stays nothing"),
        pytest.param(
            {"labels": {"old": "1"}}, {"labels": {"new": "2"}}, {"labels": {"new": "2"}}, id="wanted replaces"
        ),
        pytest.param({"annotations": {"old": "1"}}, {}, {}, id="what an earlier admission left is gone"),
        pytest.param(
            {"labels": {"job-name": "j", "controller-uid": "u", "batch.kubernetes.io/job-name": "j"}},
            {"labels": {"job-name": "other"}},
            {"labels": {"job-name": "j", "controller-uid": "u", "batch.kubernetes.io/job-name": "j"}},
            id="what the Job API put there stays",
        ),
        pytest.param(
            {"labels": {"mine.io/rank": "3", "theirs.io/rank": "4"}},
            {},
            {"labels": {"mine.io/rank": "3"}},
            id="what its owner put there stays",
        ),
    ],
)
def test_labels_and_annotations(held: Obj, wanted: Obj, expected: Obj) -> None:
    found = resumed(job(held, {}), {"metadata": wanted}, ("mine.io/",))
    assert found["spec"]["template"]["metadata"] == expected


def test_only_scheduling_directives_are_taken_over() -> None:
    held = {"nodeSelector": {"a": "1"}, "tolerations": [{"key": "t"}], "containers": [{"name": "c", "image": "old"}]}
    wanted = {
        "nodeSelector": {"b": "2"},
        "schedulingGates": [{"name": "g"}],
        "containers": [{"name": "c", "image": "new"}],
    }
    before = job({}, held)
    found = resumed(before, {"spec": wanted})
    assert found["spec"]["template"]["spec"] == {
        "containers": [{"name": "c", "image": "old"}],
        "nodeSelector": {"b": "2"},
        "schedulingGates": [{"name": "g"}],
    }
    assert found["spec"]["suspend"] is False
    assert before["spec"]["suspend"] is True
