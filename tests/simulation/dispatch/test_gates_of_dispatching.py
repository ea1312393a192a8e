"""The gates of dispatching that a release of Kueue has on, and what happens with them off."""

from __future__ import annotations

import asyncio

import pytest
from tests.dispatching import Script, run_on_fleet

from corral.core.meta import Obj, annotations_of, labels_of, spec_of, status_of
from corral.decide.dispatch.model import ALL_AT_ONCE, INCREMENTAL
from corral.jobs.batch_job.kind import JOBS
from corral.jobs.framework.remote_copy import labelled
from corral.kinds.kueue import WORKLOADS, names
from corral.simulate.fleet import SimulatedFleet

from .small_jobs import job

CONFIG_ORDER = "MultiKueueIncrementalDispatcherRespectConfigOrder"
STEPS = "MultiKueueIncrementalDispatcherConfig"
FOUR = ("zeta", "worker1", "beta", "alpha")


def on_fleet(
    test: Script,
    gates: dict[str, bool],
    *,
    workers: tuple[str, ...] = ("worker1",),
    dispatcher: str = ALL_AT_ONCE,
    step: int = 3,
) -> None:
    dispatch = {"dispatcherName": dispatcher, "incrementalDispatcherConfig": {"stepSize": step}}
    configuration = {"featureGates": gates, "multiKueue": dispatch}
    run_on_fleet(test, configuration, workers=workers, manager_cpu="64")


async def nominated(fleet: SimulatedFleet) -> list[str]:
    await fleet.manager.client.create(JOBS, job(cpu="40", seconds=1000))
    await asyncio.sleep(3)
    (workload,) = (await fleet.manager.client.list(WORKLOADS)).items
    return list(status_of(workload)["nominatedClusterNames"])


@pytest.mark.parametrize(
    ("gates", "step", "expected"),
    [
        ({}, 3, ["zeta", "worker1", "beta"]),
        ({CONFIG_ORDER: False}, 3, ["alpha", "beta", "worker1"]),
        ({}, 2, ["zeta", "worker1"]),
        ({STEPS: False}, 2, ["zeta", "worker1", "beta"]),
    ],
)
def test_incremental_asks_in_the_order_and_number_its_gates_allow(
    gates: dict[str, bool], step: int, expected: list[str]
) -> None:
    async def check(fleet: SimulatedFleet) -> None:
        assert await nominated(fleet) == expected

    on_fleet(check, gates, workers=FOUR, dispatcher=INCREMENTAL, step=step)


async def remote_job(fleet: SimulatedFleet, wanted: Obj) -> Obj:
    await fleet.manager.client.create(JOBS, wanted)
    await asyncio.sleep(5)
    return await fleet.workers["worker1"].client.get(JOBS, wanted["metadata"]["name"], "default")


@pytest.mark.parametrize("annotates", [True, False])
def test_the_copy_of_a_job_names_its_workload_where_the_gate_says(annotates: bool) -> None:
    async def check(fleet: SimulatedFleet) -> None:
        made = await remote_job(fleet, job(seconds=1000))
        (workload,) = (await fleet.manager.client.list(WORKLOADS)).items
        with_name, without = annotations_of(made), labels_of(made)
        if not annotates:
            with_name, without = without, with_name
        assert with_name[names.PREBUILT_WORKLOAD] == workload["metadata"]["name"]
        assert names.PREBUILT_WORKLOAD not in without
        assert status_of(made)["active"] == 1

    on_fleet(check, {"WorkloadIdentifierAnnotations": annotates})


def test_a_name_too_long_for_a_label_stays_in_the_annotation() -> None:
    copy = {"metadata": {"name": "a", "annotations": {names.PREBUILT_WORKLOAD: "x" * 64}}}
    assert labelled(copy) == copy


@pytest.mark.parametrize("follows", [True, False])
def test_changes_of_a_running_job_follow_it_where_the_gate_is_open(follows: bool) -> None:
    async def check(fleet: SimulatedFleet) -> None:
        made = await remote_job(fleet, job(seconds=1000))
        assert spec_of(made)["backoffLimit"] == 0
        await fleet.manager.client.patch(JOBS, made["metadata"]["name"], "default", {"spec": {"backoffLimit": 9}})
        await asyncio.sleep(5)
        now = await fleet.workers["worker1"].client.get(JOBS, made["metadata"]["name"], "default")
        assert spec_of(now)["backoffLimit"] == (9 if follows else 0)

    on_fleet(check, {"MultiKueueRemoteSpecSync": follows})
