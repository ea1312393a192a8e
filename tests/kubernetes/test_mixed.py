"""Corral beside Kueue's own manager, both directions: one is the manager, the other leads on the worker, each over a real API server.

Jobs of every kind, and a group of pods, go from create to their end at home; then the worker's API server is killed and comes back. Nobody's
webhooks are registered: what these would do to a job is in its manifest."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))

from accounts import account_of, kubectl, start_corral
from cluster import ControlPlane, programs
from job_examples import KINDS, PODS, TRAIN_JOBS, Example, held, runtime, suspended
from real_kueue import RealKueue, program
from tests import waiting
from whole_fleet import CHECK, FAILING

from corral.client import kubeconfig
from corral.client.sync import SyncClient
from corral.core import conditions
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.kinds.kueue import CLUSTER_QUEUES, MULTI_KUEUE_CLUSTERS, WORKLOADS

BINARIES = programs()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(BINARIES is None, reason="no real kube-apiserver here; `make kube-tools` builds one"),
    pytest.mark.skipif(program() is None, reason="no Kueue manager here; `make kueue` builds one"),
    pytest.mark.timeout(900),
]
FRAMEWORKS = [
    "batch/job", "kubeflow.org/pytorchjob", "jobset.x-k8s.io/jobset", "trainer.kubeflow.org/trainjob", "ray.io/rayjob",
    "pod",
]  # fmt: skip
GROUPS = ("kueue.x-k8s.io", "kubeflow.org", "jobset.x-k8s.io", "trainer.kubeflow.org", "ray.io")
PREPARED_BY_KUEUE = (TRAIN_JOBS,)
"""Kueue does not start one on a worker that its own webhooks have not prepared there."""


class CorralHere:
    """Corral's controllers over a cluster, with the account that is shipped for them."""

    def __init__(self, plane: ControlPlane, folder: Path, role: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._roles = "queueing,dispatch" if role == "manager" else "queueing"
        self._account = account_of(plane, role, folder / "account")
        self.log = folder / "corral.log"
        self._config = folder / "configuration.yaml"
        self._config.write_text(yaml.safe_dump({"integrations": {"frameworks": FRAMEWORKS}}))
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        options = (f"--roles={self._roles}", f"--kubeconfig={self._account}", f"--config={self._config}")
        self._process = start_corral(self.log, "controllers", "run", *options)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        if self._process is not None and self.is_running:
            self._process.terminate()
            self._process.wait(60)


class Pair:
    """A manager and its worker: `home` is led by one of both, `away` by the other."""

    def __init__(self, folder: Path, home: str) -> None:
        assert BINARIES is not None
        self.folder = folder
        self.planes = {name: ControlPlane(name, folder / name, BINARIES) for name in ("home", "away")}
        self._leads = {"home": home, "away": "kueue" if home == "corral" else "corral"}
        self.led: dict[str, CorralHere | RealKueue] = {}
        self.clients: dict[str, SyncClient] = {}
        self._player: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        for plane in self.planes.values():
            plane.start()
        documents = [kubeconfig.load(plane.kubeconfig) for plane in self.planes.values()]
        kubeconfig.write(kubeconfig.merged(documents, "home"), self.folder / "kubeconfig")
        for name, plane in self.planes.items():
            self.clients[name] = SyncClient.from_kubeconfig(plane.kubeconfig)
            self.corral(name, "controllers", "install", *(part for group in GROUPS for part in ("--group", group)))
            kubectl(plane, "apply", "--filename=-", given=yaml.safe_dump(runtime()))
            self.led[name] = self._leader_of(name, plane)
            self.led[name].start()
        self.corral("home", "clusters", "add", "away", "--worker-context", "away")
        play = [sys.executable, str(Path(__file__).with_name("play.py")), str(self.planes["away"].kubeconfig)]
        with (self.folder / "play.log").open("wb") as output:
            self._player = subprocess.Popen(play, stdout=output, stderr=output)
        self._make_queues()

    def _leader_of(self, name: str, plane: ControlPlane) -> CorralHere | RealKueue:
        folder = self.folder / f"{name}-leader"
        if self._leads[name] == "kueue":
            return RealKueue(plane, folder, FRAMEWORKS)
        return CorralHere(plane, folder, "manager" if name == "home" else "worker")

    def _make_queues(self) -> None:
        kubectl(self.planes["home"], "apply", "--filename=-", given=yaml.safe_dump(CHECK))
        for name in self.planes:
            check = ("--admission-check", "multikueue") if name == "home" else ()
            self.corral(name, "queue", "create", "resourceflavor", "default")
            self.corral(name, "queue", "create", "clusterqueue", "team", "--nominal-quota", "default:cpu=4", *check)
            self.corral(name, "queue", "create", "localqueue", "team", "--clusterqueue", "team")
        for name in self.planes:
            self.eventually(lambda name=name: self._is_active(name), f"the queue of {name}")

    def corral(self, context: str, *arguments: str) -> None:
        command = [sys.executable, "-m", "corral", *arguments, "--context", context]
        environment = {**os.environ, "KUBECONFIG": str(self.folder / "kubeconfig")}
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)
        assert done.returncode == 0, f"{' '.join(arguments)}: {done.stdout}{done.stderr}"

    def _is_active(self, name: str) -> bool:
        return conditions.is_true(self.clients[name].get(CLUSTER_QUEUES, "team"), "Active")

    def is_connected(self) -> bool:
        return conditions.is_true(self.clients["home"].get(MULTI_KUEUE_CLUSTERS, "away"), "Active")

    def eventually(self, question: Callable[[], object], what: str, seconds: float = waiting.PATIENCE_S) -> None:
        try:
            waiting.eventually(lambda: self._revive() and question(), seconds, what=what, failing=FAILING)
        except AssertionError as error:
            ends = [f"{name}: …{led.log.read_text()[-2000:]}" for name, led in self.led.items() if led.log.exists()]
            raise AssertionError("\n".join([str(error), *ends])) from error

    def _revive(self) -> bool:
        """Kueue ends when it loses its Lease; its Deployment would start it again."""
        for led in self.led.values():
            if not led.is_running:
                led.start()
        return True

    def run(self, example: Example, suffix: str = "") -> None:
        """Submit one job and follow it until its end is told at home and nothing of it is left on the worker."""
        home, resource = self.clients["home"], example.resource
        made = [self._submit(home, resource, manifest, suffix) for manifest in example.manifests]
        self.eventually(
            lambda: all(example.succeeded(home.get(resource, name, "default")) for name in made),
            f"the end of {', '.join(made)}",
            240,
        )
        self.eventually(lambda: not self._left_over(resource), f"the end of the copy of {', '.join(made)}")

    def _submit(self, home: SyncClient, resource: Resource, manifest: Obj, suffix: str) -> str:
        """As webhooks at home would leave it."""
        name = manifest["metadata"]["name"] + suffix
        made = {**manifest, "metadata": {**manifest["metadata"], "name": name}}
        if resource == PODS:
            home.create(resource, held(made, suffix))
        else:
            home.create(resource, suspended(resource, made, "kueue.x-k8s.io/multikueue"))
        return name

    @property
    def kinds(self) -> list[Example]:
        return [each for each in KINDS if self._leads["away"] == "corral" or each.resource not in PREPARED_BY_KUEUE]

    def _left_over(self, resource: Resource) -> list[Obj]:
        return [each for kind in (resource, WORKLOADS) for each in self.clients["away"].list(kind)["items"]]

    def stop(self) -> None:
        for led in self.led.values():
            led.stop()
        if self._player is not None:
            self._player.terminate()
            self._player.wait(30)
        for client in self.clients.values():
            client.close()
        for plane in self.planes.values():
            plane.stop()


@pytest.fixture(params=["corral", "kueue"], ids=["corral-sends-to-kueue", "kueue-sends-to-corral"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    made = Pair(tmp_path, request.param)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def test_jobs_of_every_kind_go_from_one_to_the_other_and_a_lost_worker_is_taken_back(pair: Pair) -> None:
    pair.eventually(pair.is_connected, "the first connection")
    for example in pair.kinds:
        pair.run(example)
    pair.planes["away"].kill_server()
    pair.eventually(lambda: not pair.is_connected(), "noticing that the worker is gone")
    pair.planes["away"].start_server()
    pair.eventually(pair.is_connected, "the connection to the worker that is back")
    for example in pair.kinds:
        pair.run(example, "-again")
