"""Processes of controllers over a real kube-apiserver: roles and Leases, a killed leader, a changed configuration, metrics."""

from __future__ import annotations

import asyncio
import re
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from accounts import account_of, kubectl, start_corral
from cluster import TOKEN, USER_TOKEN, ControlPlane, eventually, programs
from test_dispatch import make_queue

from corral.client.http import HttpClient
from corral.clusters.definitions import install
from corral.clusters.process.configuration_in_force import CONFIG_KEY, CONFIG_MAP
from corral.core import conditions
from corral.core.meta import Obj, spec_of
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.fleet import CLUSTER_PROFILES, CLUSTER_RESOURCE_PLACEMENTS, INTERNAL_MEMBER_CLUSTERS, MEMBER_CLUSTERS
from corral.kinds.kubernetes.coordination import LEASES
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, NAMESPACES
from corral.kinds.kueue import WORKLOADS
from corral.runtime.clock import WallClock

BINARIES = programs()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(BINARIES is None, reason="no real kube-apiserver here; `make kube-tools` builds one"),
    pytest.mark.timeout(900),
]
LEASE = "corral-controllers"
FLEET = ("placement.kubernetes-fleet.io", "cluster.kubernetes-fleet.io", "multicluster.x-k8s.io")
MANY = 200


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    assert BINARIES is not None
    made = ControlPlane("process", tmp_path_factory.mktemp("plane"), BINARIES)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="module")
def account(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return account_of(plane, "manager", tmp_path_factory.mktemp("account") / "kubeconfig")


@asynccontextmanager
async def client_of(plane: ControlPlane) -> AsyncIterator[HttpClient]:
    client = HttpClient.from_kubeconfig(plane.kubeconfig)
    try:
        await install(client, groups=("kueue.x-k8s.io", *FLEET))
        await eventually(lambda: _lists(client))
        yield client
    finally:
        await client.close()


async def _lists(client: HttpClient) -> bool:
    await client.list(WORKLOADS)
    await client.list(CLUSTER_RESOURCE_PLACEMENTS)
    return True


async def _holder(client: HttpClient, name: str = LEASE, namespace: str = "kueue-system") -> str:
    return str(spec_of(await client.get(LEASES, name, namespace)).get("holderIdentity") or "")


def job(name: str, queue: str) -> Obj:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    labels = {"kueue.x-k8s.io/queue-name": queue}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"suspend": True, "template": template},
    }


async def _admitted(client: HttpClient) -> list[Obj]:
    return [each for each in (await client.list(WORKLOADS)).items if conditions.is_true(each, "Admitted")]


class Replicas:
    """Processes of controllers, with what they say."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._folder, self._arguments = folder, arguments
        self.running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self) -> subprocess.Popen[bytes]:
        log = self._folder / f"log{len(list(self._folder.glob('log*')))}"
        process = start_corral(log, "controllers", "run", *self._arguments)
        self.running[process.pid] = process
        return process

    def said(self) -> str:
        return "".join(log.read_text() for log in sorted(self._folder.glob("log*")))

    def leader(self, holder: str) -> subprocess.Popen[bytes] | None:
        return self.running.get(int(holder.rpartition("_")[2] or 0))

    def stop(self) -> None:
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait(60)


async def test_a_leader_killed_among_many_jobs_is_soon_missed_and_nothing_is_lost_or_done_twice(
    plane: ControlPlane, account: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "configuration.yaml"
    config.write_text("integrations: {frameworks: [batch/job]}")
    replicas = Replicas(tmp_path, "--roles=queueing,dispatch", f"--kubeconfig={account}", f"--config={config}")
    async with client_of(plane) as client:
        try:
            replicas.start(), replicas.start()
            await make_queue(client, str(MANY), [])
            first = await eventually(lambda: _holder(client))
            for number in range(MANY):
                await client.create(JOBS, job(f"job-{number}", "user-queue"))
                if number == MANY // 2:
                    await eventually(lambda: _admitted(client))
                    leader = replicas.leader(first)
                    assert leader is not None
                    leader.kill()
                    leader.wait(60)
                    missing = asyncio.ensure_future(_missed(client, len(await _admitted(client))))
            missed = await missing
            second = await eventually(lambda: _other(client, first))
            found = await eventually(lambda: _all_admitted(client))
            owners = [each["metadata"]["ownerReferences"][0]["name"] for each in found]
            assert sorted(owners) == sorted(f"job-{number}" for number in range(MANY))
            await eventually(lambda: _all_started(client))
            assert {await _holder(client, "corral-dispatch")} == {second}
            with capsys.disabled():
                print(f"\na leader was killed among {MANY} jobs; the next one admitted after {missed:.1f} s")
            last = replicas.leader(second)
            assert last is not None
            last.terminate()
            last.wait(60)
            assert await _holder(client) == "", "a Lease is given back by who is told to stop"
        finally:
            replicas.stop()
    assert "orbidden" not in replicas.said(), [line for line in replicas.said().splitlines() if "orbidden" in line][:5]


async def _missed(client: HttpClient, before: int) -> float:
    """How long nothing more is admitted."""
    killed = time.monotonic()
    await eventually(lambda: _more_admitted(client, before))
    return time.monotonic() - killed


async def _more_admitted(client: HttpClient, before: int) -> bool:
    return len(await _admitted(client)) > before


async def _other(client: HttpClient, first: str) -> str:
    holder = await _holder(client)
    return holder if holder != first else ""


async def _all_admitted(client: HttpClient) -> list[Obj]:
    found = await _admitted(client)
    return found if len(found) == MANY else []


async def _all_started(client: HttpClient) -> bool:
    ours = [each for each in (await client.list(JOBS)).items if each["metadata"]["name"].startswith("job-")]
    return len(ours) == MANY and not [each for each in ours if each["spec"]["suspend"]]


async def test_a_changed_config_map_is_taken_up_and_a_wrong_one_is_not(
    plane: ControlPlane, account: Path, tmp_path: Path
) -> None:
    metadata = {"name": CONFIG_MAP, "namespace": "kueue-system"}
    replicas = Replicas(tmp_path, "--roles=queueing", f"--kubeconfig={account}", "--log-format=json")
    async with client_of(plane) as client:
        data = {CONFIG_KEY: "integrations: {frameworks: [pod]}"}
        await client.create(CONFIG_MAPS, {"metadata": metadata, "data": data})
        try:
            replicas.start()
            await eventually(lambda: _holder(client))
            await client.create(JOBS, job("not-yet", "later"))
            await client.patch(CONFIG_MAPS, CONFIG_MAP, "kueue-system", {"data": {CONFIG_KEY: "integratoins: {}"}})
            await eventually(lambda: _says(replicas, '"message": "the changed configuration is not used"'))
            assert not await _workload_of(client, "not-yet")
            right = {CONFIG_KEY: "integrations: {frameworks: [batch/job]}"}
            await client.patch(CONFIG_MAPS, CONFIG_MAP, "kueue-system", {"data": right})
            await eventually(lambda: _workload_of(client, "not-yet"))
        finally:
            replicas.stop()
            await client.delete(CONFIG_MAPS, CONFIG_MAP, "kueue-system")


async def _says(replicas: Replicas, words: str) -> bool:
    return words in replicas.said()


async def _workload_of(client: HttpClient, name: str) -> list[Obj]:
    found = (await client.list(WORKLOADS)).items
    return [each for each in found if each["metadata"].get("ownerReferences", [{}])[0].get("name") == name]


def asked(port: int, path: str, token: str = "") -> tuple[int, str]:
    context = ssl._create_unverified_context()  # as kubelets and Prometheus do
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"https://127.0.0.1:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, context=context, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


async def test_health_is_told_to_everybody_and_metrics_to_whom_the_cluster_lets(
    plane: ControlPlane, account: Path, tmp_path: Path
) -> None:
    replicas = Replicas(tmp_path, "--roles=queueing", f"--kubeconfig={account}", "--status-port=0")
    async with client_of(plane) as client:
        try:
            replicas.start()
            await eventually(lambda: _holder(client))
            port = int(await eventually(lambda: _port(replicas)))
            await eventually(lambda: _is_answered(port, "/readyz"))
            assert await asyncio.to_thread(asked, port, "/healthz") == (200, "ok")
            assert (await asyncio.to_thread(asked, port, "/metrics"))[0] == 401
            code, text = await asyncio.to_thread(asked, port, "/metrics", USER_TOKEN)
            assert code == 403
            assert 'User \\"alice\\" cannot get path \\"/metrics\\"' in text
            for arguments in (
                ("clusterrole", "scraper", "--verb=get", "--non-resource-url=/metrics"),
                ("clusterrolebinding", "scraper", "--clusterrole=scraper", "--user=alice"),
            ):
                await asyncio.to_thread(kubectl, plane, "create", *arguments)
            for told in (
                'corral_leading{role="queueing"} 1.0',
                "corral_reconcile_total{",
                "process_resident_memory_bytes",
            ):
                await eventually(lambda told=told: _is_answered(port, "/metrics", USER_TOKEN, told))
            code, profile = await asyncio.to_thread(asked, port, "/debug/profile?seconds=0.3", TOKEN)
            assert (code, "run_forever" in profile or profile == "") == (200, True)
        finally:
            replicas.stop()
            for kind in ("clusterrolebinding", "clusterrole"):
                await asyncio.to_thread(kubectl, plane, "delete", kind, "scraper", "--ignore-not-found")


async def _port(replicas: Replicas) -> str:
    found = re.search(r"health and metrics are served port=(\d+)", replicas.said())
    return found[1] if found else ""


async def _is_answered(port: int, path: str, token: str = "", told: str = "") -> str:
    code, text = await asyncio.to_thread(asked, port, path, token)
    return text if code == 200 and told in text else ""


async def test_a_hub_places_on_its_members_with_the_roles_that_are_shipped(plane: ControlPlane, tmp_path: Path) -> None:
    """The member is a name: its Work is written into its namespace on the hub."""
    account = account_of(plane, "hub", tmp_path / "kubeconfig")
    config = tmp_path / "configuration.yaml"
    config.write_text("namespace: fleet-system")
    replicas = Replicas(tmp_path, "--roles=hub", f"--kubeconfig={account}", f"--config={config}")
    async with client_of(plane) as client:
        try:
            replicas.start()
            await eventually(lambda: _holder(client, "corral-hub", "fleet-system"))
            identity = {"kind": "ServiceAccount", "name": "agent", "namespace": "fleet-system"}
            await client.create(MEMBER_CLUSTERS, {"metadata": {"name": "one"}, "spec": {"identity": identity}})
            await eventually(lambda: client.get(NAMESPACES, "fleet-member-one"))
            await client.create(NAMESPACES, {"metadata": {"name": "placed"}})
            selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "placed"}
            spec = {"resourceSelectors": [selector], "policy": {"placementType": "PickAll"}}
            await client.create(CLUSTER_RESOURCE_PLACEMENTS, {"metadata": {"name": "all"}, "spec": spec})
            placement = await eventually(lambda: _scheduled(client))
            assert placement["status"]["selectedResources"][0]["name"] == "placed"
            await eventually(lambda: _joins(client))
            await eventually(lambda: _is_profiled(client))
        finally:
            replicas.stop()
    assert "orbidden" not in replicas.said(), [line for line in replicas.said().splitlines() if "orbidden" in line][:5]


async def _joins(client: HttpClient) -> bool:
    """Say what the agent of the member would say."""
    now = WallClock().timestamp()
    joined = {"type": "Joined", "status": "True", "reason": "Joined", "message": "", "lastTransitionTime": now}
    member = await client.get(INTERNAL_MEMBER_CLUSTERS, "one", "fleet-member-one")
    agents = [{"type": "MemberAgent", "conditions": [joined], "lastReceivedHeartbeat": now}]
    await client.update(INTERNAL_MEMBER_CLUSTERS, {**member, "status": {"agentStatus": agents}}, subresource="status")
    return True


async def _is_profiled(client: HttpClient) -> bool:
    profile = await client.get(CLUSTER_PROFILES, "one", "fleet-system")
    return conditions.find(profile, "ControlPlaneHealthy") is not None


async def _scheduled(client: HttpClient) -> Obj | None:
    found = await client.get(CLUSTER_RESOURCE_PLACEMENTS, "all")
    return found if conditions.find(found, "ClusterResourcePlacementScheduled") else None
