"""A fleet that an earlier version left behind is taken up: jobs and Secrets are read, what ran goes on, and it can be backed up.

The states were written by the commits they are named after: `corral up --workers 1`, a Secret, a ConfigMap, a job that has ended and
one that runs for ever, `corral down`. The first has simulated pods and Secrets in clear text; the second has programs, a log that was
kept, Events, and Secrets under a key.
"""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from tests.e2e.started import ROOT, client, corral, eventually, started
from tests.waiting import PATIENCE_S

from corral.core import conditions
from corral.core.meta import Obj
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, EVENTS, SECRETS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


def command(*arguments: str) -> str:
    """What a command prints."""
    done = [sys.executable, "-m", "corral.cli.main", *arguments]
    return subprocess.run(done, stdout=subprocess.PIPE, text=True, check=True, timeout=PATIENCE_S, cwd=ROOT).stdout


def job(state: Path, name: str) -> Obj:
    return client(state).get(JOBS, name, "default")


@pytest.fixture(params=["79c2a84", "d0dd7d06"])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(ROOT / "tests" / "data" / f"state-{request.param}.tar.xz") as archive:
        archive.extractall(tmp_path / "state", filter="data")
    return tmp_path / "state"


def test_a_fleet_of_an_earlier_version_comes_back_whole(state: Path, tmp_path: Path) -> None:
    encrypted = (state / "clusters" / "manager" / "encryption.key").exists()
    with started(state):
        assert client(state).get(SECRETS, "token", "default")["data"] == {"key": "dmFsdWU="}
        assert client(state).get(CONFIG_MAPS, "code", "default")["data"] == {"train.py": "print(1)"}
        assert conditions.is_true(job(state, "done"), "Complete")
        if encrypted:
            logs = ("logs", "job/done", "--kubeconfig", str(state / "kubeconfig"))
            assert command(*logs) == "said by an earlier version\n"
            about = [event["involvedObject"]["name"] for event in client(state).list(EVENTS, "default")["items"]]
            assert "done" in " ".join(about)
        eventually(lambda: job(state, "running")["status"].get("ready") == 1)
        created = client(state).create(JOBS, {**_fresh(job(state, "done")), "metadata": _metadata("new")})
        eventually(lambda: conditions.is_true(job(state, created["metadata"]["name"]), "Complete"))
        assert not conditions.is_true(job(state, "running"), "Failed")
        assert "Wrote manager, worker1" in corral(state, "backup", str(tmp_path / "file")).stdout
    if encrypted:  # what was written under the old key is written under a new one, and nothing is lost
        command("secrets", "rotate-key", "--state", str(state))
        with started(state):
            assert client(state).get(SECRETS, "token", "default")["data"] == {"key": "dmFsdWU="}


def _metadata(name: str) -> Obj:
    return {"name": name, "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "user-queue"}}


def _fresh(old: Obj) -> Obj:
    """A job like one that has run."""
    annotations = {"corral.dev/run-seconds": "0"}
    template = {"metadata": {"annotations": annotations}, "spec": old["spec"]["template"]["spec"]}
    return {"spec": {"suspend": True, "template": template}}
