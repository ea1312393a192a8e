"""What a cluster does otherwise with a feature gate on than with it off: short plays on a cluster whose configuration sets the gate."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from gate_decisions import HOST, Gates, Observe
from tests.dispatching import run_on_fleet
from tests.simulation.queueing.test_job_kinds import RAY_CLUSTER
from tests.simulation.queueing.test_node_failure import failing
from tests.simulation.queueing.test_pods import bind, get, pod
from tests.simulation.queueing.world import EVENTS, World, cluster_queue, fill, flavor, job, local_queue

from corral.configuration.queueing import load_config
from corral.controllers.queueing.admission.plugins import QueueObjects
from corral.core import conditions
from corral.core.admission import AdmissionRequest, UserInfo
from corral.core.errors import ApiError
from corral.core.meta import Obj, labels_of, name_of, status_of
from corral.core.resource import Resource
from corral.jobs.ray.kind import RAY_CLUSTERS
from corral.kinds.kueue import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES, MULTI_KUEUE_CLUSTERS, WORKLOADS, names
from corral.runtime.virtual import run_virtual
from corral.simulate.fleet import SimulatedFleet

Play = Callable[[World], Awaitable[Any]]
USAGE_BASED = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}


def play(script: Play, document: Obj | None = None, **queue: Any) -> Observe:
    """What a script finds in a cluster with one queue."""

    def observe(gates: Gates) -> Any:
        async def main() -> Any:
            async with World(load_config({"featureGates": dict(gates), **(document or {})})) as world:
                await fill(world, flavor(), cluster_queue(**queue), local_queue())
                return await script(world)

        return run_virtual(main)

    return observe


async def refusal(answer: Awaitable[object]) -> str:
    """Why a request was denied; empty when it was not."""
    try:
        await answer
    except ApiError as error:
        return error.message.partition("denied the request: ")[2]
    return ""


async def queue_label_of_a_started_job(world: World) -> str | None:
    await fill(world, job())
    template = (await world.job("sample"))["spec"]["template"]
    return labels_of(template).get(names.LOCAL_QUEUE_NAME)


async def readiness_of_a_started_job(world: World) -> bool:
    """Whether it is said at all that the pods of an admitted job are not ready."""
    await fill(world, job())
    return conditions.find(await world.workload_of("sample"), "PodsReady") is not None


async def quota_of_a_group_that_is_stopping(world: World) -> str:
    """Whether the quota of evicted pods counts as reserved while they are still ending."""
    await fill(world, pod("a", group="g", total="1"))
    await bind(world, "a")
    await world.client.patch(CLUSTER_QUEUES, "cq", "", {"spec": {"stopPolicy": "HoldAndDrain"}})
    await world.advance(1)
    assert (await get(world, "a"))["metadata"]["deletionTimestamp"]
    workload = await world.client.get(WORKLOADS, "g", "default")
    return str((conditions.find(workload, names.QUOTA_RESERVED) or {}).get("status"))


def has_metric(name: str, *made: tuple[Resource, Obj]) -> Play:
    async def script(world: World) -> bool:
        await fill(world, *made)
        await world.advance(5)
        return f"\n{name}{{" in world.manager.metrics.exposition().decode()

    return script


async def remembered_usage(world: World) -> bool:
    """Whether a LocalQueue's status tells what it has used."""
    await fill(world, job())
    await world.advance(60)
    queue = await world.client.get(LOCAL_QUEUES, "lq", "default")
    return "admissionFairSharingStatus" in (status_of(queue).get("fairSharing") or {})


def complaints_about_a_path(gates: Gates) -> bool:
    """Whether a worker whose kubeconfig is a file is told about as deprecated."""
    seen: list[str] = []

    async def script(fleet: SimulatedFleet) -> None:
        source = {"kubeConfig": {"locationType": "Path", "location": "/etc/multikueue/kubeconfigs/absent"}}
        made = {"metadata": {"name": "by-path"}, "spec": {"clusterSource": source}}
        await fleet.manager.client.create(MULTI_KUEUE_CLUSTERS, made)
        await asyncio.sleep(5)
        seen.extend(event["reason"] for event in (await fleet.manager.client.list(EVENTS)).items)

    run_on_fleet(script, {"featureGates": dict(gates)})
    return "DeprecatedPathUsage" in seen


def touching_a_queue_with_a_wrong_check(gates: Gates) -> str:
    """The answer to a change elsewhere in a ClusterQueue whose check already names a flavor it does not have."""
    _, queue = cluster_queue("q")
    rule = {"admissionChecksStrategy": {"admissionChecks": [{"name": "check", "onFlavors": ["other"]}]}}
    old = {**queue, "spec": {**queue["spec"], **rule}}
    new = {**old, "spec": {**old["spec"], "stopPolicy": "Hold"}}
    change = AdmissionRequest("UPDATE", CLUSTER_QUEUES, "", "", "q", UserInfo("admin"), new, old)
    rules = QueueObjects(load_config({"featureGates": dict(gates)}))

    async def main() -> str:
        return await refusal(rules.validate(change))

    return run_virtual(main)


async def admitted_once_there_is_room(world: World) -> bool:
    """Whether a job that did not fit is admitted in the second in which another ends."""
    await fill(world, job("first"), job("second"))
    await world.advance(20)
    await world.finish_job("first")
    await world.advance(1)
    return conditions.is_true(await world.workload_of("second"), names.QUOTA_RESERVED)


async def length_of_a_name(world: World) -> int:
    """Of the Workload of a job with a long name."""
    await fill(world, job("j" * 63))
    return len(name_of(await world.workload_of("j" * 63)))


async def how_a_status_is_written(world: World) -> set[str]:
    await fill(world, job())
    fields = (await world.workload_of("sample"))["metadata"]["managedFields"]
    return {entry["operation"] for entry in fields if entry.get("subresource") == "status"}


def moves_off_a_failed_node(gates: Gates) -> bool:
    """Whether a placed job leaves a node that is no longer ready, or its place is taken back."""

    async def main() -> bool:
        async with failing(config=load_config({"featureGates": dict(gates)})) as (world, _):
            await world.advance(60)
            return conditions.is_true(await world.workload_of("sample"), "Evicted")

    return run_virtual(main)


async def a_slice_of_no_size(world: World) -> str:
    """The answer to a Workload whose pods go in slices of unknown size."""
    containers = [{"name": "c", "image": "busybox"}]
    request = {"required": HOST, "podSetSliceRequiredTopology": HOST}
    pods = {"name": "main", "count": 2, "template": {"spec": {"containers": containers}}, "topologyRequest": request}
    made = {"metadata": {"name": "w", "namespace": "default"}, "spec": {"podSets": [pods]}}
    return await refusal(world.client.create(WORKLOADS, made))


async def leaving_the_queue_while_running(world: World) -> str:
    """The answer to a running RayCluster that takes off its queue's name."""
    metadata = {"name": "ray", "namespace": "default", "labels": {names.QUEUE_NAME: "lq"}}
    await fill(world, (RAY_CLUSTERS, {"metadata": metadata, "spec": RAY_CLUSTER}))
    patch = {"metadata": {"labels": {names.QUEUE_NAME: None}}}
    return await refusal(world.client.patch(RAY_CLUSTERS, "ray", "default", patch))


PODS = {"integrations": {"frameworks": ["pod"]}}
RAY = {"integrations": {"frameworks": ["ray.io/raycluster"]}}
COHORT = (COHORTS, {"metadata": {"name": "co"}, "spec": {}})
ACTIONS: dict[str, tuple[Observe, Any, Any]] = {
    "AdmissionFairSharing": (
        play(remembered_usage, {"admissionFairSharing": {"usageHalfLifeTime": "60s"}}, **USAGE_BASED),
        False,
        True,
    ),
    "AssignQueueLabelsForPods": (play(queue_label_of_a_started_job), None, "lq"),
    "DisableWaitForPodsReady": (play(readiness_of_a_started_job, {"waitForPodsReady": {}}), True, False),
    "FastQuotaReleaseInPodIntegration": (play(quota_of_a_group_that_is_stopping, PODS), "True", "False"),
    "LocalQueueMetrics": (play(has_metric("kueue_local_queue_pending_workloads")), False, True),
    "MetricForWorkloadCreationLatency": (
        play(has_metric("kueue_workload_creation_latency_seconds_count", job())),
        False,
        True,
    ),
    "MetricsForCohorts": (play(has_metric("kueue_cohort_info", COHORT), cohortName="co"), False, True),
    "MultiKueueKubeConfigPathValidation": (complaints_about_a_path, True, False),
    "RejectUpdatesToCQWithInvalidOnFlavors": (
        touching_a_queue_with_a_wrong_check,
        "",
        'spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0]: Unsupported value: "other": supported values: '
        '"default"',
    ),
    "SchedulerLongRequeueInterval": (play(admitted_once_there_is_room, cpu="1"), True, False),
    "ShortWorkloadNames": (play(length_of_a_name), 73, 63),
    "TASFailedNodeReplacement": (moves_off_a_failed_node, False, True),
    "TASValidateWorkloadSliceSize": (
        play(a_slice_of_no_size),
        "",
        "spec.podSets[0].topologyRequest.podSetSliceSize: Required value: must be set when "
        "podSetSliceRequiredTopology is specified",
    ),
    "ValidateRayAndSparkJobUpdates": (
        play(leaving_the_queue_while_running, RAY, cpu="9"),
        "",
        'metadata.labels[kueue.x-k8s.io/queue-name]: Invalid value: "": field is immutable',
    ),
    "WorkloadRequestUseMergePatch": (play(how_a_status_is_written), {"Apply"}, {"Update"}),
}
