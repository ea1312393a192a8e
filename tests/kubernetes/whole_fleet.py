"""A manager and two workers as `docs/install/real-clusters.md` sets them up: each a real API server, with Corral's controllers as
processes under the accounts that are shipped, webhooks that they register themselves, and workers that the manager was given by
`corral clusters add`. Pods, and the operators of job kinds, are played by `play.py`."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from accounts import OUTSIDE, account_of, kubectl
from cluster import ControlPlane
from tests import waiting

from corral.client import kubeconfig
from corral.client.sync import SyncClient
from corral.clusters.webhooks.configurations import MUTATING_NAME, VALIDATING_NAME
from corral.core import conditions
from corral.core.errors import ApiError
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.kinds.kubernetes.admissionregistration.kinds import (
    MUTATING_WEBHOOK_CONFIGURATIONS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
)
from corral.kinds.kueue import CLUSTER_QUEUES, MULTI_KUEUE_CLUSTERS, WORKLOADS

WORKERS = ("worker1", "worker2")
CLUSTERS = ("manager", *WORKERS)
GROUPS = ("kueue.x-k8s.io", "kubeflow.org", "jobset.x-k8s.io", "trainer.kubeflow.org", "ray.io")
FRAMEWORKS = [
    "batch/job", "kubeflow.org/pytorchjob", "jobset.x-k8s.io/jobset", "trainer.kubeflow.org/trainjob", "ray.io/rayjob", "pod",
]  # fmt: skip
LOST_S = 10
"""How long a worker may be away before its jobs are given to another."""
CHECK: Obj = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "AdmissionCheck",
    "metadata": {"name": "multikueue"},
    "spec": {
        "controllerName": "kueue.x-k8s.io/multikueue",
        "parameters": {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": "multikueue"},
    },
}
Answer = Any


def roles_of(name: str) -> str:
    return "queueing,dispatch,webhooks" if name == "manager" else "queueing,webhooks"


class RealFleet:
    """Start it, use `clients`, stop it. `processes` are the controllers by cluster; `source` is the tree they run from."""

    def __init__(self, folder: Path, binaries: Path) -> None:
        self.folder = folder
        self.planes = {name: ControlPlane(name, folder / name, binaries) for name in CLUSTERS}
        self.clients: dict[str, SyncClient] = {}
        self.processes: dict[str, list[subprocess.Popen[bytes]]] = {name: [] for name in CLUSTERS}
        self._players: list[subprocess.Popen[bytes]] = []
        self._logs = 0
        self._log_of: dict[int, Path] = {}
        self._starting: list[tuple[str, str]] = []

    @property
    def kubeconfig(self) -> Path:
        """The administrator's, with a context for each cluster."""
        return self.folder / "kubeconfig"

    # set-up, as the documentation says

    def start(self) -> None:
        for plane in self.planes.values():
            plane.start()
        self._merge_kubeconfigs()
        for name in CLUSTERS:
            self.clients[name] = SyncClient.from_kubeconfig(self.kubeconfig, name)
            groups = [part for group in GROUPS for part in ("--group", group)]
            self.corral("controllers", "install", *groups, context=name)
            role = "manager" if name == "manager" else "worker"
            account_of(self.planes[name], role, self.folder / name / "account")
            kubectl(self.planes[name], "apply", "--filename=-", given=yaml.safe_dump_all(OUTSIDE))
            self._configuration_of(name).write_text(yaml.safe_dump(self.configuration()))
            self.start_controllers(name)
        for name in WORKERS:
            self.corral("clusters", "add", name, "--worker-context", name)
            self._play(name)
        self.make_queues()
        for name in CLUSTERS:
            waiting.eventually(lambda name=name: self._is_registered(name), what=f"webhooks of {name}", failing=FAILING)
            waiting.eventually(lambda name=name: self._queue_is_active(name), what=f"queue of {name}", failing=FAILING)
        for name in WORKERS:
            waiting.eventually(lambda name=name: self.is_connected(name), what=f"connection to {name}", failing=FAILING)

    def configuration(self) -> Obj:
        return {
            "apiVersion": "config.kueue.x-k8s.io/v1beta2",
            "kind": "Configuration",
            "integrations": {"frameworks": FRAMEWORKS},
            "multiKueue": {"workerLostTimeout": f"{LOST_S}s"},
        }

    def make_queues(self) -> None:
        kubectl(self.planes["manager"], "apply", "--filename=-", given=yaml.safe_dump(CHECK))
        for name in CLUSTERS:
            is_manager = name == "manager"
            self.corral("queue", "create", "resourceflavor", "default", context=name)
            check = ("--admission-check", "multikueue") if is_manager else ()
            quota = "default:cpu=8" if is_manager else "default:cpu=4"
            preempting = ("--preemption-within-cluster-queue", "LowerPriority")
            self.corral(
                "queue", "create", "clusterqueue", "team", "--nominal-quota", quota, *preempting, *check, context=name
            )
            self.corral("queue", "create", "localqueue", "team", "--clusterqueue", "team", context=name)

    def start_controllers(self, name: str, source: Path | None = None) -> subprocess.Popen[bytes]:
        """Another replica of a cluster's controllers, of this tree or of another."""
        self._logs += 1
        arguments = [
            "controllers", "run", f"--roles={roles_of(name)}", f"--kubeconfig={self.folder / name / 'account'}",
            f"--config={self._configuration_of(name)}", "--webhook-host=localhost", "--webhook-port=0",
        ]  # fmt: skip
        environment = {**os.environ, "PYTHONPATH": str(source)} if source is not None else None
        log = self.folder / name / f"corral-{self._logs}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "corral", *arguments], stdout=output, stderr=output, env=environment
            )
        self.processes[name].append(process)
        self._log_of[process.pid] = log
        return process

    def _play(self, name: str) -> None:
        with (self.folder / name / "play.log").open("wb") as output:
            command = [sys.executable, str(Path(__file__).with_name("play.py")), str(self.planes[name].kubeconfig)]
            self._players.append(subprocess.Popen(command, stdout=output, stderr=output))

    def kill_server(self, name: str) -> None:
        self.planes[name].kill_server()

    def start_server(self, name: str) -> None:
        """An API server that starts refuses whom it will let a moment later: it has not read its roles yet."""
        began = _now()
        self.planes[name].start_server()
        self._starting.append((began, _now(after_s=10)))

    def was_starting(self, line: str) -> bool:
        """Whether a line of a log is of a time when an API server started."""
        return any(began <= line[:19] <= ended for began, ended in self._starting)

    def stop(self) -> None:
        controllers = [process for each in self.processes.values() for process in each]
        for process in (*controllers, *self._players):
            process.terminate()
        for process in (*controllers, *self._players):
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(30)
        for client in self.clients.values():
            client.close()
        for plane in self.planes.values():
            plane.stop()

    # what tests ask

    def corral(self, *arguments: str, context: str = "manager") -> str:
        command = [sys.executable, "-m", "corral", *arguments, "--context", context]
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)
        assert done.returncode == 0, f"{' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def said(self, name: str = "") -> str:
        """What the controllers of a cluster said, or those of all."""
        logs = sorted(self.folder.glob(f"{name or '*'}/corral-*.log"))
        return "".join(log.read_text() for log in logs)

    def said_by(self, process: subprocess.Popen[bytes]) -> str:
        return self._log_of[process.pid].read_text()

    def eventually(self, question: Callable[[], Answer], what: str, seconds: float = waiting.PATIENCE_S) -> Answer:
        """The first true answer; where there is none, what the controllers said last."""
        try:
            return waiting.eventually(question, seconds, what=what, failing=FAILING)
        except AssertionError as error:
            ends = "\n".join(f"{name}: …{self.said(name)[-1500:]}" for name in CLUSTERS)
            raise AssertionError(f"{error}\n{self.summary()}\n{ends}") from error

    def summary(self) -> str:
        """Every Workload of every cluster that answers, and its conditions."""
        lines = []
        for name, client in self.clients.items():
            try:
                items = client.list(WORKLOADS)["items"]
            except ApiError as error:
                lines.append(f"{name}: {error}")
                continue
            for each in items:
                told = [
                    f"{c['type']}={c['status']}({c.get('message', '')[:80]})" for c in conditions.conditions_of(each)
                ]
                lines.append(f"{name}: {each['metadata']['name']} {' '.join(told)}")
        return "\n".join(lines)

    def workload_of(self, name: str, cluster: str = "manager") -> Obj | None:
        """The Workload of a job, or of a pod group."""
        for each in self.clients[cluster].list(WORKLOADS)["items"]:
            owners = [owner["name"] for owner in each["metadata"].get("ownerReferences") or ()]
            if name in owners or each["metadata"]["name"] == name:
                return dict(each)
        return None

    def has(self, name: str, condition: str, cluster: str = "manager") -> Obj | None:
        """The Workload of a job, once a condition of it is true."""
        found = self.workload_of(name, cluster)
        return found if found is not None and conditions.is_true(found, condition) else None

    def is_connected(self, worker: str) -> bool:
        return conditions.is_true(self.clients["manager"].get(MULTI_KUEUE_CLUSTERS, worker), "Active")

    def are_gone(self, resource: Resource, names: set[str]) -> bool:
        """Whether nothing of these jobs is left on any worker: neither they nor Workloads."""
        for worker in WORKERS:
            for listed in (resource, WORKLOADS):
                if any(_belongs(each, names) for each in self.clients[worker].list(listed)["items"]):
                    return False
        return True

    def _queue_is_active(self, name: str) -> bool:
        return conditions.is_true(self.clients[name].get(CLUSTER_QUEUES, "team"), "Active")

    def _is_registered(self, name: str) -> bool:
        """Both configurations are there, and the API server acts on them."""
        client = self.clients[name]
        client.get(MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING_NAME)
        client.get(VALIDATING_WEBHOOK_CONFIGURATIONS, VALIDATING_NAME)
        queue = {"metadata": {"name": "probe", "namespace": "default", "labels": {"kueue.x-k8s.io/queue-name": "team"}}}
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
        made = client.create(BATCH_JOBS, {**queue, "spec": {"template": template}}, dry_run=True)
        return bool(made["spec"]["suspend"])

    def _configuration_of(self, name: str) -> Path:
        return self.folder / name / "configuration.yaml"

    def _merge_kubeconfigs(self) -> None:
        documents = [kubeconfig.load(plane.kubeconfig) for plane in self.planes.values()]
        kubeconfig.write(kubeconfig.merged(documents, "manager"), self.kubeconfig)


BATCH_JOBS = Resource("batch", "v1", "jobs", "Job")
FAILING = (AssertionError, ApiError)


def _now(after_s: float = 0) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + after_s))


def _belongs(obj: Mapping[str, Any], names: set[str]) -> bool:
    metadata = obj["metadata"]
    owners = {owner["name"] for owner in metadata.get("ownerReferences") or ()}
    return metadata["name"] in names or bool(owners & names) or any(metadata["name"].find(name) >= 0 for name in names)
