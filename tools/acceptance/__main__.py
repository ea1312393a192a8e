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
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
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
    environment: Mapping[str, str] = field(default_factory=dict)


SUITES = {
    "kueue-multikueue": Suite(
        "sigs.k8s.io/kueue@v0.19.2",
        "test/e2e/multikueue/baseline",
        "multikueue.yaml",
        {"kind-manager": "manager", "kind-worker1": "worker1", "kind-worker2": "worker2"},
        environment={
            "MANAGER_KIND_CLUSTER_NAME": "manager",
            "WORKER1_KIND_CLUSTER_NAME": "worker1",
            "WORKER2_KIND_CLUSTER_NAME": "worker2",
            "KUEUE_NAMESPACE": "kueue-system",
        },
    ),
    "kueue-single": Suite(
        "sigs.k8s.io/kueue@v0.19.2",
        "test/e2e/singlecluster/baseline",
        "single.yaml",
        {"kind-kind": "kind"},
        labels="!feature:prometheus",
        environment={"KIND_CLUSTER_NAME": "kind", "KUEUE_NAMESPACE": "kueue-system"},
    ),
    "jobset": Suite(
        "sigs.k8s.io/jobset@v0.12.0",
        "test/e2e",
        "single.yaml",
        {"kind-kind": "kind"},
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


def build(name: str, suite: Suite, cache: Path) -> tuple[Path, Path]:
    """The compiled suite and the folder it runs in."""
    source, binary = source_of(suite, cache), cache / f"{name}.test"
    environment = {**os.environ, "GOFLAGS": FLAGS}
    if not binary.exists():
        command = ["go", "test", "-c", "-o", str(binary), f"./{suite.package}"]
        subprocess.run(command, check=True, cwd=source, env=environment)
    tool = source / "bin" / "kubectl-kueue"
    if name == "kueue-single" and not tool.exists():
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


def run(name: str, suite: Suite, cache: Path, focus: str) -> tuple[int, int, int]:
    """Passed, failed and left out."""
    binary, folder = build(name, suite, cache)
    with tempfile.TemporaryDirectory(prefix="corral-acceptance-") as work:
        state, report = Path(work) / "state", Path(work) / "report.json"
        subprocess.run([CORRAL, "up", "--state", state, "-f", HERE / suite.fleet], check=True)
        try:
            make_worker_secrets(suite, state)
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
        results[name] = run(name, SUITES[name], cache, options.focus)
    for name, (passed, failed, skipped) in results.items():
        print(f"{name}: {passed} passed, {failed} failed, {skipped} skipped")
    sys.exit(0 if all(failed == 0 and passed for passed, failed, _ in results.values()) else 1)


if __name__ == "__main__":
    main()
