"""A job that runs again is the same job, without the traces of its first life."""

from __future__ import annotations

from typing import Any

import pytest

from corral.submit.retrying import RETRY_OF, again, as_submitted, next_name


@pytest.mark.parametrize(
    ("name", "following"),
    [("train", "train-2"), ("train-2", "train-3"), ("train-9", "train-10"), ("a-7f3", "a-7f3-2"), ("x" * 63, "x" * 61 + "-2")],
)  # fmt: skip
def test_names_count_up(name: str, following: str) -> None:
    assert next_name(name) == following


def test_what_servers_wrote_is_left_to_them_again() -> None:
    made = {"controller-uid": "u", "batch.kubernetes.io/job-name": "train", "app": "mine"}
    job: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "train",
            "namespace": "team",
            "uid": "u",
            "resourceVersion": "7",
            "labels": {"kueue.x-k8s.io/queue-name": "lq"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "x"},
        },
        "spec": {
            "selector": {"matchLabels": {"controller-uid": "u"}},
            "managedBy": "kueue.x-k8s.io/multikueue",
            "parallelism": 2,
            "template": {"metadata": {"labels": made}, "spec": {"containers": []}},
        },
        "status": {"failed": 1},
    }
    assert again(job, "train-2") == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "train-2",
            "namespace": "team",
            "labels": {"kueue.x-k8s.io/queue-name": "lq"},
            "annotations": {"note": "x", RETRY_OF: "train"},
        },
        "spec": {"parallelism": 2, "template": {"metadata": {"labels": {"app": "mine"}}, "spec": {"containers": []}}},
    }


def test_what_admission_wrote_into_the_template_is_left_to_the_next_one() -> None:
    containers = [{"name": "main"}]
    template = {
        "metadata": {"annotations": {"kueue.x-k8s.io/workload": "job-train", "mine": "x"}, "labels": {"app": "mine"}},
        "spec": {"containers": containers, "nodeSelector": {"flavor": "spot"}},
    }
    job: dict[str, Any] = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": "team"},
        "spec": {"suspend": False, "template": template},
    }
    original = {
        "metadata": {"annotations": {"mine": "x"}, "labels": {"app": "mine"}},
        "spec": {"containers": containers},
    }
    workload = {"spec": {"podSets": [{"name": "main", "count": 1, "template": original}]}}
    assert as_submitted(job, workload)["spec"] == {"suspend": True, "template": original}
    assert as_submitted(job, None) is job
