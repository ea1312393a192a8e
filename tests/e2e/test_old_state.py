"""A fleet that an earlier version left behind is taken up: jobs and Secrets are read, what ran goes on, and it can be backed up.

The state was written by commit 79c2a84: `corral up --workers 1 --simulated`, a Secret, a ConfigMap, a job that has ended and one
that runs for ever, `corral down`.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from tests.e2e.started import ROOT, client, corral, eventually, started

from corral.core import conditions
from corral.core.meta import Obj
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, SECRETS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


def job(state: Path, name: str) -> Obj:
    return client(state).get(JOBS, name, "default")


def test_a_fleet_of_an_earlier_version_comes_back_whole(tmp_path: Path) -> None:
    with tarfile.open(ROOT / "tests" / "data" / "state-79c2a84.tar.xz") as archive:
        archive.extractall(tmp_path / "state", filter="data")
    with started(tmp_path / "state") as state:
        assert client(state).get(SECRETS, "token", "default")["data"] == {"key": "dmFsdWU="}
        assert client(state).get(CONFIG_MAPS, "code", "default")["data"] == {"train.py": "print(1)"}
        assert conditions.is_true(job(state, "done"), "Complete")
        eventually(lambda: job(state, "running")["status"].get("ready") == 1)
        created = client(state).create(JOBS, {**_fresh(job(state, "done")), "metadata": _metadata("new")})
        eventually(lambda: conditions.is_true(job(state, created["metadata"]["name"]), "Complete"))
        assert not conditions.is_true(job(state, "running"), "Failed")
        assert "Wrote manager, worker1" in corral(state, "backup", str(tmp_path / "file")).stdout


def _metadata(name: str) -> Obj:
    return {"name": name, "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "user-queue"}}


def _fresh(old: Obj) -> Obj:
    """A job like one that has run."""
    annotations = {"corral.dev/run-seconds": "0"}
    template = {"metadata": {"annotations": annotations}, "spec": old["spec"]["template"]["spec"]}
    return {"spec": {"suspend": True, "template": template}}
