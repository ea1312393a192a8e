"""The real side: Kueue's scheduler, built from its Go module, on a real API server.

There are no webhooks, because objects are sent complete, and no controllers of Kubernetes, because there are no pods.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import yaml
from tests.kubernetes.cluster import ControlPlane, programs
from tools.differential.player import Player, Record
from tools.differential.pulse import Pulse
from tools.differential.scenario import SETTINGS, Scenario

from corral.client.http import HttpClient
from corral.core.errors import ApiError
from corral.core.resource import Resource
from corral.runtime.clock import WallClock

MODULE = "sigs.k8s.io/kueue@v0.19.2"
HERE = Path(__file__).parent
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)
START_S = 180.0


def cache_folder() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "corral"


def missing() -> str:
    """What keeps the real side from running, in a sentence; nothing when it can."""
    if programs() is None:
        return "needs a real kube-apiserver and etcd: run `make kube-tools` and set KUBE_TOOLS"
    if not built().exists() and shutil.which("go") is None:
        return f"needs Go to build {MODULE}"
    return ""


def programs_folder() -> Path:
    """What was built from this version of Kueue."""
    return cache_folder() / "differential" / MODULE.rpartition("@")[2]


def built() -> Path:
    return programs_folder() / "corral-differential"


def source() -> Path:
    """A copy of Kueue's module that can be built in; Go's own copy is read-only."""
    target = cache_folder() / "acceptance" / MODULE.rpartition("/")[2]
    if not (target / "go.mod").exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        found = subprocess.run(
            ["go", "mod", "download", "-json", MODULE], check=True, stdout=subprocess.PIPE, cwd=target.parent
        )
        shutil.copytree(json.loads(found.stdout)["Dir"], target, copy_function=shutil.copyfile, dirs_exist_ok=True)
        for folder, _, _ in os.walk(target):
            Path(folder).chmod(0o755)
    return target


def build() -> Path:
    """The scheduler's program, built when there is none or its source is newer."""
    main = HERE / "scheduler" / "main.go"
    if not built().exists() or built().stat().st_mtime < main.stat().st_mtime:
        folder = source() / "cmd" / "corral-differential"
        folder.mkdir(exist_ok=True)
        shutil.copyfile(main, folder / "main.go")
        built().parent.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "GOFLAGS": "-buildvcs=false -mod=mod"}
        command = ["go", "build", "-o", str(built()), "./cmd/corral-differential"]
        subprocess.run(command, check=True, cwd=source(), env=environment)
    return built()


@contextlib.asynccontextmanager
async def cluster(settings: str) -> AsyncIterator[tuple[HttpClient, Pulse]]:
    """A real API server with Kueue's scheduler beside it, which is at work."""
    binaries = programs()
    assert binaries is not None, missing()
    program = build()
    with tempfile.TemporaryDirectory(prefix="corral-differential-", ignore_cleanup_errors=True) as folder:
        plane = ControlPlane("kueue", Path(folder) / "kueue", binaries)
        scheduler: subprocess.Popen[bytes] | None = None
        try:
            # Not in a thread: whoever ends this program must not leave one behind that starts more.
            plane.start(controllers=False, without=("ServiceAccount", "TaintNodesByCondition"))
            client = HttpClient.from_kubeconfig(plane.kubeconfig)
            await _install(client)
            scheduler = _start(program, settings, plane)
            pulse = Pulse(client, WallClock())
            await _until_it_schedules(pulse, scheduler, plane)
            beating = asyncio.create_task(pulse.go_on())
            yield client, pulse
            beating.cancel()
            await client.close()
        finally:
            if scheduler is not None:
                scheduler.kill()
                scheduler.wait(30)
            plane.stop()


async def _until_it_schedules(pulse: Pulse, scheduler: subprocess.Popen[bytes], plane: ControlPlane) -> None:
    await pulse.begin()
    try:
        await asyncio.wait_for(pulse.beat(), START_S)
    except TimeoutError:
        said = (plane.folder / "scheduler.log").read_text()[-2000:]
        raise SystemExit(f"Kueue's scheduler admits nothing (exit status {scheduler.poll()}):\n{said}") from None


def _start(program: Path, settings: str, plane: ControlPlane) -> subprocess.Popen[bytes]:
    document = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "clientConnection": {"qps": 1000, "burst": 2000},
        "controller": {"groupKindConcurrency": {"Workload.kueue.x-k8s.io": 5}},
        "integrations": {"frameworks": ["batch/job"]},
        **SETTINGS[settings],
    }
    config = plane.folder / "kueue.yaml"
    config.write_text(yaml.safe_dump(document))
    log = os.environ.get("DIFFERENTIAL_LOG")
    level = ["--level", "3"] if log else []
    command = [str(program), "--kubeconfig", str(plane.kubeconfig), "--config", str(config), *level]
    with Path(log or plane.folder / "scheduler.log").open("wb") as output:
        return subprocess.Popen(command, stdout=output, stderr=output)


async def _install(client: HttpClient) -> None:
    """The kinds of Kueue, as its module has them."""
    files = sorted((source() / "config" / "components" / "crd" / "bases").glob("*.yaml"))
    documents = [yaml.safe_load(file.read_text()) for file in files]
    for document in documents:
        await client.create(CRDS, document)
    wanted = {document["spec"]["names"]["plural"] for document in documents}
    groups = {document["spec"]["group"] for document in documents}
    while True:
        if wanted <= await _discovered(client, groups):
            break
        await asyncio.sleep(0.2)


async def _discovered(client: HttpClient, groups: Iterable[str]) -> set[str]:
    """The kinds that discovery tells of, which comes some time after a kind is established: Kueue's manager asks only once."""
    found: set[str] = set()
    for group in groups:
        try:
            versions = (await client.raw("GET", f"/apis/{group}"))["versions"]
            lists = [await client.raw("GET", f"/apis/{version['groupVersion']}") for version in versions]
        except ApiError:
            return set()
        found.update(kind["name"] for kinds in lists for kind in kinds["resources"])
    return found


async def play(settings: str, scenarios: Iterable[Scenario], at_once: int) -> AsyncIterator[Record]:
    """Records of scenarios that share their settings, as each one ends."""
    async with cluster(settings) as (client, pulse):
        player = Player(client, WallClock(), quiet_s=pulse.quiet_s, poll_s=0.2)
        following = asyncio.create_task(player.follow())
        lanes = asyncio.Semaphore(at_once)

        async def one(scenario: Scenario) -> Record:
            async with lanes:
                record = await player.play(scenario)
                await player.clean(scenario)
                return record

        playing = [asyncio.create_task(one(scenario)) for scenario in scenarios]
        try:
            for done in asyncio.as_completed(playing):
                yield await done
        finally:
            for task in (following, *playing):
                task.cancel()
