"""A fleet of real API servers, set up as the documentation says: jobs of every kind through webhooks, queues, dispatch and back;
preemption, quota, a lost worker, and a leader that is killed among two hundred jobs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))

from accounts import kubectl
from cluster import programs
from job_examples import KINDS, Example, batch_job, runtime
from tests import waiting
from whole_fleet import BATCH_JOBS, FAILING, LOST_S, WORKERS, RealFleet

from corral.core import conditions
from corral.core.errors import NotFound
from corral.core.meta import Obj, name_of, spec_of, status_of
from corral.core.resource import Resource
from corral.kinds.kubernetes.coordination import LEASES
from corral.kinds.kubernetes.core.kinds import EVENTS, PODS
from corral.kinds.kueue import CLUSTER_QUEUES, WORKLOADS

BINARIES = programs()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(BINARIES is None, reason="no real kube-apiserver here; `make kube-tools` builds one"),
    pytest.mark.timeout(900),
]
MANY = 200
ROOT = Path(__file__).parents[2]


def previous() -> str:
    """The commit to upgrade from: the one before, unless CORRAL_PREVIOUS names another."""
    revision = os.environ.get("CORRAL_PREVIOUS", "HEAD~1")
    found = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"], capture_output=True, text=True, check=False
    )  # fmt: skip
    return found.stdout.strip()


PREVIOUS = previous() if BINARIES is not None else ""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealFleet]:
    assert BINARIES is not None
    made = RealFleet(tmp_path_factory.mktemp("fleet"), BINARIES)
    try:
        made.start()
        for plane in made.planes.values():
            kubectl(plane, "apply", "--filename=-", given=yaml.safe_dump(runtime()))
        yield made
    finally:
        made.stop()
    told = [line for line in made.said().splitlines() if "orbidden" in line and not made.was_starting(line)]
    assert not told, told[:5]


def submit(fleet: RealFleet, resource: Resource, *manifests: Obj) -> None:
    for manifest in manifests:
        fleet.clients["manager"].create(resource, manifest)


def clean(fleet: RealFleet, resource: Resource, *names: str) -> None:
    """Delete jobs, and wait until nothing of them is left anywhere."""
    for name in names:
        try:
            fleet.clients["manager"].delete(resource, name, "default", propagation="Background")
        except NotFound:
            continue
    fleet.eventually(lambda: not fleet.clients["manager"].list(WORKLOADS)["items"], "the end of all Workloads")
    fleet.eventually(lambda: fleet.are_gone(resource, set(names)), "the end of all copies")


@pytest.mark.parametrize("example", KINDS, ids=lambda example: example.resource.kind)
def test_a_job_is_queued_sent_to_a_worker_run_and_its_end_is_told_at_home(fleet: RealFleet, example: Example) -> None:
    """Submitted as anybody would: not suspended, and without a word about who manages it."""
    manager, resource = fleet.clients["manager"], example.resource
    submit(fleet, resource, *example.manifests)
    workload = fleet.eventually(lambda: fleet.has(example.name, "Finished"), f"the end of {example.name}", 240)
    assert (conditions.find(workload, "Finished") or {})["reason"] == "Succeeded"
    assert status_of(workload)["clusterName"] in WORKERS
    names = [name_of(each) for each in example.manifests]
    for name in names:
        fleet.eventually(
            lambda name=name: example.succeeded(manager.get(resource, name, "default")), "its status at home"
        )
    fleet.eventually(lambda: fleet.are_gone(resource, {example.name, *names}), "the end of its copy")
    here = [name_of(pod) for pod in manager.list(PODS)["items"] if not spec_of(pod).get("schedulingGates")]
    assert set(here) <= (set(names) if resource == PODS else set()), "nothing of a job that is sent away runs at home"
    clean(fleet, resource, *names)


def test_what_exceeds_the_quota_waits_and_says_why_until_there_is_room(fleet: RealFleet) -> None:
    jobs = [batch_job(f"full-{number}", cpu="3", seconds="forever") for number in range(3)]
    submit(fleet, BATCH_JOBS, *jobs)
    names = [name_of(each) for each in jobs]
    try:
        fleet.eventually(lambda: sum(bool(fleet.has(name, "Admitted")) for name in names) == 2, "two that run")
        (waits,) = [name for name in names if not fleet.has(name, "QuotaReserved")]
        found = fleet.eventually(lambda: _message(fleet, waits, "QuotaReserved"), "a reason to wait")
        assert "insufficient unused quota for cpu in flavor default" in found
        assert "insufficient unused quota" in fleet.corral("explain", f"job/{waits}")
        ran = {fleet.workload_of(name)["status"]["clusterName"] for name in names if name != waits}  # type: ignore[index]
        assert ran == set(WORKERS), "neither worker has room for two"
        fleet.eventually(
            lambda: _reserved(fleet) == "6", "both in the status of the queue, which is counted once a second"
        )
        first = next(name for name in names if name != waits)
        fleet.clients["manager"].delete(BATCH_JOBS, first, "default", propagation="Background")
        fleet.eventually(lambda: fleet.has(waits, "Admitted"), "the admission of the one that waited")
    finally:
        clean(fleet, BATCH_JOBS, *names)


def _reserved(fleet: RealFleet) -> str:
    (usage,) = fleet.clients["manager"].get(CLUSTER_QUEUES, "team")["status"]["flavorsReservation"]
    return str(usage["resources"][0]["total"])


def _message(fleet: RealFleet, name: str, condition: str) -> str:
    workload = fleet.workload_of(name)
    return str(((conditions.find(workload, condition) if workload else None) or {}).get("message") or "")


def test_a_job_of_higher_priority_takes_the_place_of_another_here_and_on_the_worker(fleet: RealFleet) -> None:
    for plane in fleet.planes.values():
        kubectl(plane, "apply", "--filename=-", given=yaml.safe_dump(PRIORITY))
    low = [batch_job(f"low-{number}", cpu="4", seconds="forever") for number in range(2)]
    high = batch_job("high", cpu="4", seconds="1", labels={"kueue.x-k8s.io/priority-class": "urgent"})
    names = [name_of(each) for each in low]
    submit(fleet, BATCH_JOBS, *low)
    try:
        fleet.eventually(lambda: all(fleet.has(name, "Admitted") for name in names), "two that run")
        submit(fleet, BATCH_JOBS, high)
        fleet.eventually(lambda: fleet.has("high", "Finished"), "the end of the urgent one")
        told = [
            each for each in fleet.clients["manager"].list(EVENTS, "default")["items"] if each["reason"] == "Preempted"
        ]
        assert told, "an Event says who was preempted"
        fleet.eventually(lambda: all(fleet.has(name, "Admitted") for name in names), "both running again")
    finally:
        clean(fleet, BATCH_JOBS, "high", *names)


PRIORITY: Obj = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "WorkloadPriorityClass",
    "metadata": {"name": "urgent"},
    "value": 1000,
}


def test_jobs_of_a_worker_that_is_lost_run_elsewhere_and_it_is_taken_back(fleet: RealFleet) -> None:
    submit(fleet, BATCH_JOBS, batch_job("lost", cpu="1", seconds="forever"))
    try:
        admitted = fleet.eventually(lambda: fleet.has("lost", "Admitted"), "its admission")
        first = status_of(admitted)["clusterName"]
        (other,) = set(WORKERS) - {first}
        fleet.kill_server(first)
        try:
            fleet.eventually(lambda: not fleet.is_connected(first), f"noticing that {first} is gone")
            submit(fleet, BATCH_JOBS, batch_job("meanwhile"))
            fleet.eventually(lambda: fleet.has("meanwhile", "Finished"), "a job while a worker is away")
            fleet.eventually(lambda: _runs_on(fleet, "lost", other), "the lost job on the other worker", 60 + LOST_S)
        finally:
            fleet.start_server(first)
        fleet.eventually(lambda: fleet.is_connected(first), f"connection to {first} again")
        fleet.eventually(lambda: not _copies(fleet, first), "the end of the copy that was left there")
        assert _runs_on(fleet, "lost", other), "and it runs on where it is"
    finally:
        clean(fleet, BATCH_JOBS, "lost", "meanwhile")


def _runs_on(fleet: RealFleet, name: str, worker: str) -> bool:
    workload = fleet.has(name, "Admitted")
    return workload is not None and status_of(workload).get("clusterName") == worker


def _copies(fleet: RealFleet, worker: str) -> list[Obj]:
    return [each for each in fleet.clients[worker].list(BATCH_JOBS)["items"] if name_of(each) == "lost"]


def test_a_leader_killed_among_many_jobs_is_soon_missed_and_each_runs_once(
    fleet: RealFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    """On the manager, while they are dispatched: each is admitted by one worker, runs there once, and ends."""
    first, second = fleet.processes["manager"][0], fleet.start_controllers("manager")
    names = [f"many-{number}" for number in range(MANY)]
    manager = fleet.clients["manager"]
    for name in names[: MANY // 2]:
        submit(fleet, BATCH_JOBS, batch_job(name, cpu="100m", seconds="0"))
    fleet.eventually(lambda: 0 < _finished(fleet) < MANY, "the end of the first")
    first.kill()
    first.wait(60)
    killed = time.monotonic()
    fleet.eventually(lambda: _leads(fleet, second.pid), "another leader")
    missed = time.monotonic() - killed
    for name in names[MANY // 2 :]:
        _submit_patiently(fleet, batch_job(name, cpu="100m", seconds="0"))
    fleet.eventually(lambda: _finished(fleet) == MANY, f"the end of all {MANY}", 400)
    with capsys.disabled():
        print(f"\na leader was killed among {MANY} dispatched jobs; the next one led after {missed:.1f} s")
    jobs = {name_of(each): each for each in manager.list(BATCH_JOBS)["items"]}
    assert sorted(jobs) == sorted(names)
    assert all(conditions.is_true(each, "Complete") for each in jobs.values())
    workloads = Counter(spec["metadata"]["ownerReferences"][0]["name"] for spec in manager.list(WORKLOADS)["items"])
    assert workloads == Counter(names), "one Workload each"
    assert _runs(fleet) == Counter(names), "each ran once, on one worker"
    fleet.processes["manager"].remove(first)
    clean(fleet, BATCH_JOBS, *names)


@pytest.mark.skipif(not PREVIOUS, reason="no previous commit here: set CORRAL_PREVIOUS, or have its history")
def test_controllers_of_the_previous_commit_and_of_this_one_take_over_from_each_other(
    fleet: RealFleet, tmp_path: Path
) -> None:
    """Back and forth, while a job runs and another waits: neither is touched, and what waited runs under whoever leads then."""
    source = tree_of(PREVIOUS, tmp_path)
    submit(fleet, BATCH_JOBS, batch_job("running", cpu="4", seconds="forever"))
    fleet.eventually(lambda: fleet.has("running", "Admitted"), "its admission")
    before = fleet.eventually(lambda: _identity(fleet, "running"), "its start")
    submit(fleet, BATCH_JOBS, batch_job("beside", cpu="4", seconds="forever"), batch_job("waits", cpu="4"))
    fleet.eventually(lambda: _message(fleet, "waits", "QuotaReserved"), "a reason to wait")
    try:
        _hand_over(fleet, source)
        assert _identity(fleet, "running") == before
        _submit_patiently(fleet, batch_job("under-previous", cpu="0"))
        fleet.eventually(lambda: fleet.has("under-previous", "Finished"), "a job under the previous version")
        waiting_uid = (fleet.workload_of("waits") or {})["metadata"]["uid"]
        _hand_over(fleet, None)
        fleet.clients["manager"].delete(BATCH_JOBS, "beside", "default", propagation="Background")
        finished = fleet.eventually(lambda: fleet.has("waits", "Finished"), "the one that waited, under this version")
        assert finished["metadata"]["uid"] == waiting_uid
        assert _identity(fleet, "running") == before
    finally:
        clean(fleet, BATCH_JOBS, "running", "beside", "waits", "under-previous")


def tree_of(revision: str, folder: Path) -> Path:
    """The sources of a commit, with what is generated into them, which no commit has."""
    command = ["git", "-C", str(ROOT), "archive", "--output", str(folder / "tree.tar"), revision, "src"]
    subprocess.run(command, check=True)
    shutil.unpack_archive(folder / "tree.tar", folder / "tree", filter="data")
    for generated in (ROOT / "src").glob("corral/**/*.json*"):
        copy = folder / "tree" / generated.relative_to(ROOT)
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(generated, copy)
    return folder / "tree" / "src"


def _hand_over(fleet: RealFleet, source: Path | None) -> None:
    """Replace every process, workers first, as `docs/install/day-two.md` says: the next is there before the last one ends."""
    for name in (*WORKERS, "manager"):
        _replace(fleet, name, source)


def _replace(fleet: RealFleet, name: str, source: Path | None) -> None:
    former = fleet.processes[name].copy()
    following = fleet.start_controllers(name, source)
    fleet.eventually(lambda: "webhooks are served" in fleet.said_by(following), f"readiness of {name}")
    for process in former:
        process.terminate()
        process.wait(60)
        fleet.processes[name].remove(process)
    fleet.eventually(lambda: _leads(fleet, following.pid, name), f"another leader of {name}")


def _identity(fleet: RealFleet, name: str) -> tuple[str, ...]:
    """What must not change: the Workload at home, its worker, and the job there; nothing before that has started."""
    workload = fleet.workload_of(name)
    assert workload is not None
    worker = status_of(workload)["clusterName"]
    job = fleet.clients[worker].get(BATCH_JOBS, name, "default")
    began = str(status_of(job).get("startTime") or "")
    return (workload["metadata"]["uid"], worker, job["metadata"]["uid"], began) if began else ()


def _submit_patiently(fleet: RealFleet, job: Obj) -> None:
    """As a user would whose API server cannot reach the webhook yet."""
    waiting.eventually(lambda: fleet.clients["manager"].create(BATCH_JOBS, job), what="creation", failing=FAILING)


def _finished(fleet: RealFleet) -> int:
    items = fleet.clients["manager"].list(WORKLOADS)["items"]
    return sum(conditions.is_true(each, "Finished") for each in items)


def _leads(fleet: RealFleet, pid: int, cluster: str = "manager") -> bool:
    lease = fleet.clients[cluster].get(LEASES, "corral-controllers", "kueue-system")
    return str(spec_of(lease).get("holderIdentity") or "").endswith(f"_{pid}")


def _runs(fleet: RealFleet) -> Counter[str]:
    """How often each of the many had a pod on any worker, by the Events that tell of pods made."""
    made: Counter[str] = Counter()
    for worker in WORKERS:
        for each in fleet.clients[worker].list(EVENTS, "default", fields="reason=SuccessfulCreate")["items"]:
            about = each["involvedObject"]
            if about["kind"] == "Job" and about["name"].startswith("many-"):
                made[about["name"]] += int(each.get("count") or 1)
    return made
