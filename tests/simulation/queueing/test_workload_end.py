"""How Workloads end: finalizers, orphans, retention. Ids are those of the upstream scenario list."""

from __future__ import annotations

import pytest

from corral.configuration.queueing import QueueingConfig, Retention
from corral.core.admission import AdmissionRequest
from corral.core.errors import ServiceUnavailable
from corral.core.meta import Obj
from corral.kinds.kueue import WORKLOADS, names
from corral.kinds.kueue.gates import FeatureGates
from corral.runtime.virtual import run_virtual
from corral.testing.cluster import VirtualCluster

from .workload_cases import Case, Harness, check_case, cond
from .world import condition

OURS = names.RESOURCE_IN_USE
THEIRS = "example.com/finalizer"
MINUTE = QueueingConfig(retention=Retention(after_finished_s=60))
NO_ORPHANS = QueueingConfig(gates=FeatureGates({"FinishOrphanedWorkloads": False}))
OWNER_GONE = ("True", "OwnerNotFound", "The workload's owner no longer exists")
SUCCEEDED = ("True", "Succeeded", "")
DELETED = [("Deleted", "Deleted finished workload due to elapsed retention")]


def finished(ago: float = 0) -> list[Obj]:
    return [cond("Finished", reason="Succeeded", ago=ago)]


def unowned(*finalizers: str, **labels: str) -> Obj:
    return {"ownerReferences": [], "finalizers": list(finalizers), "labels": labels}


ORPHAN = {**unowned(OURS), "labels": {names.JOB_UID: "u"}}

CASES: dict[str, Case] = {
    "WLC-21 finished, deleted": Case(
        conditions=finished(), metadata=unowned(OURS), deleting=("Workload",), gone=True, want_events=[]
    ),
    "WLC-22 an orphan, deleted": Case(metadata=unowned(OURS), deleting=("Workload",), gone=True, want_events=[]),
    "WLC-22b what others hold is not finished": Case(
        metadata=unowned(OURS, THEIRS), deleting=("Workload",), want={"Finished": None}, want_finalizers=[THEIRS]
    ),
    "WLC-23 an orphan, deleted, without the gate": Case(
        metadata=unowned(OURS), deleting=("Workload",), config=NO_ORPHANS, gone=True
    ),
    "WLC-24 an orphan of a job": Case(metadata=ORPHAN, want={"Finished": OWNER_GONE}, want_finalizers=[]),
    "WLC-25 an orphan of a job, without the gate": Case(
        metadata=ORPHAN, config=NO_ORPHANS, want={"Finished": None}, want_finalizers=[OURS]
    ),
    "WLC-26 finished and deleted, but owned": Case(
        conditions=finished(),
        metadata={"finalizers": [OURS]},
        deleting=("Workload",),
        want={"Finished": SUCCEEDED},
        want_finalizers=[OURS],
    ),
    "WLC-29 a finished orphan is kept for its time": Case(
        metadata=ORPHAN, config=MINUTE, wait=55, want={"Finished": OWNER_GONE}, want_finalizers=[], want_events=[]
    ),
    "WLC-29b and not longer": Case(metadata=ORPHAN, config=MINUTE, wait=61, gone=True, want_events=DELETED),
    "WLC-31 nothing is said about keeping": Case(
        conditions=finished(10**7), wait=3600, want={"Finished": SUCCEEDED}, want_events=[]
    ),
    "WLC-32 already being deleted": Case(
        conditions=finished(), metadata=unowned(OURS), deleting=("Workload",), config=MINUTE, gone=True, want_events=[]
    ),
    "WLC-33 already being deleted, owned, time is up": Case(
        conditions=finished(120),
        metadata={"finalizers": [OURS, THEIRS]},
        deleting=("Workload",),
        config=MINUTE,
        want={"Finished": SUCCEEDED},
        want_finalizers=[THEIRS],
        want_events=[],
    ),
    "WLC-34 time is not up": Case(
        conditions=finished(30), metadata={"finalizers": [OURS]}, config=MINUTE, want_finalizers=[OURS], want_events=[]
    ),
    "WLC-35 time is up": Case(
        conditions=finished(90), metadata={"finalizers": [OURS]}, config=MINUTE, gone=True, want_events=DELETED
    ),
    "WLC-47 an owned workload goes on": Case(
        metadata={"labels": {names.JOB_UID: "u"}, "finalizers": [OURS]}, want={"Finished": None}, want_finalizers=[OURS]
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_end(name: str) -> None:
    check_case(CASES[name])


class Broken:
    """Refuses every status of a Workload while it is on."""

    name = "broken"

    def __init__(self) -> None:
        self.on = False

    def handles(self, request: AdmissionRequest) -> bool:
        return self.on and request.resource.kind == "Workload" and request.subresource == "status"

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        return request.obj

    async def validate(self, request: AdmissionRequest) -> None:
        raise ServiceUnavailable("out of order")


def test_an_orphan_that_cannot_be_finished_is_not_let_go() -> None:
    """WLC-30."""

    async def main() -> None:
        broken = Broken()
        harness = Harness(Case(metadata=ORPHAN, config=MINUTE))
        harness.cluster = cluster = VirtualCluster([harness._set_up], lifecycle=False, plugins=[broken])
        harness.start = cluster.clock.now()
        await harness._create_workload()
        broken.on = True
        async with cluster:
            await cluster.advance(120)
            workload = await cluster.client.get(WORKLOADS, "w", "default")
            assert condition(workload, "Finished") is None
            assert workload["metadata"]["finalizers"] == [OURS]
            broken.on = False
            await cluster.advance(600)
            assert (await cluster.client.list(WORKLOADS)).items == []

    run_virtual(main)
