"""The published guide on AI jobs, manifest by manifest, on a hub and three members whose queues and nodes are real."""

from __future__ import annotations

import asyncio

from corral.configuration.member import MemberSettings
from corral.core import conditions as conditions_of
from corral.core.errors import NotFound
from corral.core.meta import Obj, status_of, uid_of, with_annotations
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.fleet import WORKS
from corral.kinds.kueue import CLUSTER_QUEUES, LOCAL_QUEUES

from .fleet import PlacementFleet, conditions, on_fleet

PREFIX = "ResourcePlacement"
SIX_EVENTS = [
    "PlacementRolloutStarted",
    "PlacementOverriddenSucceeded",
    "PlacementWorkSynchronized",
    "PlacementApplied",
    "PlacementAvailable",
    "PlacementRolloutCompleted",
]


async def apply_queues(fleet: PlacementFleet) -> None:
    for number in (1, 2, 3, 4):
        await fleet.apply(number)
    await asyncio.sleep(2)


async def apply_jobs(fleet: PlacementFleet, **annotations: str) -> None:
    await fleet.apply(5)
    for number in (6, 7):
        await fleet.apply(number, lambda obj: with_annotations(obj, annotations))
    for number in (8, 9, 10):
        await fleet.apply(number)
    await asyncio.sleep(2)


async def find(fleet: PlacementFleet, cluster: str, name: str) -> Obj | None:
    try:
        return await fleet.members[cluster].client.get(JOBS, name, "compute-jobs")
    except NotFound:
        return None


def test_queues_reach_every_member_and_the_placement_says_so() -> None:
    async def scenario(fleet: PlacementFleet) -> None:
        await apply_queues(fleet)
        status = status_of(await fleet.placement("sample-kueue"))
        assert conditions(status) == [
            (f"Cluster{PREFIX}Scheduled", "True", "SchedulingPolicyFulfilled"),
            (f"Cluster{PREFIX}RolloutStarted", "True", "RolloutStarted"),
            (f"Cluster{PREFIX}Overridden", "True", "NoOverrideSpecified"),
            (f"Cluster{PREFIX}WorkSynchronized", "True", "WorkSynchronized"),
            (f"Cluster{PREFIX}Applied", "True", "ApplySucceeded"),
            (f"Cluster{PREFIX}Available", "True", "ResourceAvailable"),
        ]
        assert [one["clusterName"] for one in status["placementStatuses"]] == ["cluster-1", "cluster-2", "cluster-3"]
        for one in status["placementStatuses"]:
            assert conditions(one) == [
                ("Scheduled", "True", "Scheduled"),
                ("RolloutStarted", "True", "RolloutStarted"),
                ("Overridden", "True", "NoOverrideSpecified"),
                ("WorkSynchronized", "True", "AllWorkSynced"),
                ("Applied", "True", "AllWorkHaveBeenApplied"),
                ("Available", "True", "NotAllWorkAreAvailabilityTrackable"),
            ]
            message = one["conditions"][-1]["message"]
            assert message == "The availability of work object sample-kueue-work is not trackable"
        assert [(one["kind"], one["name"]) for one in status["selectedResources"]] == [
            ("Namespace", "compute-jobs"),
            ("ClusterQueue", "cluster-queue"),
            ("ResourceFlavor", "default-flavor"),
        ]
        assert await fleet.events("sample-kueue") == SIX_EVENTS
        for member in fleet.members.values():
            queue = await member.client.get(CLUSTER_QUEUES, "cluster-queue")
            assert conditions_of.is_true(queue, "Active")

    on_fleet(scenario)


def check_drift(status: Obj, uid: str, paths: list[str]) -> None:
    assert conditions(status) == [
        (f"{PREFIX}Scheduled", "True", "SchedulingPolicyFulfilled"),
        (f"{PREFIX}RolloutStarted", "True", "RolloutStarted"),
        (f"{PREFIX}Overridden", "True", "NoOverrideSpecified"),
        (f"{PREFIX}WorkSynchronized", "True", "WorkSynchronized"),
        (f"{PREFIX}Applied", "False", "ApplyFailed"),
    ]
    (one,) = status["placementStatuses"]
    assert one["clusterName"] == "cluster-3"
    assert "(affinity score: 70, topology spread score: 0)" in one["conditions"][0]["message"]
    assert one["conditions"][-1]["message"] == "Work object compute-jobs.job1-placement-work has failed to apply"
    (drift,) = one["driftedPlacements"]
    assert (drift["kind"], drift["name"], drift["targetClusterObservedGeneration"]) == ("Job", "mock-workload", 2)
    assert [entry["path"] for entry in drift["observedDrifts"]] == paths
    assert drift["observedDrifts"][0]["valueInMember"] == uid
    (failed,) = one["failedPlacements"]
    assert failed["condition"]["reason"] == "FoundDriftsInDegradedMode"
    assert failed["condition"]["observedGeneration"] == 2


TEMPLATE = "/spec/template/metadata"
FOUR = [
    "/spec/selector/matchLabels/batch.kubernetes.io~1controller-uid",
    "/spec/suspend",
    f"{TEMPLATE}/labels/batch.kubernetes.io~1controller-uid",
    f"{TEMPLATE}/labels/controller-uid",
]
FIVE = [*FOUR[:2], f"{TEMPLATE}/creationTimestamp", *FOUR[2:]]


def test_a_job_is_placed_admitted_and_reported_as_drifted_as_the_guide_prints_it() -> None:
    async def scenario(fleet: PlacementFleet) -> None:
        await apply_queues(fleet)
        await apply_jobs(fleet)
        for member in fleet.members.values():
            await member.client.get(LOCAL_QUEUES, "local-queue", "compute-jobs")
        await asyncio.sleep(12)
        live = await find(fleet, "cluster-3", "mock-workload")
        assert live is not None
        assert live["spec"]["suspend"] is False
        status = status_of(await fleet.placement("job1-placement", "compute-jobs"))
        check_drift(status, uid_of(live), FOUR)
        assert await fleet.events("job1-placement") == SIX_EVENTS

    on_fleet(scenario)


def test_the_guide_to_the_letter_has_five_drifted_paths() -> None:
    async def scenario(fleet: PlacementFleet) -> None:
        await apply_queues(fleet)
        await apply_jobs(fleet)
        await asyncio.sleep(12)
        live = await find(fleet, "cluster-3", "mock-workload")
        assert live is not None
        status = status_of(await fleet.placement("job1-placement", "compute-jobs"))
        check_drift(status, uid_of(live), FIVE)
        drifts = status["placementStatuses"][0]["driftedPlacements"][0]["observedDrifts"]
        assert drifts[2] == {"path": FIVE[2], "valueInMember": "<nil>"}

    on_fleet(scenario, MemberSettings(null_timestamps=True))


def test_with_the_queue_left_alone_the_placement_is_healthy_and_shows_progress() -> None:
    async def scenario(fleet: PlacementFleet) -> None:
        await apply_queues(fleet)
        await apply_jobs(fleet, **{"corral.dev/queue-friendly": "true"})
        await asyncio.sleep(12)
        status = status_of(await fleet.placement("job1-placement", "compute-jobs"))
        assert conditions(status)[-4:] == [
            (f"{PREFIX}Applied", "True", "ApplySucceeded"),
            (f"{PREFIX}Available", "True", "ResourceAvailable"),
            ("corral.dev/JobsStarted", "True", "Started"),
            ("corral.dev/JobsFinished", "False", "Running"),
        ]
        assert status["conditions"][-1]["message"] == (
            "cluster-3: Job mock-workload is running: 3 active, 3 ready; admitted by ClusterQueue cluster-queue"
        )
        (one,) = status["placementStatuses"]
        assert "driftedPlacements" not in one
        report = await reported(fleet)
        assert report["status"]["active"] == 3
        assert conditions_of.is_true(report["workload"]["conditions"], "Admitted")
        assert report["workload"]["clusterQueue"] == "cluster-queue"

        await asyncio.sleep(600)
        assert await find(fleet, "cluster-3", "mock-workload") is None
        assert conditions_of.is_true((await reported(fleet))["status"]["conditions"], "Complete")
        status = status_of(await fleet.placement("job1-placement", "compute-jobs"))
        assert conditions(status)[-3] == (f"{PREFIX}Available", "True", "ResourceAvailable")
        assert conditions(status)[-1] == ("corral.dev/JobsFinished", "True", "Succeeded")
        assert status["conditions"][-1]["message"] == "cluster-3: Job mock-workload has succeeded: 3 succeeded"

    on_fleet(scenario)


async def reported(fleet: PlacementFleet) -> Obj:
    work = await fleet.hub.client.get(WORKS, "compute-jobs.job1-placement-work", "fleet-member-cluster-3")
    observed: Obj = status_of(work)["manifestConditions"][0]["backReportedStatus"]["observedStatus"]
    return observed
