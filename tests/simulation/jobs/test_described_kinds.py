"""A kind with a definition and no code: the configuration says where its fields are, and it is queued and dispatched."""

from __future__ import annotations

import asyncio
import copy
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from corral.configuration.document import ConfigurationError, read_configuration
from corral.configuration.job_kinds import JobKindError, described_kinds, jobs_to_dispatch
from corral.configuration.queueing import load_config
from corral.core import conditions
from corral.core.meta import Obj, name_of, owner_ref, spec_of, status_of
from corral.core.resource import Resource
from corral.jobs.framework.described import described_job
from corral.jobs.framework.roles import worker_rules
from corral.kinds.kubernetes.apiextensions.kinds import CUSTOM_RESOURCE_DEFINITIONS
from corral.kinds.kueue import WORKLOADS, names
from corral.runtime.virtual import run_virtual
from corral.simulate.fleet import SimulatedFleet

RENDERS = Resource("studio.example.com", "v1", "renders", "Render")
DESCRIPTION: Obj = {
    "apiVersion": "studio.example.com/v1",
    "kind": "Render",
    "suspend": "spec.paused",
    "managedBy": "spec.managedBy",
    "podSets": [
        {"name": "director", "template": "spec.director"},
        {"name": "farm", "template": "spec.farm.template", "count": "spec.farm.machines"},
    ],
    "succeeded": {"path": "status.phase", "values": ["Done"], "message": "status.summary"},
    "failed": {"condition": "Broken"},
    "running": {"path": "status.phase", "values": ["Rendering", "Done"]},
    "status": ["phase", "summary", "conditions"],
}
CONFIGURATION: Obj = {"integrations": {"frameworks": ["batch/job"]}, "corral": {"jobKinds": [DESCRIPTION]}}
DEFINITION: Obj = {
    "metadata": {"name": "renders.studio.example.com"},
    "spec": {
        "group": "studio.example.com",
        "names": {"kind": "Render", "plural": "renders"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


ORIGIN = {names.MULTIKUEUE_ORIGIN: "multikueue"}


def template(cpu: str) -> Obj:
    return {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}}


def render() -> Obj:
    labels = {names.QUEUE_NAME: "user-queue"}
    spec = {"director": template("1"), "farm": {"machines": 3, "template": template("2")}}
    return {"metadata": {"name": "film", "namespace": "default", "labels": labels}, "spec": spec}


async def report(fleet: SimulatedFleet, worker: str, status: Obj) -> None:
    """What the kind's own operator would write on the worker."""
    client = fleet.workers[worker].client
    found = await client.get(RENDERS, "film", "default")
    await client.update(RENDERS, {**found, "status": status}, subresource="status")
    await asyncio.sleep(10)


def test_it_is_queued_dispatched_mirrored_and_finished() -> None:
    async def main() -> None:
        async with SimulatedFleet(configuration=CONFIGURATION, worker_configuration=CONFIGURATION) as fleet:
            for cluster in fleet.clusters:
                await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION)
            await fleet.introduce()
            await fleet.set_up_queues()
            await asyncio.sleep(30)
            await script(fleet)

    async def script(fleet: SimulatedFleet) -> None:
        manager = fleet.manager.client
        made = await manager.create(RENDERS, render())
        assert spec_of(made)["paused"] is True
        assert spec_of(made)["managedBy"] == names.MULTIKUEUE_CONTROLLER
        await asyncio.sleep(30)
        (workload,) = (await manager.list(WORKLOADS)).items
        sets = [(one["name"], one["count"]) for one in spec_of(workload)["podSets"]]
        assert sets == [("director", 1), ("farm", 3)]
        worker = status_of(workload)["clusterName"]
        there = await fleet.workers[worker].client.get(RENDERS, "film", "default")
        assert spec_of(there)["paused"] is False
        assert "managedBy" not in spec_of(there)

        await report(fleet, worker, {"phase": "Rendering", "internal": "not for home"})
        assert status_of(await manager.get(RENDERS, "film", "default")) == {"phase": "Rendering"}
        (workload,) = (await manager.list(WORKLOADS)).items
        assert not conditions.is_true(workload, "Finished")

        await report(fleet, worker, {"phase": "Done", "summary": "24 frames"})
        home = await manager.get(RENDERS, "film", "default")
        assert status_of(home) == {"phase": "Done", "summary": "24 frames"}
        (workload,) = (await manager.list(WORKLOADS)).items
        finished = conditions.find(workload, "Finished")
        assert finished is not None
        assert (finished["reason"], finished["message"]) == ("Succeeded", "24 frames")
        assert not (await fleet.workers[worker].client.list(RENDERS)).items

    run_virtual(main)


def queued_by_others(
    script: Callable[[SimulatedFleet], Awaitable[None]], stated: Any = names.MULTIKUEUE_CONTROLLER, **gates: bool
) -> None:
    """Play `script` where somebody else has made a Workload for a job that names its manager as `stated`."""
    external = {
        "multiKueue": {"externalFrameworks": [{"name": "Render.v1.studio.example.com"}]},
        "featureGates": gates,
    }

    async def main() -> None:
        async with SimulatedFleet(configuration=external, worker_configuration=CONFIGURATION) as fleet:
            for cluster in fleet.clusters:
                await cluster.client.create(CUSTOM_RESOURCE_DEFINITIONS, DEFINITION)
            await fleet.introduce()
            await fleet.set_up_queues()
            await asyncio.sleep(30)
            manager = fleet.manager.client
            job = render()
            job["spec"] |= {"paused": True} | ({} if stated is None else {"managedBy": stated})
            made = await manager.create(RENDERS, job)
            (kind,) = described_kinds(CONFIGURATION)
            pod_sets = described_job(kind).pod_sets(made, lambda resource, key: None)
            workload = {
                "metadata": {"name": "film", "namespace": "default", "ownerReferences": [owner_ref(made)]},
                "spec": {"queueName": "user-queue", "podSets": [pod_set.to_obj() for pod_set in pod_sets]},
            }
            await manager.create(WORKLOADS, workload)
            await asyncio.sleep(30)
            await script(fleet)

    run_virtual(main)


def test_a_kind_that_somebody_else_queues_is_dispatched_all_the_same() -> None:
    async def script(fleet: SimulatedFleet) -> None:
        manager = fleet.manager.client
        worker = status_of(await manager.get(WORKLOADS, "film", "default"))["clusterName"]
        await report(fleet, worker, {"phase": "Rendering"})
        assert status_of(await manager.get(RENDERS, "film", "default")) == {"phase": "Rendering"}
        await report(fleet, worker, {"phase": "Done", "summary": "24 frames"})
        assert status_of(await manager.get(RENDERS, "film", "default"))["summary"] == "24 frames"
        assert conditions.is_true(await manager.get(WORKLOADS, "film", "default"), "Finished")

    queued_by_others(script)


async def check_of(fleet: SimulatedFleet) -> tuple[str, str]:
    workload = await fleet.manager.client.get(WORKLOADS, "film", "default")
    (state,) = status_of(workload)["admissionChecks"]
    for worker in fleet.workers.values():
        assert (await worker.client.list(RENDERS)).items == (await worker.client.list(WORKLOADS)).items == []
    return state["state"], state["message"]


@pytest.mark.parametrize(
    ("stated", "shown"),
    [("other-controller", "other-controller"), (None, ""), ("not-a-string", "not-a-string"), (7, "7")],
    ids=["somebody else's", "nobody's", "unknown", "not a text"],
)
def test_a_job_of_such_a_kind_that_names_another_manager_is_rejected(stated: Any, shown: str) -> None:
    async def script(fleet: SimulatedFleet) -> None:
        expected = f'Expecting spec.managedBy to be "{names.MULTIKUEUE_CONTROLLER}" not "{shown}"'
        said = f'The owner is not managed by Kueue: {expected}, Previously: "Pending"'
        assert await check_of(fleet) == ("Rejected", said)

    queued_by_others(script, stated)


def test_such_a_kind_is_not_dispatched_while_its_gate_is_closed() -> None:
    async def script(fleet: SimulatedFleet) -> None:
        said = 'No multikueue adapter found for owner kind "studio.example.com/v1, Kind=Render", Previously: "Pending"'
        assert await check_of(fleet) == ("Rejected", said)

    queued_by_others(script, MultiKueueAdaptersForCustomJobs=False)


def test_a_job_on_a_worker_that_names_no_workload_disturbs_nobody() -> None:
    async def script(fleet: SimulatedFleet) -> None:
        manager = fleet.manager.client
        chosen = status_of(await manager.get(WORKLOADS, "film", "default"))["clusterName"]
        stray = render() | {"metadata": {"name": "stray", "namespace": "default", "labels": ORIGIN}}
        worker = fleet.workers[chosen].client
        await worker.create(RENDERS, {**stray, "spec": {**stray["spec"], "paused": True}})
        await asyncio.sleep(30)
        assert {name_of(one) for one in (await worker.list(RENDERS)).items} == {"film", "stray"}
        await report(fleet, chosen, {"phase": "Done", "summary": "24 frames"})
        assert conditions.is_true(await manager.get(WORKLOADS, "film", "default"), "Finished")

    queued_by_others(script)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([{"name": "Render"}], "is not Kind.version.group"),
        ([{"name": "Job.v1.batch"}], "dispatches already"),
        ([{"name": "Render.v1.studio.example.com"}] * 2, "there twice"),
        (["Render"], "is not Kind.version.group"),
    ],
)
def test_a_wrong_name_of_such_a_kind_is_refused(entries: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        load_config({"multiKueue": {"externalFrameworks": entries}})


def test_the_documentation_describes_it_as_it_is() -> None:
    page = (Path(__file__).parents[3] / "docs" / "how-to" / "add-a-job-kind.md").read_text()
    (shown,) = re.findall(r"```yaml\n(.*?)```", page, flags=re.DOTALL)
    assert yaml.safe_load(shown) == {"corral": {"jobKinds": [DESCRIPTION]}}


def test_a_manager_asks_for_what_it_needs_on_a_worker() -> None:
    described = jobs_to_dispatch(CONFIGURATION)[-1]
    assert described.resource == RENDERS
    written, read = worker_rules([described])
    assert (written["apiGroups"], written["resources"]) == (["studio.example.com"], ["renders"])
    assert (read["resources"], read["verbs"]) == (["renders/status"], ["get"])


@pytest.mark.parametrize(
    ("status", "finish"),
    [
        ({}, None),
        ({"phase": "Rendering"}, None),
        ({"phase": "Done", "summary": "all"}, ("all", True)),
        ({"conditions": [{"type": "Broken", "status": "True", "message": "no film"}]}, ("no film", False)),
        ({"conditions": [{"type": "Broken", "status": "False"}]}, None),
    ],
)
def test_its_end_is_read_where_the_description_says(status: Obj, finish: tuple[str, bool] | None) -> None:
    (kind,) = described_kinds(CONFIGURATION)
    assert described_job(kind).finished({"status": status}) == finish


FAULTS: list[tuple[Obj, str]] = [
    ({"apiVersion": "v1"}, "apiVersion 'v1' is not a group and a version"),
    ({"apiVersion": "batch/v1", "kind": "Job"}, "Corral queues this kind already"),
    ({"podSets": []}, "podSets is empty"),
    ({"podSets": [{"name": "a", "template": "template"}]}, "podSets a: template: 'template' is not a path"),
    ({"podSets": [{"name": "a", "template": "spec.t", "count": "many"}]}, "podSets a: count: 'many' is not a path"),
    ({"podSets": [{"name": "a", "template": "spec.t"}] * 2}, "two have the same name"),
    ({"podSets": [{"name": "a"}]}, "missing required field `template`"),
    ({"suspend": "status.paused"}, "suspend: 'status.paused' is not a path of fields such as spec."),
    ({"managedBy": "metadata.labels"}, "managedBy: 'metadata.labels' is not a path"),
    ({"succeeded": {}}, "succeeded: name either a condition, or a path"),
    ({"failed": {"condition": "A", "path": "status.a"}}, "failed: name either a condition, or a path"),
    ({"failed": {"path": "status.phase"}}, "failed.values is empty"),
    ({"running": {"path": "spec.phase", "values": ["a"]}}, "running.path: 'spec.phase' is not a path"),
    ({"sucess": {}}, "unknown field `sucess`"),
    ({"status": "all"}, "Expected `array`, got `str`"),
]


@pytest.mark.parametrize(("change", "said"), FAULTS, ids=[said for _, said in FAULTS])
def test_a_wrong_description_is_refused_with_the_place_and_the_reason(change: Obj, said: str) -> None:
    document = copy.deepcopy(CONFIGURATION)
    document["corral"]["jobKinds"][0] |= change
    with pytest.raises(JobKindError) as refused:
        described_kinds(document)
    assert str(refused.value).startswith("corral.jobKinds[0]")
    assert said in str(refused.value)


@pytest.mark.parametrize("entries", [[DESCRIPTION, DESCRIPTION], {"kind": "Render"}, ["Render"]])
def test_a_list_of_different_kinds_is_expected(entries: Any) -> None:
    with pytest.raises(JobKindError, match=r"described twice|expected a list|Expected `object`"):
        described_kinds({"corral": {"jobKinds": entries}})


def test_a_file_with_a_wrong_description_is_refused_before_anything_starts(tmp_path: Path) -> None:
    path = tmp_path / "configuration.yaml"
    path.write_text(yaml.safe_dump(CONFIGURATION))
    assert read_configuration(path) == CONFIGURATION
    path.write_text(yaml.safe_dump({"corral": {"jobKinds": [{**DESCRIPTION, "podSets": []}]}}))
    with pytest.raises(ConfigurationError, match=r"corral\.jobKinds\[0\] \(Render\): podSets is empty"):
        read_configuration(path)
