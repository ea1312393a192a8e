"""The projects whose work Corral does, installed with kubectl as their pages say, and what those pages have people run next.

Manifests come from the projects' Go modules. Commands are those that are printed, with files in place of addresses.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.started import PATIENCE_S, ROOT, corral, eventually, started
from tests.published import FOLDER

FLEET = """
clusters:
  - name: hub
    roles: [hub]
  - name: manager
    roles: [manager]
  - name: worker
    roles: [worker, member]
    nodes: [{cpu: 64, memory: 256Gi, resources: {nvidia.com/gpu: 8}}]
    runtime: simulated
queues: false
"""
CLUSTERS = ("hub", "manager", "worker")
KUEUE, OLD_KUEUE = ("v0.14.4", "v0.14.5"), ("v0.9.0",)
"""What the page on fleets names; not every release of a module is kept everywhere, so the next one will do."""
TRAINING_OPERATOR, TRAINER, JOB_SET = ("v1.9.0",), ("v2.0.0",), ("v0.8.2",)
ON_THE_HUB = ("clusterqueues", "localqueues", "resourceflavors")
QUEUES = """
apiVersion: kueue.x-k8s.io/v1beta1
kind: ResourceFlavor
metadata: {name: multikueue}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: multikueue}
spec:
  namespaceSelector: {}
  resourceGroups:
    - coveredResources: [cpu, memory, nvidia.com/gpu]
      flavors:
        - name: multikueue
          resources:
            - {name: cpu, nominalQuota: 64}
            - {name: memory, nominalQuota: 256Gi}
            - {name: nvidia.com/gpu, nominalQuota: 8}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: multikueue-queue, namespace: default}
spec: {clusterQueue: multikueue}
"""
DISPATCH = """
apiVersion: kueue.x-k8s.io/v1beta1
kind: MultiKueueConfig
metadata: {name: workers}
spec: {clusters: [worker]}
---
apiVersion: kueue.x-k8s.io/v1beta1
kind: AdmissionCheck
metadata: {name: workers}
spec:
  controllerName: kueue.x-k8s.io/multikueue
  parameters: {apiGroup: kueue.x-k8s.io, kind: MultiKueueConfig, name: workers}
"""
CHECKED = '{"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "workers"}]}}}'

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed"),
    pytest.mark.skipif(shutil.which("go") is None, reason="Go is not installed, which fetches manifests"),
]


def sources(module: str, releases: tuple[str, ...]) -> Path:
    """Where Go keeps the sources of the first release that can be had."""
    for release in releases:
        command = ["go", "mod", "download", "-json", f"{module}@{release}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False, cwd="/")
        if done.returncode == 0:
            return Path(json.loads(done.stdout)["Dir"])
    pytest.skip(f"{module} {releases} cannot be downloaded: {done.stdout}{done.stderr}")


def copied(source: Path, target: Path) -> Path:
    """A folder of a module that can be written in; Go's own copy is read-only."""
    shutil.copytree(source, target, copy_function=shutil.copyfile)
    for folder in (target, *target.rglob("*/")):
        folder.chmod(0o755)
    return target


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("installed")
    (folder / "fleet.yaml").write_text(FLEET)
    with started(folder / "state", "-f", str(folder / "fleet.yaml")) as state:
        yield state


def kubectl(state: Path, cluster: str, *arguments: str, stdin: str = "") -> str:
    environment = {**os.environ, "KUBECONFIG": str(state / "kubeconfig")}
    done = subprocess.run(
        ["kubectl", "--context", f"corral-{cluster}", *arguments],
        capture_output=True,
        text=True,
        input=stdin,
        env=environment,
        timeout=PATIENCE_S,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def apply(state: Path, cluster: str, *names: str) -> None:
    for name in names:
        kubectl(state, cluster, "apply", "-f", str(FOLDER / f"{name}.yaml"))


@pytest.fixture(scope="module")
def dispatching(state: Path) -> Path:
    """The fleet with a queue on manager and worker that the pages on jobs take for granted."""
    for cluster in ("worker", "manager"):
        kubectl(state, cluster, "apply", "-f", "-", stdin=QUEUES)
    kubectl(state, "manager", "apply", "-f", "-", stdin=DISPATCH)
    kubectl(state, "manager", "patch", "clusterqueue", "multikueue", "--type=merge", "-p", CHECKED)
    return state


def test_kueue_installed_as_the_page_on_fleets_says_lets_its_jobs_run(state: Path, tmp_path: Path) -> None:
    config = copied(sources("sigs.k8s.io/kueue", KUEUE) / "config", tmp_path / "config")
    (tmp_path / "manifests.yaml").write_text(kubectl(state, "worker", "kustomize", str(config / "default")))
    told = kubectl(state, "worker", "apply", "--server-side", "-f", str(tmp_path / "manifests.yaml"))
    assert "serverside-applied" in told
    pods = ("get", "pods", "-n", "kueue-system")
    eventually(lambda: re.search(r"kueue-controller-manager-\S+ +2/2 +Running +0 ", kubectl(state, "worker", *pods)))

    definitions = sources("sigs.k8s.io/kueue", OLD_KUEUE) / "config" / "components" / "crd" / "bases"
    for plural in ON_THE_HUB:
        told = kubectl(state, "hub", "apply", "-f", str(definitions / f"kueue.x-k8s.io_{plural}.yaml"))
        assert "configured" in told
    listed = kubectl(state, "hub", "get", "crds")
    assert all(f"{plural}.kueue.x-k8s.io " in listed for plural in ON_THE_HUB)
    for version in ("v1beta1", "v1beta2"):
        kubectl(state, "hub", "get", f"clusterqueues.{version}.kueue.x-k8s.io")

    apply(state, "hub", "resource-flavor", "cluster-queue", "namespace", "cluster-placement")
    crp = ("describe", "crp", "sample-kueue")
    eventually(lambda: "PlacementRolloutCompleted" in kubectl(state, "hub", *crp))
    apply(state, "hub", "local-queue", "jobs", "placements")
    there = ("get", "jobs,localqueue", "-n", "compute-jobs")
    eventually(
        lambda: "job.batch/model-evaluation" in (seen := kubectl(state, "worker", *there)) and "cluster-queue" in seen
    )
    ran = ("get", "pods", "-n", "compute-jobs", "-o", "jsonpath={.items[*].status.phase}")
    eventually(lambda: "Running" in (seen := kubectl(state, "worker", *ran)) or "Succeeded" in seen)
    for what in (("resourceflavor", "default-flavor"), ("clusterqueue", "cluster-queue"), ("ns", "compute-jobs")):
        assert what[1] in kubectl(state, "worker", "get", *what)
    for placement in ("queue-placement", "job1-placement", "job2-placement"):
        described = ("describe", "resourceplacement", placement, "-n", "compute-jobs")
        eventually(lambda d=described: "PlacementRolloutCompleted" in kubectl(state, "hub", *d))
    shown = kubectl(state, "hub", "get", "resourceplacement", "job1-placement", "-n", "compute-jobs", "-o", "yaml")
    assert "ResourcePlacementScheduled" in shown
    assert "ClusterResourcePlacementApplied" in kubectl(
        state, "hub", "get", "clusterresourceplacement", "sample-kueue", "-o", "yaml"
    )
    assert "cluster-queue" in kubectl(state, "worker", "get", "clusterqueue", "cluster-queue", "-o", "wide")
    assert "local-queue" in kubectl(state, "worker", "get", "localqueue", "-n", "compute-jobs")
    _is_said(state, "worker", "workloads.kueue.x-k8s.io")
    _is_said(state, "hub", "clusterqueues.kueue.x-k8s.io")


def test_the_training_operator_installed_as_its_page_says_lets_jobs_be_dispatched(dispatching: Path) -> None:
    state = dispatching
    overlay = sources("github.com/kubeflow/training-operator", TRAINING_OPERATOR) / "manifests/overlays/standalone"
    for cluster in ("manager", "worker"):
        kubectl(state, cluster, "apply", "--server-side", "-k", str(overlay))
        pods = ("get", "pods", "-n", "kubeflow")
        eventually(lambda c=cluster, p=pods: re.search(r"training-operator-\S+ +1/1 +Running", kubectl(state, c, *p)))
        _is_said(state, cluster, "pytorchjobs.kubeflow.org")
    job = (ROOT / "examples" / "pytorchjob.yaml").read_text().replace("user-queue", "multikueue-queue")
    kubectl(state, "manager", "apply", "-f", "-", stdin=job)
    field = "jsonpath={.spec.runPolicy.managedBy}"
    where = ("get", "pytorchjob", "pytorch-sum", "-o")
    assert kubectl(state, "manager", *where, field) == "kueue.x-k8s.io/multikueue"
    running = 'jsonpath={.status.conditions[?(@.type=="Running")].status}'
    eventually(lambda: kubectl(state, "manager", *where, running) == "True")
    assert kubectl(state, "worker", *where, field) == ""


def test_the_trainer_installed_as_its_page_says_lets_jobs_be_dispatched(dispatching: Path, tmp_path: Path) -> None:
    state = dispatching
    manifests = copied(sources("github.com/kubeflow/trainer/v2", TRAINER) / "manifests", tmp_path / "manifests")
    job_sets = copied(sources("sigs.k8s.io/jobset", JOB_SET) / "config", tmp_path / "config")
    here = manifests / "third-party" / "jobset"
    (here / "jobset.yaml").write_text(kubectl(state, "worker", "kustomize", str(job_sets / "default")))
    kustomization = here / "kustomization.yaml"
    kustomization.write_text(re.sub(r"https://\S+", "jobset.yaml", kustomization.read_text()))
    for cluster in ("manager", "worker"):
        told = kubectl(state, cluster, "apply", "--server-side", "-k", str(manifests / "overlays" / "manager"))
        assert "Corral does the work of jobset-controller-manager itself" in told
        kubectl(state, cluster, "apply", "--server-side", "-k", str(manifests / "overlays" / "runtimes"))
        shown = ("get", "pods", "-n", "kubeflow-system", "--no-headers")
        eventually(lambda c=cluster, s=shown: len(re.findall(r" 1/1 +Running", kubectl(state, c, *s))) == 2)
        _is_said(state, cluster, "trainjobs.trainer.kubeflow.org")
    apply(state, "manager", "trainjob")
    where = ("get", "trainjob", "pytorch-multikueue", "-o", "jsonpath={.spec.managedBy}")
    assert kubectl(state, "manager", *where) == "kueue.x-k8s.io/multikueue"
    pods = ("get", "pods", "-l", "jobset.sigs.k8s.io/jobset-name=pytorch-multikueue", "-o")
    phases = "jsonpath={.items[*].status.phase}"
    eventually(lambda: kubectl(state, "worker", *pods, phases) == "Running Running")
    assert kubectl(state, "worker", *where) == "trainer.kubeflow.org/trainjob-controller"
    # The page's own runtime, of the same name, on all clusters.
    for cluster in ("manager", "worker"):
        kubectl(
            state,
            cluster,
            "apply",
            "--server-side",
            "--force-conflicts",
            "-f",
            str(FOLDER / "cluster-training-runtime.yaml"),
        )


def _is_said(state: Path, cluster: str, definition: str) -> None:
    """An Event and `corral status` say that Corral serves the kind itself."""
    reasons = ("get", "events", "-A", "-o", "jsonpath={range .items[*]}{.reason} {.involvedObject.name}{'\\n'}{end}")
    eventually(lambda: f"ServedByCorral {definition}" in kubectl(state, cluster, *reasons))
    told = corral(state, "status").stderr
    line = next(line for line in told.splitlines() if line.startswith(f"{cluster}: "))
    assert "their applied definitions have no effect: " in line
    assert definition in line
