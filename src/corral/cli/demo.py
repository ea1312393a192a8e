"""`corral demo`: a manager and two workers, three kinds of jobs queued on the manager, run on the workers, shown as it happens."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

from corral.client.sync import SyncClient
from corral.core import conditions
from corral.core.errors import ApiError
from corral.core.meta import Obj, is_owned_by, name_of, spec_of, status_of, uid_of
from corral.core.resource import Resource
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.kubeflow.kind import PYTORCH_JOBS
from corral.jobs.trainjob.kind import CLUSTER_TRAINING_RUNTIMES, TRAIN_JOBS
from corral.kinds.kubernetes.core.kinds import PODS
from corral.kinds.kueue import WORKLOADS

QUEUE = {"kueue.x-k8s.io/queue-name": "user-queue"}
TIMEOUT_S = 50.0
POLL_S = 0.1
LOGS_S = 3.0
"""How long the logs of a finished job are waited for."""

ROOM: Final = "1500m"
"""A worker has room for one of the jobs at a time, so that they are seen to go to several, and to wait."""

_STEPS = "for epoch in 1 2 3; do echo epoch $epoch of 3 on $(hostname); sleep 0.4; done"
_RENDEZVOUS = "import os; print('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'], 'meets at', os.environ['MASTER_ADDR'])"
_NODE = "import os; print('node', os.environ.get('PET_NODE_RANK', '0'), 'of', os.environ.get('PET_NNODES', '1'))"


def _container(name: str, image: str, command: list[str]) -> Obj:
    requests = {"cpu": "500m", "memory": "64Mi"}
    return {"name": name, "image": image, "command": command, "resources": {"requests": requests}}


def _template(container: Obj, **spec: Any) -> Obj:
    return {"spec": {"containers": [container], **spec}}


def job() -> Obj:
    template = _template(_container("main", "busybox", ["sh", "-c", _STEPS]), restartPolicy="Never")
    spec = {"parallelism": 2, "completions": 2, "suspend": True, "template": template}
    return {"metadata": {"name": "demo-job", "namespace": "default", "labels": QUEUE}, "spec": spec}


def pytorch_job() -> Obj:
    template = _template(_container("pytorch", "pytorch/pytorch", ["python3", "-c", _RENDEZVOUS]))
    replica = {"replicas": 1, "restartPolicy": "Never", "template": template}
    return {
        "metadata": {"name": "demo-pytorch", "namespace": "default", "labels": QUEUE},
        "spec": {"pytorchReplicaSpecs": {"Master": replica, "Worker": replica}},
    }


def runtime() -> Obj:
    template = _template(_container("node", "pytorch/pytorch", ["python3", "-c", _NODE]))
    labels = {"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
    node = {"name": "node", "template": {"metadata": {"labels": labels}, "spec": {"template": template}}}
    return {
        "metadata": {"name": "demo-runtime", "labels": {"trainer.kubeflow.org/framework": "torch"}},
        "spec": {
            "mlPolicy": {"numNodes": 1, "torch": {"numProcPerNode": "auto"}},
            "template": {"spec": {"replicatedJobs": [node]}},
        },
    }


def train_job() -> Obj:
    return {
        "metadata": {"name": "demo-train", "namespace": "default", "labels": QUEUE},
        "spec": {"runtimeRef": {"name": "demo-runtime"}, "trainer": {"numNodes": 2}},
    }


@click.command()
@click.option("--workers", type=click.IntRange(1, 20), default=2, show_default=True, help="Worker clusters.")
def demo(workers: int) -> None:
    """Run a Job, a PyTorchJob and a TrainJob on a manager and two workers, and show where each went and why."""
    with tempfile.TemporaryDirectory(prefix="corral-demo-") as folder:
        state = Path(folder)
        _corral(state, "up", "--workers", str(workers), "--cpu", ROOM, "--memory", "8Gi", "--overcommit")
        try:
            failed = Demo(state, workers).run()
        finally:
            _corral(state, "down")
    click.echo(f"Everything is gone again; `corral up --workers {workers}` starts a fleet that stays.")
    sys.exit(1 if failed else 0)


def _corral(state: Path, *arguments: str) -> None:
    command = [sys.executable, "-m", "corral.cli.main", arguments[0], "--state", str(state), *arguments[1:]]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    # What to do next with a fleet is not for one that is gone in a moment.
    click.echo(done.stdout.partition("\n\n")[0].rstrip())
    if done.returncode:
        raise click.ClickException(f"corral {arguments[0]} failed")


class Demo:
    """Submits the jobs and reports what happens to them."""

    def __init__(self, state: Path, workers: int) -> None:
        kubeconfig = state / "kubeconfig"
        self.started = time.monotonic()
        self.manager = SyncClient.from_kubeconfig(kubeconfig, "corral-manager")
        self.workers = {
            f"worker{number}": SyncClient.from_kubeconfig(kubeconfig, f"corral-worker{number}")
            for number in range(1, workers + 1)
        }
        self.logged: dict[str, int] = {}
        self.ended: dict[str, float] = {}
        self.announced: dict[str, str] = {}

    def say(self, text: str) -> None:
        click.echo(f"{time.monotonic() - self.started:6.1f} s  {text}")

    def run(self) -> bool:
        """True when something did not finish well."""
        for client in (self.manager, *self.workers.values()):
            client.create(CLUSTER_TRAINING_RUNTIMES, runtime())
        submitted = [
            (resource, self.manager.create(resource, obj))
            for resource, obj in ((JOBS, job()), (PYTORCH_JOBS, pytorch_job()), (TRAIN_JOBS, train_job()))
        ]
        for resource, obj in submitted:
            self.say(f"{resource.kind} {name_of(obj)} queued on the manager")
        deadline = time.monotonic() + TIMEOUT_S
        open_jobs = dict.fromkeys(name_of(obj) for _, obj in submitted)
        while open_jobs and time.monotonic() < deadline:
            for resource, obj in submitted:
                if name_of(obj) in open_jobs and self.follow(resource, obj):
                    del open_jobs[name_of(obj)]
            time.sleep(POLL_S)
        for name in open_jobs:
            self.say(f"{name} did not finish within {TIMEOUT_S:.0f} s")
        return bool(open_jobs) or any(text.startswith("Failed") for text in self.announced.values())

    def follow(self, resource: Resource, obj: Obj) -> bool:
        """Report news of one job; True when it is over."""
        workload = self._workload(obj)
        if workload is None:
            return False
        cluster = str(status_of(workload).get("clusterName") or "")
        if cluster:
            self._announce(obj, "went to", f"{resource.kind} {name_of(obj)} went to {cluster}: {_reason(workload)}")
            self._print_logs(cluster, obj)
        finished = conditions.find(workload, "Finished")
        if not finished or finished.get("status") != "True" or not self._is_read(obj, workload):
            return False
        self.announced[name_of(obj)] = str(finished.get("reason"))
        self.say(f"{resource.kind} {name_of(obj)} {finished.get('reason')}: {finished.get('message')}")
        return True

    def _announce(self, obj: Obj, topic: str, text: str) -> None:
        key = f"{name_of(obj)} {topic}"
        if key not in self.announced:
            self.announced[key] = text
            self.say(text)

    def _workload(self, obj: Obj) -> Obj | None:
        found = _quietly(lambda: self.manager.list(WORKLOADS, "default")["items"]) or []
        return next((item for item in found if is_owned_by(item, uid_of(obj))), None)

    def _is_read(self, obj: Obj, workload: Obj) -> bool:
        """Whether the logs of all its pods were shown; the manager has those of a finished job a moment later."""
        ended = self.ended.setdefault(name_of(obj), time.monotonic())
        pods = sum(pod_set["count"] for pod_set in spec_of(workload)["podSets"])
        read = sum(pod.startswith(name_of(obj)) for pod in self.logged)
        return read >= pods or time.monotonic() - ended > LOGS_S

    def _print_logs(self, cluster: str, obj: Obj) -> None:
        """What its pods have written since; the manager shows them wherever they run, and when they are gone."""
        pods = _quietly(lambda: self.manager.list(PODS, "default")["items"]) or []
        for pod in pods:
            if not name_of(pod).startswith(name_of(obj)):
                continue
            path = PODS.path("default", name_of(pod), "log")
            text = _quietly(lambda path=path: self.manager.call("GET", path).get("text", "")) or ""  # type: ignore[misc]
            lines = str(text).splitlines()
            seen = self.logged.get(name_of(pod), 0)
            for line in lines[seen:]:
                self.say(f"  {cluster} {name_of(pod)} | {line}")
            if lines:
                self.logged[name_of(pod)] = max(seen, len(lines))


def _reason(workload: Obj) -> str:
    states = status_of(workload).get("admissionChecks") or [{}]
    return str(states[0].get("message") or "it was admitted there first")


def _quietly(call: Callable[[], Any]) -> Any:
    """The answer, or None when it is too early or too late to ask."""
    try:
        return call()
    except ApiError:
        return None
