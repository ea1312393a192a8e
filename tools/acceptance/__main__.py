"""Other projects' own end-to-end suites against Corral, as `make acceptance` runs them.

Each suite is built from its Go module (kept in a cache folder), a fleet is started for it with `corral up -f`, and every case
is printed with what came of it. Nothing stands between suite and product but a kubeconfig with the context names the suite
expects and, for MultiKueue, the Secrets with the workers' kubeconfigs that its set-up script would make.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from tools.acceptance.real import is_here, real_cluster

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CORRAL = Path(sys.executable).with_name("corral")


@dataclass(frozen=True)
class Suite:
    """One suite: where it comes from, the fleet it runs on, and the cases that ask for what no process cluster has."""

    module: str
    package: str
    fleet: str
    contexts: Mapping[str, str]
    """Context the suite uses, and the cluster of the fleet it means."""
    unfair: Mapping[str, str] = field(default_factory=dict)
    """Words in the names of cases that are left out, and why."""
    labels: str = ""
    is_real: bool = False
    """Over a real API server with a played kubelet, instead of an embedded cluster."""
    environment: Mapping[str, str] = field(default_factory=dict)
    manifests: tuple[str, ...] = ()
    """What upstream's set-up installs on each cluster beside Kueue and the operators."""


KUEUE = "sigs.k8s.io/kueue@v0.19.2"
MANY = {"kind-manager": "manager", "kind-worker1": "worker1", "kind-worker2": "worker2"}
ONE = {"kind-kind": "kind"}
OF_MANY = {
    "MANAGER_KIND_CLUSTER_NAME": "manager",
    "WORKER1_KIND_CLUSTER_NAME": "worker1",
    "WORKER2_KIND_CLUSTER_NAME": "worker2",
    "KUEUE_NAMESPACE": "kueue-system",
}
OF_ONE = {"KIND_CLUSTER_NAME": "kind", "KUEUE_NAMESPACE": "kueue-system"}
RAY = {"KUBERAY_RAY_IMAGE": "rayproject/ray:2.54.0"}
RUNTIMES = ("examples/training-runtimes.yaml",)
NEEDS_RAY = dict.fromkeys(
    ("rayjob", "RayJob", "RayService", "rayservice", "utoscaling", "elastic RayCluster", "worker groups independently"),
    "asks Ray itself what it runs, and pods stand in for Ray",
)

SUITES = {
    "kueue-multikueue": Suite(
        KUEUE,
        "test/e2e/multikueue/baseline",
        "multikueue.yaml",
        MANY,
        environment=OF_MANY,
    ),
    "kueue-single": Suite(
        KUEUE,
        "test/e2e/singlecluster/baseline",
        "single.yaml",
        ONE,
        labels="!feature:prometheus",
        environment=OF_ONE,
    ),
    "kueue-single-real": Suite(
        KUEUE,
        "test/e2e/singlecluster/baseline",
        "single.yaml",
        ONE,
        unfair={
            "Metrics when workload is admitted": "asks for metrics from within a pod, and pods are played",
            "allow to preempt the lower priority group": "ends a pod by a command in it, and pods are played",
            "keeps the reserved quota equal": "ends a pod by a command in it, and pods are played",
        },
        labels="!feature:prometheus",
        is_real=True,
        environment=OF_ONE,
    ),
    "kueue-sequential": Suite(
        KUEUE,
        "test/e2e/sequential/baseline",
        "single.yaml",
        ONE,
        unfair={
            "kubelet on a node goes down": "stops the kubelet in a node's container, and there are no containers",
            "certificates": "looks at the certificates of Kueue's webhooks; the API server admits and converts by itself",
            "identity from the provided kubeconfig": "takes rights away from an account that Kueue's own program is given",
        },
        environment=OF_ONE,
    ),
    "kueue-tas": Suite(
        KUEUE,
        "test/e2e/tas/baseline",
        "topology.yaml",
        ONE,
        unfair={"becomes NotReady": "stops the kubelet in a node's container, and there are no containers"},
        environment=OF_ONE,
    ),
    "kueue-multikueue-extended": Suite(
        KUEUE,
        "test/e2e/multikueue/extended",
        "multikueue.yaml",
        MANY,
        unfair=NEEDS_RAY,
        environment=OF_MANY | RAY,
        manifests=RUNTIMES,
    ),
    "kueue-multikueue-sequential": Suite(
        KUEUE,
        "test/e2e/multikueue/sequential",
        "multikueue.yaml",
        MANY,
        unfair={
            "reflect the connection state": "edits a file in the container of a node, and there are no containers",
            "Should be able to use ClusterProfile": "starts a plug-in from an image, and there are no images",
        },
        environment=OF_MANY | {"CLUSTERPROFILE_PLUGIN_IMAGE": "secretreader:0"},
    ),
    "kueue-single-extended": Suite(
        KUEUE,
        "test/e2e/singlecluster/extended",
        "single.yaml",
        ONE,
        unfair=NEEDS_RAY | {"SidecarMode submitter": "its program imports Ray, and has ended before it is looked at"},
        environment=OF_ONE | RAY,
        manifests=RUNTIMES,
    ),
    "kueue-sequential-extended": Suite(
        KUEUE,
        "test/e2e/sequential/extended",
        "single.yaml",
        ONE,
        labels="!feature:spark",
        environment=OF_ONE,
    ),
    "kueue-tas-extended": Suite(
        KUEUE,
        "test/e2e/tas/extended",
        "topology.yaml",
        ONE,
        environment=OF_ONE | RAY,
        manifests=RUNTIMES,
    ),
    "jobset": Suite(
        "sigs.k8s.io/jobset@v0.12.0",
        "test/e2e",
        "single.yaml",
        ONE,
        unfair={"ping each other": "pods of processes have no network of their own to be pinged in"},
    ),
}
FLAGS = "-buildvcs=false -mod=mod"


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "corral" / "acceptance"


def source_of(suite: Suite, cache: Path) -> Path:
    """A copy of the suite's module that can be built in; Go's own copy is read-only."""
    target = cache / suite.module.rpartition("/")[2]
    if not (target / "go.mod").exists():
        found = subprocess.run(
            ["go", "mod", "download", "-json", suite.module], check=True, stdout=subprocess.PIPE, cwd=cache
        )
        shutil.copytree(json.loads(found.stdout)["Dir"], target, copy_function=shutil.copyfile, dirs_exist_ok=True)
        for folder, _, _ in os.walk(target):
            Path(folder).chmod(0o755)
    return target


def binary_of(name: str, suite: Suite, cache: Path) -> Path:
    """Where a compiled suite is kept; another version is another program."""
    return cache / f"{name.removesuffix('-real')}-{suite.module.rpartition('@')[2]}.test"


def build(name: str, suite: Suite, cache: Path) -> tuple[Path, Path]:
    """The compiled suite and the folder it runs in."""
    source, binary = source_of(suite, cache), binary_of(name, suite, cache)
    environment = {**os.environ, "GOFLAGS": FLAGS}
    if not binary.exists():
        command = ["go", "test", "-c", "-o", str(binary), f"./{suite.package}"]
        subprocess.run(command, check=True, cwd=source, env=environment)
    tool = source / "bin" / "kubectl-kueue"
    if name.removesuffix("-real") == "kueue-single" and not tool.exists():
        subprocess.run(["go", "build", "-o", str(tool), "./cmd/kueuectl"], check=True, cwd=source, env=environment)
    return binary, source / suite.package


def merged_kubeconfig(suite: Suite, state: Path) -> dict[str, Any]:
    """One kubeconfig with the contexts the suite asks for."""
    merged: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "clusters": [], "users": [], "contexts": []}
    for context, cluster in suite.contexts.items():
        own = yaml.safe_load((state / "clusters" / cluster / "admin.kubeconfig").read_text())
        merged["clusters"].append({"name": context, "cluster": own["clusters"][0]["cluster"]})
        merged["users"].append({"name": context, "user": own["users"][0]["user"]})
        merged["contexts"].append({"name": context, "context": {"cluster": context, "user": context}})
    merged["current-context"] = next(iter(suite.contexts))
    return merged


def make_worker_secrets(suite: Suite, state: Path) -> None:
    """The Secrets multikueue1 and multikueue2, which upstream's set-up script makes before the suite starts."""
    workers = [cluster for cluster in suite.contexts.values() if cluster.startswith("worker")]
    for number, cluster in enumerate(workers, start=1):
        kubeconfig = (state / "clusters" / cluster / "admin.kubeconfig").read_bytes()
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": f"multikueue{number}", "namespace": "kueue-system"},
            "data": {"kubeconfig": base64.b64encode(kubeconfig).decode()},
        }
        manager = str(state / "clusters" / "manager" / "admin.kubeconfig")
        command = ["kubectl", "--kubeconfig", manager, "apply", "-f", "-"]
        subprocess.run(command, input=json.dumps(secret), text=True, check=True, stdout=subprocess.DEVNULL)


def install(suite: Suite, state: Path) -> None:
    """Apply what upstream's set-up installs before the suite starts."""
    for cluster in suite.contexts.values():
        for manifest in suite.manifests:
            config = str(state / "clusters" / cluster / "admin.kubeconfig")
            command = ["kubectl", "--kubeconfig", config, "apply", "--server-side", "-f", str(ROOT / manifest)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def run(name: str, suite: Suite, cache: Path, focus: str) -> tuple[int, int, int]:
    """Passed, failed and left out."""
    binary, folder = build(name, suite, cache)
    with tempfile.TemporaryDirectory(prefix="corral-acceptance-", ignore_cleanup_errors=True) as work:
        state, report = Path(work) / "state", Path(work) / "report.json"
        with started(suite, Path(work), state):
            kubeconfig = Path(work) / "kubeconfig"
            kubeconfig.write_text(json.dumps(merged_kubeconfig(suite, state)))
            kubeconfig.chmod(0o600)
            command = [binary, f"--ginkgo.json-report={report}", "--ginkgo.timeout=1h", "--test.timeout=0"]
            command += [f"--ginkgo.label-filter={suite.labels}"] if suite.labels else []
            command += [f"--ginkgo.skip={word}" for word in suite.unfair]
            command += [f"--ginkgo.focus={focus}"] if focus else []
            environment = {**os.environ, **suite.environment, "KUBECONFIG": str(kubeconfig)}
            with (cache / f"{name}.log").open("w") as log:
                subprocess.run(command, cwd=folder, env=environment, stdout=log, stderr=log, check=False)
            return tell(suite, json.loads(report.read_text()) if report.exists() else [])


@contextmanager
def started(suite: Suite, work: Path, state: Path) -> Iterator[None]:
    """The clusters of a suite; their kubeconfigs are where `corral up` leaves them."""
    if suite.is_real:
        (cluster,) = suite.contexts.values()
        with real_cluster(work, cluster, HERE / suite.fleet) as kubeconfig:
            (state / "clusters" / cluster).mkdir(parents=True)
            (state / "clusters" / cluster / "admin.kubeconfig").write_text(kubeconfig.read_text())
            yield
        return
    subprocess.run([CORRAL, "up", "--state", state, "-f", HERE / suite.fleet, "--overcommit"], check=True)
    try:
        make_worker_secrets(suite, state)
        install(suite, state)
        yield
    finally:
        subprocess.run([CORRAL, "down", "--delete", "--yes", "--state", state], check=False)


def tell(suite: Suite, report: list[Any]) -> tuple[int, int, int]:
    """Print a line for each case that ran or was left out, and count them."""
    passed = failed = skipped = 0
    for case in [case for part in report for case in part["SpecReports"] or []]:
        name = " / ".join(
            [*(case.get("ContainerHierarchyTexts") or []), case.get("LeafNodeText") or case["LeafNodeType"]]
        )
        message = " ".join(str((case.get("Failure") or {}).get("Message", "")).split())[:300]
        if case["State"] == "passed":
            passed += case["LeafNodeType"] == "It"
            print(f"pass {name}") if case["LeafNodeType"] == "It" else None
        elif case["State"] in ("skipped", "pending"):
            skipped += 1
            print(f"skip {name}: {reason_to_skip(suite, name) or message or case['State']}")
        else:
            failed += 1
            print(f"FAIL {name}: {message}")
    return passed, failed, skipped


def reason_to_skip(suite: Suite, name: str) -> str:
    return next((why for word, why in suite.unfair.items() if word in name), suite.labels and "label filter")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", help=f"some of {', '.join(SUITES)}; all when none is named")
    parser.add_argument("--focus", default="", help="only cases whose names match this expression")
    options = parser.parse_args()
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    results = {}
    for name in options.suites or SUITES:
        if SUITES[name].is_real and not is_here():
            print(f"{name} is left out: no real kube-apiserver here; `make kube-tools` builds one")
            continue
        results[name] = run(name, SUITES[name], cache, options.focus)
    for name, (passed, failed, skipped) in results.items():
        print(f"{name}: {passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(0 if all(failed == 0 and passed for passed, failed, _ in results.values()) else 1)


if __name__ == "__main__":
    main()
