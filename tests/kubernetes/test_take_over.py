"""A cluster moves from Kueue to Corral and back: never both lead, and no Workload is lost."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))

from accounts import account_of
from cluster import ControlPlane, eventually, programs
from job_examples import BATCH_JOBS, KINDS, PODS, runtime, suspended
from real_kueue import RealKueue, program
from test_dispatch import make_queue
from test_mixed import FRAMEWORKS, GROUPS
from test_process import Replicas, job

from corral.client.http import HttpClient
from corral.clusters.definitions import established, install
from corral.core import conditions
from corral.core.meta import Obj, name_of, spec_of, uid_of, with_labels
from corral.core.resource import Resource
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.coordination import LEASES
from corral.kinds.kueue import WORKLOADS
from corral.runtime.clock import WallClock

BINARIES = programs()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(BINARIES is None, reason="no real kube-apiserver here; `make kube-tools` builds one"),
    pytest.mark.timeout(900),
]
OF_OTHER_KINDS = [each for each in KINDS if each.resource not in (BATCH_JOBS, PODS)]
"""Pods of a group are gated by webhooks, which nobody has registered here."""
RUNTIMES = Resource("trainer.kubeflow.org", "v1alpha1", "clustertrainingruntimes", "ClusterTrainingRuntime", False)
KUEUES_LEASE = "c1f6bfd2.kueue.x-k8s.io"


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    assert BINARIES is not None
    made = ControlPlane("both", tmp_path / "plane", BINARIES)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@asynccontextmanager
async def client_of(plane: ControlPlane) -> AsyncIterator[HttpClient]:
    client = HttpClient.from_kubeconfig(plane.kubeconfig)
    try:
        made = await install(client, groups=GROUPS)
        assert not await established(client, WallClock(), made.created)
        await client.create(RUNTIMES, runtime())
        yield client
    finally:
        await client.close()


async def _lease(client: HttpClient) -> Obj:
    return await client.get(LEASES, KUEUES_LEASE, "kueue-system")


async def _is_held(client: HttpClient, by_corral: bool) -> bool:
    holder = str(spec_of(await _lease(client)).get("holderIdentity") or "")
    return bool(holder) and holder.startswith("corral:") == by_corral


async def _says(replicas: Replicas, words: str) -> bool:
    return words in replicas.said()


async def _admitted(client: HttpClient, *names: str) -> dict[str, str]:
    """The uids of the admitted Workloads of these jobs, when all of them have one."""
    found = {
        each["metadata"]["ownerReferences"][0]["name"]: uid_of(each)
        for each in (await client.list(WORKLOADS)).items
        if conditions.is_true(each, "Admitted")
    }
    return found if set(names) <= set(found) else {}


async def hold_as_kueue(client: HttpClient) -> None:
    """What client-go does with a Lease: renew it, and leave when somebody else has taken it."""
    metadata = {"name": KUEUES_LEASE, "namespace": "kueue-system"}
    spec = {"holderIdentity": "kueue-controller-manager-1", "leaseDurationSeconds": 15, "leaseTransitions": 0}
    await client.create(LEASES, {"metadata": metadata, "spec": spec})
    while True:
        lease = await _lease(client)
        if spec_of(lease)["holderIdentity"] != "kueue-controller-manager-1":
            return
        number = int(spec_of(lease)["leaseTransitions"]) + 1  # any change is a renewal
        await client.patch(LEASES, KUEUES_LEASE, "kueue-system", {"spec": {"leaseTransitions": number}})
        await asyncio.sleep(1)


async def test_corral_stands_back_from_a_leader_and_takes_over_when_it_is_told_to(
    plane: ControlPlane, tmp_path: Path
) -> None:
    account = account_of(plane, "worker", tmp_path / "account")
    config = tmp_path / "configuration.yaml"
    config.write_text("integrations: {frameworks: [batch/job]}")
    options = ("--roles=queueing", f"--kubeconfig={account}", f"--config={config}")
    async with client_of(plane) as client:
        kueue = asyncio.ensure_future(hold_as_kueue(client))
        await eventually(lambda: _is_held(client, by_corral=False))
        (tmp_path / "back").mkdir(), (tmp_path / "over").mkdir()
        back, over = Replicas(tmp_path / "back", *options), Replicas(tmp_path / "over", *options, "--take-over")
        try:
            back.start()
            await eventually(lambda: _says(back, "Kueue leads in this cluster (kueue-controller-manager-1 holds"))
            await make_queue(client, "9", [])
            await client.create(JOBS, job("one", "user-queue"))
            over.start()
            await eventually(lambda: _admitted(client, "one"))
            assert await _is_held(client, by_corral=True)
            await asyncio.wait_for(kueue, 60)
            assert "became leader" not in back.said()
        finally:
            kueue.cancel()
            back.stop()
            over.stop()
    assert "orbidden" not in back.said() + over.said()


@pytest.mark.skipif(program() is None, reason="no Kueue manager here; `make kueue` builds one")
async def test_a_cluster_moves_from_kueue_to_corral_and_back_without_losing_a_workload(
    plane: ControlPlane, tmp_path: Path
) -> None:
    account = account_of(plane, "worker", tmp_path / "account")
    config = tmp_path / "configuration.yaml"
    config.write_text(yaml.safe_dump({"integrations": {"frameworks": FRAMEWORKS}}))
    options = ("--roles=queueing", f"--kubeconfig={account}", f"--config={config}", "--take-over")
    others = [each.name for each in OF_OTHER_KINDS]
    async with client_of(plane) as client:
        kueue, corral = RealKueue(plane, tmp_path / "kueue", FRAMEWORKS), Replicas(tmp_path, *options)
        try:
            kueue.start()
            await eventually(lambda: _is_held(client, by_corral=False))
            await make_queue(client, "4", [])  # one, two and three, and a whole one for the others together
            for example in OF_OTHER_KINDS:
                (manifest,) = example.manifests
                await client.create(example.resource, in_queue(suspended(example.resource, manifest)))
            for name in ("one", "two"):
                await client.create(JOBS, job(name, "user-queue"))
            before = await eventually(lambda: _admitted(client, "one", "two", *others))

            corral.start()
            await eventually(lambda: _is_held(client, by_corral=True))
            await client.create(JOBS, job("three", "user-queue"))
            during = await eventually(lambda: _admitted(client, "one", "two", *others, "three"))
            await eventually(lambda: _has_ended(kueue))
            kueue.start()  # as its Deployment would: it waits for the Lease now
            await client.create(JOBS, job("four", "user-queue"))
            await eventually(lambda: _waits(client, "four"))

            corral.stop()
            await eventually(lambda: _is_held(client, by_corral=False))
            await client.delete(JOBS, "one", "default", propagation="Background")
            after = await eventually(lambda: _admitted(client, "two", *others, "three", "four"))
            assert before.items() <= during.items()
            assert {name: during[name] for name in ("two", *others, "three")}.items() <= after.items()
            evicted = [each for each in (await client.list(WORKLOADS)).items if conditions.find(each, "Evicted")]
            assert not evicted, "who had quota kept it all the time"
        except AssertionError as error:
            raise AssertionError(f"{error}\n{corral.said()[-2000:]}\n{kueue.log.read_text()[-2000:]}") from error
        finally:
            corral.stop()
            kueue.stop()


def in_queue(obj: Obj) -> Obj:
    return with_labels(obj, {"kueue.x-k8s.io/queue-name": "user-queue"})


async def _has_ended(kueue: RealKueue) -> bool:
    return not kueue.is_running


async def _waits(client: HttpClient, name: str) -> bool:
    return any(
        each["metadata"]["ownerReferences"][0]["name"] == name and conditions.find(each, "QuotaReserved")
        for each in (await client.list(WORKLOADS)).items
        if name_of(each)
    )
