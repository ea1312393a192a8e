"""Fleets under faults: seeded random plans with invariants, and every known defect of hub-and-worker designs by name."""

from __future__ import annotations

import asyncio

import pytest
from tests.dispatching import Script, run_on_fleet
from tests.soaking import Tally, only_soaking

from corral.core import conditions
from corral.core.meta import Obj, labels_of, name_of, spec_of, status_of, uid_of
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.core.kinds import PODS, SECRETS
from corral.kinds.kueue import ADMISSION_CHECKS, CLUSTER_QUEUES, MULTI_KUEUE_CLUSTERS, MULTI_KUEUE_CONFIGS, WORKLOADS
from corral.simulate.cluster import SimulatedCluster
from corral.simulate.fleet import SimulatedFleet, kubeconfig_data
from corral.testing.faults import KINDS, MEMBERSHIP_FAULTS, run_with_faults

CHUNK = 5
SEEDS = 100
FENCED = tuple(kind for kind in KINDS if kind not in ("crash without disk", "delete copy", "delete remote job"))
"""With fencing no job may ever run twice, so these are left out: they make a worker forget what it runs."""


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_jobs_survive_random_faults(first: int) -> None:
    for seed in range(first, first + CHUNK):
        story = run_with_faults(seed)
        assert not story.broken, str(story)


@only_soaking("seeds of dispatch faults", first=SEEDS)
def test_jobs_survive_many_random_faults(seeds: range, tally: Tally) -> None:
    for seed in seeds:
        if seed % 4 == 3:
            story = run_with_faults(seed, max_jobs=50, kinds=FENCED, configuration={"corral": {"fencing": True}})
        else:
            story = run_with_faults(seed, max_jobs=50)
        assert not story.broken, str(story)
    tally("seeds of dispatch faults", len(seeds))


@pytest.mark.parametrize("first", range(0, 10, CHUNK))
def test_with_fencing_no_job_ever_runs_twice(first: int) -> None:
    for seed in range(first, first + CHUNK):
        story = run_with_faults(seed, kinds=FENCED, configuration={"corral": {"fencing": True}})
        assert not story.broken, str(story)


@pytest.mark.parametrize("first", range(0, 10, CHUNK))
def test_jobs_survive_workers_that_are_removed_and_added_again(first: int) -> None:
    for seed in range(first, first + CHUNK):
        story = run_with_faults(seed, kinds=(*MEMBERSHIP_FAULTS, *MEMBERSHIP_FAULTS, *KINDS))
        assert not story.broken, str(story)


BY_HAND = (*MEMBERSHIP_FAULTS, "rotate credentials", "take out of the config", "deactivate", "manager crash")


@pytest.mark.parametrize("first", range(0, 10, CHUNK))
def test_a_plan_does_not_fail_because_of_what_its_own_steps_have_removed(first: int) -> None:
    for seed in range(first, first + CHUNK):
        story = run_with_faults(seed, kinds=BY_HAND)
        assert not story.broken, str(story)


# Known defects of others


def job(name: str = "a", *, cpu: str = "1", seconds: int = 100_000) -> Obj:
    container = {"name": "c", "image": "busybox", "command": ["sleep"], "resources": {"requests": {"cpu": cpu}}}
    template = {
        "metadata": {"annotations": {"corral.dev/run-seconds": str(seconds)}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    labels = {"kueue.x-k8s.io/queue-name": "user-queue"}
    return {
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"suspend": True, "template": template},
    }


def on_fleet(test: Script, *, frameworks: tuple[str, ...] = ("batch/job",), lost: str = "60s", **own: object) -> None:
    configuration = {
        "integrations": {"frameworks": list(frameworks)},
        "multiKueue": {"workerLostTimeout": lost, "gcInterval": "15s"},
        "corral": own,
    }
    run_on_fleet(test, configuration)


async def the_workload(cluster: SimulatedCluster) -> Obj:
    (found,) = (await cluster.client.list(WORKLOADS)).items
    return found


async def where(fleet: SimulatedFleet) -> str:
    return str(status_of(await the_workload(fleet.manager)).get("clusterName") or "")


def test_a_hung_worker_does_not_block_the_others() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        fleet.links["worker1"].set(hung=True)
        for number in range(4):
            await fleet.manager.client.create(JOBS, job(f"j{number}", seconds=2))
        await asyncio.sleep(90)
        jobs = (await fleet.manager.client.list(JOBS)).items
        assert [conditions.is_true(held, "Complete") for held in jobs] == [True] * 4

    on_fleet(check)


def test_a_short_reconnect_does_not_evict() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(2)
        first = await where(fleet)
        remote = uid_of(await fleet.workers[first].client.get(JOBS, "a", "default"))
        fleet.links[first].set(cut=True)
        await asyncio.sleep(10)
        fleet.links[first].set()
        await asyncio.sleep(120)
        assert await where(fleet) == first
        assert conditions.find(await the_workload(fleet.manager), "Evicted") is None
        assert uid_of(await fleet.workers[first].client.get(JOBS, "a", "default")) == remote

    on_fleet(check)


def test_changed_connection_settings_do_not_strand_jobs() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job(seconds=60))
        await asyncio.sleep(2)
        first = await where(fleet)
        data = {"kubeconfig": kubeconfig_data(first, token="new")}
        await fleet.manager.client.patch(SECRETS, f"{first}-secret", "kueue-system", {"data": data})
        await asyncio.sleep(100)
        assert conditions.is_true(await fleet.manager.client.get(JOBS, "a", "default"), "Complete")
        assert conditions.find(await the_workload(fleet.manager), "Evicted") is None

    on_fleet(check)


def test_swapping_credentials_under_load_loses_nothing() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        for number in range(20):
            await fleet.manager.client.create(JOBS, job(f"j{number}", seconds=3))
            data = {"kubeconfig": kubeconfig_data("worker1", token=str(number))}
            await fleet.manager.client.patch(SECRETS, "worker1-secret", "kueue-system", {"data": data})
            await asyncio.sleep(0.3)
        await asyncio.sleep(120)
        jobs = (await fleet.manager.client.list(JOBS)).items
        assert all(conditions.is_true(held, "Complete") for held in jobs)

    on_fleet(check)


def test_out_of_sync_is_not_mirrored_as_finished() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(2)
        worker = fleet.workers[await where(fleet)]
        copy = await the_workload(worker)
        entry = conditions.condition("Finished", True, "OutOfSync", "the prebuilt workload is out of sync")
        held = conditions.set_condition(status_of(copy).get("conditions") or [], entry, worker.clock.timestamp())
        patch = {"status": {"conditions": held}}
        await worker.client.patch(WORKLOADS, name_of(copy), "default", patch, subresource="status")
        await asyncio.sleep(30)
        assert not conditions.is_true(await the_workload(fleet.manager), "Finished")
        assert status_of(await fleet.manager.client.get(JOBS, "a", "default"))["active"] == 1

    on_fleet(check)


def test_obsolete_copies_on_a_worker_that_was_away_are_removed() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(2)
        first = await where(fleet)
        fleet.links[first].set(cut=True)
        await asyncio.sleep(1)
        await fleet.manager.client.delete(JOBS, "a", "default", propagation="Background")
        await asyncio.sleep(30)
        assert (await fleet.manager.client.list(WORKLOADS)).items == []
        fleet.links[first].set()
        await asyncio.sleep(60)
        assert (await fleet.workers[first].client.list(WORKLOADS)).items == []
        assert (await fleet.workers[first].client.list(JOBS)).items == []

    on_fleet(check)


def test_an_unrelated_remote_job_of_the_same_name_is_not_touched() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        local = job()
        local["metadata"]["labels"] = {}
        made = {}
        for name, worker in fleet.workers.items():
            made[name] = uid_of(await worker.client.create(JOBS, local))
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(20)
        await fleet.manager.client.delete(JOBS, "a", "default", propagation="Background")
        await asyncio.sleep(60)
        for name, worker in fleet.workers.items():
            assert uid_of(await worker.client.get(JOBS, "a", "default")) == made[name]

    on_fleet(check)


def test_copied_metadata_makes_no_create_and_delete_loops() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        marked = job()
        marked["metadata"]["labels"]["team"] = "a"
        marked["metadata"]["annotations"] = {"kueue.x-k8s.io/x": "y", "note": "z"}
        await fleet.manager.client.create(JOBS, marked)
        await asyncio.sleep(3)
        remote = await fleet.workers[await where(fleet)].client.get(JOBS, "a", "default")
        await asyncio.sleep(120)
        later = await fleet.workers[await where(fleet)].client.get(JOBS, "a", "default")
        assert (uid_of(later), later["metadata"]["generation"]) == (uid_of(remote), remote["metadata"]["generation"])

    on_fleet(check)


def test_nominations_of_clusters_that_left_are_withdrawn() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job(cpu="12"))
        await asyncio.sleep(2)
        assert status_of(await the_workload(fleet.manager))["nominatedClusterNames"] == ["worker1", "worker2"]
        patch = {"spec": {"clusters": ["worker2"]}}
        await fleet.manager.client.patch(MULTI_KUEUE_CONFIGS, "multikueue", "", patch)
        await asyncio.sleep(5)
        assert status_of(await the_workload(fleet.manager))["nominatedClusterNames"] == ["worker2"]
        assert (await fleet.workers["worker1"].client.list(WORKLOADS)).items == []

    on_fleet(check)


def test_an_evicted_workload_is_not_marked_admitted() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        await fleet.manager.client.create(JOBS, job())
        await asyncio.sleep(2)
        held = await the_workload(fleet.manager)
        await fleet.manager.client.patch(WORKLOADS, name_of(held), "default", {"spec": {"active": False}})
        for _ in range(40):
            await asyncio.sleep(0.5)
            held = await the_workload(fleet.manager)
            evicted, admitted = conditions.is_true(held, "Evicted"), conditions.is_true(held, "Admitted")
            assert not (evicted and admitted and not conditions.is_true(held, "QuotaReserved"))
        assert conditions.is_false(held, "QuotaReserved")
        assert not conditions.is_true(held, "Admitted")

    on_fleet(check)


def test_pods_that_run_elsewhere_stay_gated_on_the_manager() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
        labels = {"kueue.x-k8s.io/queue-name": "user-queue"}
        pod = {"metadata": {"name": "p", "namespace": "default", "labels": labels}, "spec": {"containers": [container]}}
        await fleet.manager.client.create(PODS, pod)
        await asyncio.sleep(10)
        local = await fleet.manager.client.get(PODS, "p", "default")
        assert status_of(local)["phase"] == "Running"
        assert spec_of(local)["schedulingGates"]
        assert not spec_of(local).get("nodeName")

    on_fleet(check, frameworks=("batch/job", "pod"))


def test_a_job_does_not_start_before_the_other_checks_are_ready() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        client = fleet.manager.client
        await client.create(ADMISSION_CHECKS, {"metadata": {"name": "gate"}, "spec": {"controllerName": "x.io/gate"}})
        active = {"status": {"conditions": [conditions.condition("Active", True, "Active", "ok")]}}
        active["status"]["conditions"][0]["lastTransitionTime"] = fleet.manager.clock.timestamp()
        await client.patch(ADMISSION_CHECKS, "gate", "", active, subresource="status")
        checks = {"admissionChecks": [{"name": "multikueue"}, {"name": "gate"}]}
        await client.patch(CLUSTER_QUEUES, "cluster-queue", "", {"spec": {"admissionChecksStrategy": checks}})
        await asyncio.sleep(1)
        await client.create(JOBS, job())
        await asyncio.sleep(10)
        assert not any([(await worker.client.list(WORKLOADS)).items for worker in fleet.workers.values()])
        held = await the_workload(fleet.manager)
        states = [
            {**state, "state": "Ready"} if state["name"] == "gate" else state
            for state in status_of(held)["admissionChecks"]
        ]
        await client.patch(
            WORKLOADS, name_of(held), "default", {"status": {"admissionChecks": states}}, subresource="status"
        )
        await asyncio.sleep(10)
        assert await where(fleet) != ""

    on_fleet(check)


def test_names_over_63_characters_are_dispatched() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        name = "a" * 63
        await fleet.manager.client.create(JOBS, job(name, seconds=2))
        await asyncio.sleep(30)
        assert conditions.is_true(await fleet.manager.client.get(JOBS, name, "default"), "Complete")

    on_fleet(check)


def test_a_kubeconfig_path_cannot_lead_out_of_its_directory() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        location = "/etc/multikueue/kubeconfigs/../../passwd"
        source = {"kubeConfig": {"location": location, "locationType": "Path"}}
        await fleet.manager.client.create(
            MULTI_KUEUE_CLUSTERS, {"metadata": {"name": "w"}, "spec": {"clusterSource": source}}
        )
        await asyncio.sleep(2)
        entry = conditions.find(await fleet.manager.client.get(MULTI_KUEUE_CLUSTERS, "w"), "Active")
        assert entry is not None
        assert (entry["reason"], "must not lead out" in entry["message"]) == ("BadKubeConfig", True)

    on_fleet(check)


def test_two_managers_share_workers_without_touching_each_other() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        worker = fleet.workers["worker1"]
        foreign = job("theirs")
        foreign["metadata"]["labels"]["kueue.x-k8s.io/multikueue-origin"] = "other"
        made = await worker.client.create(JOBS, foreign)
        await fleet.manager.client.create(JOBS, job("a", seconds=3))
        await asyncio.sleep(60)
        kept = await worker.client.get(JOBS, "theirs", "default")
        assert uid_of(kept) == uid_of(made)
        assert labels_of(kept)["kueue.x-k8s.io/multikueue-origin"] == "other"

    on_fleet(check)


def test_a_slow_worker_does_not_block_the_others() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        fleet.links["worker1"].set(delay=8.0)
        started = asyncio.get_running_loop().time()
        for number in range(4):
            await fleet.manager.client.create(JOBS, job(f"j{number}", seconds=2))
        while True:
            await asyncio.sleep(1)
            jobs = (await fleet.manager.client.list(JOBS)).items
            if all(conditions.is_true(held, "Complete") for held in jobs):
                break
        assert asyncio.get_running_loop().time() - started < 60

    on_fleet(check)


def test_a_slice_that_takes_over_deletes_nothing_that_runs() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        client = fleet.manager.client
        elastic = job(seconds=40)
        elastic["metadata"]["annotations"] = {"kueue.x-k8s.io/elastic-job": "true"}
        elastic["spec"].update(parallelism=2, completions=6, completionMode="Indexed")
        await client.create(JOBS, elastic)
        await asyncio.sleep(5)
        (cluster,) = {status_of(held).get("clusterName") for held in (await client.list(WORKLOADS)).items}
        worker = fleet.workers[cluster]
        remote = await worker.client.get(JOBS, "a", "default")
        before = {uid_of(pod) for pod in (await worker.client.list(PODS)).items}
        await client.patch(JOBS, "a", "default", {"spec": {"parallelism": 4}})
        await asyncio.sleep(10)
        grown = await worker.client.get(JOBS, "a", "default")
        assert (uid_of(grown), spec_of(grown)["parallelism"]) == (uid_of(remote), 4)
        running = {uid_of(pod) for pod in (await worker.client.list(PODS)).items}
        assert before < running
        assert len(running) == 4
        assert status_of(await client.get(JOBS, "a", "default"))["active"] == 4
        await client.patch(JOBS, "a", "default", {"spec": {"parallelism": 1}})
        await asyncio.sleep(10)
        assert uid_of(await worker.client.get(JOBS, "a", "default")) == uid_of(remote)
        assert status_of(await client.get(JOBS, "a", "default"))["active"] == 1
        await asyncio.sleep(400)
        assert conditions.is_true(await client.get(JOBS, "a", "default"), "Complete")
        for other in fleet.workers.values():
            assert (await other.client.list(WORKLOADS)).items == []
            assert (await other.client.list(JOBS)).items == []

    on_fleet(check)


def test_a_job_that_starts_anew_elsewhere_keeps_what_was_counted() -> None:
    async def check(fleet: SimulatedFleet) -> None:
        client = fleet.manager.client
        again = job(seconds=50)
        again["spec"].update(backoffLimit=5, completions=3, parallelism=1)
        await client.create(JOBS, again)
        await asyncio.sleep(5)
        first = await where(fleet)
        (pod,) = (await fleet.workers[first].client.list(PODS)).items
        await fleet.workers[first].client.delete(PODS, name_of(pod), "default")
        await asyncio.sleep(80)
        before = status_of(await client.get(JOBS, "a", "default"))
        assert (before["failed"], before["succeeded"]) == (1, 1)
        fleet.links[first].set(cut=True)
        await asyncio.sleep(400)
        assert await where(fleet) not in ("", first)
        held = await client.get(JOBS, "a", "default")
        assert conditions.is_true(held, "Complete")
        assert (status_of(held)["failed"], status_of(held)["succeeded"]) == (1, 3)

    on_fleet(check)
