"""What is known about each kind of job, and that every part a kind names is there."""

from __future__ import annotations

import subprocess
import sys

import pytest

from corral.core.meta import Obj
from corral.jobs.framework import registry
from corral.jobs.framework.job_kind import JobKind
from corral.jobs.framework.registry import ENDINGS

COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}]}
FAILED = {"conditions": [{"type": "Failed", "status": "True"}]}


@pytest.mark.parametrize("kind", registry.job_kinds(), ids=lambda kind: kind.name)
def test_every_part_that_a_kind_names_is_there(kind: JobKind) -> None:
    for reference in (*kind.adapters.values(), *kind.sets.values()):
        made = kind.part(reference)()
        assert made.framework in (*kind.adapters, *kind.sets)
    for reference in (kind.kinds, kind.operators, kind.admission, kind.posts, kind.simulated):
        assert kind.part(reference) is not None or not reference


@pytest.mark.parametrize(
    ("framework", "selector"),
    [
        ("batch/job", "batch.kubernetes.io/controller-uid=u"),
        ("jobset.x-k8s.io/jobset", "jobset.sigs.k8s.io/jobset-name=a"),
        ("trainer.kubeflow.org/trainjob", "jobset.sigs.k8s.io/jobset-name=a"),
        ("kubeflow.org/pytorchjob", "training.kubeflow.org/job-name=a"),
        ("kubeflow.org/mpijob", "training.kubeflow.org/job-name=a"),
        ("ray.io/rayjob", ""),
        ("pod", ""),
    ],
)
def test_pods_are_looked_for_by_what_they_have_in_common(framework: str, selector: str) -> None:
    job: Obj = {"metadata": {"name": "a", "uid": "u"}}
    assert registry.adapter(framework).pod_selector(job) == selector


@pytest.mark.parametrize(
    ("api_version", "kind", "status", "success"),
    [
        ("batch/v1", "Job", COMPLETE, True),
        ("batch/v1", "Job", FAILED, False),
        ("batch/v1", "Job", {"conditions": [{"type": "Suspended", "status": "True"}]}, None),
        ("jobset.x-k8s.io/v1alpha2", "JobSet", {"conditions": [{"type": "Completed", "status": "True"}]}, True),
        ("kubeflow.org/v1", "PyTorchJob", {"conditions": [{"type": "Succeeded", "status": "True"}]}, True),
        ("workload.codeflare.dev/v1beta2", "AppWrapper", {"phase": "Failed"}, False),
        ("ray.io/v1", "RayJob", {"jobStatus": "RUNNING"}, None),
        ("example.com/v1", "Gadget", COMPLETE, None),
        ("batch/v1", "Job", {}, None),
    ],
)
def test_adapters_say_which_jobs_have_ended(api_version: str, kind: str, status: Obj, success: bool | None) -> None:
    assert ENDINGS.success({"apiVersion": api_version, "kind": kind, "status": status}) is success


def test_a_hub_waits_for_the_end_of_jobs_and_not_of_what_serves() -> None:
    found = {one.framework for one in registry.dispatched_adapters() if one.ends}
    serving = {
        "pod",
        "statefulset",
        "leaderworkerset.x-k8s.io/leaderworkerset",
        "ray.io/raycluster",
        "ray.io/rayservice",
    }
    assert {one.framework for one in registry.dispatched_adapters()} - found == serving
    assert ENDINGS.knows("batch", "Job")
    assert not ENDINGS.knows("apps", "Job")


def test_naming_frameworks_loads_no_operator() -> None:
    script = (
        "import sys\n"
        "from corral.jobs.framework import registry\n"
        "registry.shipped_frameworks(), registry.features(), registry.options()\n"
        "sys.exit(any(name.endswith(('.operator', '.plan', '.kind')) for name in sys.modules))\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
