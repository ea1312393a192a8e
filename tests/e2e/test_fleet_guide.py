"""The tutorial on placements with kubectl: a hub and three members as processes, the guide's manifests, what it prints.

The guide's jobs sleep for half a minute and are removed a minute later, which is too soon for a slow machine. Here each waits
for a file of its own instead and stays, so a job can be asked about while it certainly runs, and when it has certainly ended.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.e2e.started import PATIENCE_S, ROOT, eventually, started

from corral.core.meta import Obj

TUTORIAL = ROOT / "docs" / "tutorials" / "fleet-kueue.md"

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(600),
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed"),
]


@pytest.fixture(scope="module")
def gates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a file with a job's name lets that job end."""
    return tmp_path_factory.mktemp("gates")


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory, gates: Path) -> Iterator[Path]:
    with started(tmp_path_factory.mktemp("guide"), "--fleet", "3") as state:
        eventually(lambda: kubectl(state, "get", "memberclusters").count("True") == 3)
        apply_all(state, gates)
        yield state


def kubectl(state: Path, *arguments: str, context: str = "corral-hub", stdin: str = "") -> str:
    environment = {**os.environ, "KUBECONFIG": str(state / "kubeconfig")}
    command = ["kubectl", "--context", context, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=PATIENCE_S, cwd=ROOT, check=False, input=stdin
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def apply_all(state: Path, gates: Path) -> None:
    """What the tutorial applies, in its order."""
    for name in re.findall(r"^\$ kubectl apply -f (\S+)$", TUTORIAL.read_text(), flags=re.MULTILINE):
        manifest = yaml.safe_load((ROOT / name).read_text())
        held = held_still(manifest, gates) if manifest["kind"] == "Job" else manifest
        kubectl(state, "apply", "-f", "-", stdin=yaml.safe_dump(held))


def held_still(job: Obj, gates: Path) -> Obj:
    """The job, with a file to wait for wherever it sleeps, and no hurry to be removed."""
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    until = f"until [ -e /gates/{job['metadata']['name']} ]; do sleep 0.2; done"
    container["command"][-1], sleeps = re.subn(r"sleep \d+", until, container["command"][-1])
    assert sleeps
    container["volumeMounts"] = [{"name": "gates", "mountPath": "/gates"}]
    pod["volumes"] = [{"name": "gates", "hostPath": {"path": str(gates)}}]
    job["spec"]["ttlSecondsAfterFinished"] = 3600
    return job


def events_of(text: str) -> list[str]:
    listed = text.partition("Events:")[2]
    return re.findall(r"Normal\s+(\S+)\s.*placement-controller", listed)


EVENTS = [
    "PlacementRolloutStarted",
    "PlacementOverriddenSucceeded",
    "PlacementWorkSynchronized",
    "PlacementApplied",
    "PlacementAvailable",
    "PlacementRolloutCompleted",
]


def test_every_member_shows_its_queueing_controllers_as_a_running_pod(state: Path) -> None:
    def pods(member: str) -> list[str]:
        return kubectl(state, "get", "pods", "-n", "kueue-system", context=f"corral-{member}").splitlines()[1:]

    for member in ("cluster-1", "cluster-2", "cluster-3"):
        [pod] = eventually(lambda member=member: listed if "Running" in str(listed := pods(member)) else [])
        assert re.match(r"kueue-controller-manager-\w+-\w{5} +2/2 +Running +0 ", pod), pod


def test_the_guide_prints_what_it_says(state: Path) -> None:
    crp = ("describe", "crp", "sample-kueue")
    untracked = "The availability of work object sample-kueue-work is not trackable"
    text = eventually(lambda: text if (text := kubectl(state, *crp)).count(untracked) == 3 else "")
    assert re.findall(r"Type:\s+ClusterResourcePlacement(\S+)", text) == [
        "Scheduled",
        "RolloutStarted",
        "Overridden",
        "WorkSynchronized",
        "Applied",
        "Available",
    ]
    eventually(lambda: events_of(kubectl(state, *crp)) == EVENTS)

    def describe() -> str:
        return kubectl(state, "describe", "resourceplacement", "job1-placement", "-n", "compute-jobs")

    text = eventually(lambda: text if "FoundDriftsInDegradedMode" in (text := describe()) else "")
    assert 'in "cluster-3" (affinity score: 70, topology spread score: 0): picked by scheduling policy' in text
    assert "Work object compute-jobs.job1-placement-work has failed to apply" in text
    assert re.findall(r"Path:\s+(\S+)", text) == [
        "/spec/selector/matchLabels/batch.kubernetes.io~1controller-uid",
        "/spec/suspend",
        "/spec/template/metadata/labels/batch.kubernetes.io~1controller-uid",
        "/spec/template/metadata/labels/controller-uid",
    ]
    assert "Target Cluster Observed Generation:  2" in text
    eventually(lambda: events_of(describe()) == EVENTS)


def corral(state: Path, *arguments: str, code: int = 0) -> str:
    command = [sys.executable, "-m", "corral.cli.main", *arguments]
    chosen = ["--kubeconfig", str(state / "kubeconfig"), "--context", "corral-hub"]
    done = subprocess.run(
        [*command, *chosen], capture_output=True, text=True, timeout=PATIENCE_S, cwd=ROOT, check=False
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_a_job_of_the_hub_is_explained_and_logged_from_the_member_that_runs_it(state: Path, gates: Path) -> None:
    job = ("job/mock-workload", "-n", "compute-jobs")
    eventually(lambda: "Starting mock compute job..." in corral(state, "logs", *job))
    assert "# on cluster cluster-3" in corral(state, "logs", *job)
    assert "ResourcePlacement job1-placement: cluster-3" in corral(state, "explain", *job)
    running = "On cluster-3:\nJob mock-workload: Running on this cluster with quota of cluster-queue."
    eventually(lambda: running in corral(state, "explain", *job))
    (gates / "mock-workload").touch()
    ended = "On cluster-3:\nJob mock-workload: Finished (Succeeded): "
    eventually(lambda: ended in corral(state, "explain", *job))
    assert "Processing completed successfully!" in corral(state, "logs", *job)


def test_a_placement_is_described_without_its_namespace_and_says_that_nothing_failed(state: Path) -> None:
    eventually(lambda: "drifted Job" in corral(state, "fleet", "describe", "job1-placement"))
    assert "The queue started the job" in corral(state, "fleet", "describe", "job1-placement")


def test_what_is_neither_a_member_nor_a_placement_is_answered_with_what_there_is(state: Path) -> None:
    told = corral(state, "fleet", "describe", "nope", code=1)
    assert "there is no member and no placement called nope; there are members cluster-1, cluster-2, cluster-3" in told
    assert "placements sample-kueue, compute-jobs/job1-placement" in told
    told = corral(state, "fleet", "describe", "nope", "-n", "default", code=1)
    assert "there is no placement called nope in namespace default; `corral fleet placements` lists" in told


def test_the_annotated_job_is_healthy_and_its_progress_shows(state: Path) -> None:
    kubectl(state, "annotate", "job", "model-evaluation", "-n", "compute-jobs", "corral.dev/queue-friendly=true")
    work = ("get", "work", "-n", "fleet-member-cluster-3", "compute-jobs.job2-placement-work", "-o")
    report = "jsonpath={.status.manifestConditions[0].backReportedStatus.observedStatus}"
    eventually(lambda: '"kind":"Job"' in kubectl(state, *work, report))
    available = 'jsonpath={.status.conditions[?(@.type=="Available")].status}'
    eventually(lambda: kubectl(state, *work, available) == "True")
