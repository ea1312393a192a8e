"""What the roles of queueing and dispatch are asked for rarely: each test needs rights that no other one uses.

Clusters here enforce the identities that roles are made from, so that a right that is taken out fails the test that needs it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from corral.core.conditions import condition as make_condition
from corral.core.conditions import is_true
from corral.core.errors import NotFound
from corral.core.meta import Obj, finalizers_of, labels_of, status_of, uid_of
from corral.core.resource import Resource
from corral.jobs.framework.registry import adapter, shipped_frameworks
from corral.jobs.trainjob.kind import CLUSTER_TRAINING_RUNTIMES
from corral.kinds.fleet import CLUSTER_PROFILES
from corral.kinds.kueue import (
    ADMISSION_CHECKS,
    MULTI_KUEUE_CLUSTERS,
    PROVISIONING_REQUEST_CONFIGS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    names,
)
from corral.kinds.kueue.provisioning import PROVISIONING_REQUESTS
from corral.runtime.virtual import run_virtual
from corral.simulate.cluster import SimulatedCluster
from corral.simulate.fleet import SimulatedFleet

from .test_job_kinds import KINDS, RUNTIME, template
from .world import EVENTS, PODS, cluster_queue, flavor, local_queue

QUEUE = {"kueue.x-k8s.io/queue-name": "lq"}
RETAINED: Obj = {"objectRetentionPolicies": {"workloads": {"afterDeactivatedByKueue": "30s"}}}


def run(scenario: Callable[[SimulatedCluster], Awaitable[None]], configuration: Obj | None = None) -> None:
    """A queue whose jobs wait for a check that nobody answers unless a test does."""

    async def main() -> None:
        document = {"integrations": {"frameworks": list(shipped_frameworks())}, **(configuration or {})}
        cluster = SimulatedCluster("rights", configuration=document)
        await cluster.start()
        try:
            await scenario(cluster)
        finally:
            await cluster.stop()

    run_virtual(main)


async def fill(cluster: SimulatedCluster, controller: str, **parameters: Obj) -> None:
    """A queue with a check of some controller."""
    check = {"metadata": {"name": "check"}, "spec": {"controllerName": controller, **parameters}}
    queue = cluster_queue(admissionChecksStrategy={"admissionChecks": [{"name": "check"}]})
    for resource, obj in (flavor(), (ADMISSION_CHECKS, check), queue, local_queue()):
        await cluster.client.create(resource, obj)
    await asyncio.sleep(1)


async def answer(cluster: SimulatedCluster, state: str) -> None:
    """What a check of somebody else's says of the only Workload."""
    (workload,) = (await cluster.client.list(WORKLOADS)).items
    said = {"name": "check", "state": state, "message": "", "lastTransitionTime": cluster.clock.timestamp()}
    await cluster.client.update(
        WORKLOADS, {**workload, "status": {**status_of(workload), "admissionChecks": [said]}}, subresource="status"
    )


async def set_up_check(cluster: SimulatedCluster) -> None:
    await fill(cluster, "example.com/check")
    check = await cluster.client.get(ADMISSION_CHECKS, "check")
    active = {**make_condition("Active", True, "Active", ""), "lastTransitionTime": cluster.clock.timestamp()}
    await cluster.client.update(ADMISSION_CHECKS, {**check, "status": {"conditions": [active]}}, subresource="status")
    await asyncio.sleep(1)


@pytest.mark.parametrize("framework", KINDS)
def test_a_job_of_any_kind_that_was_deactivated_goes_after_its_retention(framework: str) -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await set_up_check(cluster)
        await cluster.client.create(CLUSTER_TRAINING_RUNTIMES, RUNTIME)
        resource: Resource = adapter(framework).resource
        version, spec = KINDS[framework]
        metadata = {"name": "j", "namespace": "default", "labels": QUEUE}
        job = {"apiVersion": version, "kind": resource.kind, "metadata": metadata, "spec": spec}
        await cluster.client.create(resource, job)
        await asyncio.sleep(5)
        await answer(cluster, "Rejected")
        await asyncio.sleep(60)
        with pytest.raises(NotFound):
            await cluster.client.get(resource, "j", "default")

    run(scenario, RETAINED)


def test_a_check_in_use_is_kept_and_what_becomes_of_a_job_is_told_in_events() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await set_up_check(cluster)
        metadata = {"name": "j", "namespace": "default", "labels": QUEUE}
        batch = adapter("batch/job").resource
        await cluster.client.create(batch, {"metadata": metadata, "spec": {"template": template("c")}})
        await asyncio.sleep(5)
        assert names.RESOURCE_IN_USE in finalizers_of(await cluster.client.get(ADMISSION_CHECKS, "check"))
        told = {each["reason"] for each in (await cluster.client.list(EVENTS)).items}
        assert {"CreatedWorkload", "QuotaReserved"} <= told

    run(scenario)


@pytest.mark.parametrize("framework", ["batch/job", *KINDS])
def test_what_a_queued_job_of_any_kind_makes_is_for_no_other_queue(framework: str) -> None:
    """Whose owner cannot be read would be queued by itself, here in the default queue."""

    async def scenario(cluster: SimulatedCluster) -> None:
        await set_up_check(cluster)
        await cluster.client.create(*local_queue("default"))
        await cluster.client.create(CLUSTER_TRAINING_RUNTIMES, RUNTIME)
        resource: Resource = adapter(framework).resource
        version, spec = KINDS.get(framework, ("batch/v1", {"template": template("c")}))
        metadata = {"name": "j", "namespace": "default", "labels": QUEUE}
        owner = {"apiVersion": version, "kind": resource.kind, "metadata": metadata, "spec": spec}
        made = await cluster.client.create(resource, owner)
        reference = {"apiVersion": version, "kind": resource.kind, "name": "j", "uid": uid_of(made), "controller": True}
        child: Obj = {"metadata": {"name": "child", "namespace": "default", "ownerReferences": [reference]}}
        batch = adapter("batch/job").resource
        found = await cluster.client.create(batch, {**child, "spec": {"template": template("c")}})
        assert names.QUEUE_NAME not in labels_of(found)
        assert not found["spec"].get("suspend")

    run(scenario)


def test_what_a_queued_pod_makes_is_for_no_other_queue() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await set_up_check(cluster)
        await cluster.client.create(*local_queue("default"))
        owner = {"metadata": {"name": "p", "namespace": "default", "labels": QUEUE}, "spec": template("c")["spec"]}
        made = await cluster.client.create(PODS, owner)
        reference = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": uid_of(made), "controller": True}
        child: Obj = {"metadata": {"name": "child", "namespace": "default", "ownerReferences": [reference]}}
        found = await cluster.client.create(PODS, {**child, "spec": template("c")["spec"]})
        assert names.QUEUE_NAME not in labels_of(found)
        assert not found["spec"].get("schedulingGates")

    run(scenario)


def test_a_job_that_names_no_priority_gets_the_default_class() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await set_up_check(cluster)
        await cluster.client.create(WORKLOAD_PRIORITY_CLASSES, {"metadata": {"name": "default"}, "value": 100})
        metadata = {"name": "j", "namespace": "default", "labels": QUEUE}
        batch = adapter("batch/job").resource
        made = await cluster.client.create(batch, {"metadata": metadata, "spec": {"template": template("c")}})
        assert labels_of(made)[names.PRIORITY_CLASS] == "default"

    run(scenario, {"featureGates": {"WorkloadPriorityClassDefaulting": True}})


def test_a_job_asks_an_autoscaler_for_its_nodes_and_takes_the_request_back() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        config = {"metadata": {"name": "config"}, "spec": {"provisioningClassName": "atomic.example.com"}}
        await cluster.client.create(PROVISIONING_REQUEST_CONFIGS, config)
        parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": "config"}
        await fill(cluster, names.PROVISIONING_CONTROLLER, parameters=parameters)
        batch = adapter("batch/job").resource
        metadata = {"name": "j", "namespace": "default", "labels": QUEUE}
        await cluster.client.create(batch, {"metadata": metadata, "spec": {"template": template("c")}})
        await asyncio.sleep(5)
        (request,) = (await cluster.client.list(PROVISIONING_REQUESTS)).items
        provisioned = {
            **make_condition("Provisioned", True, "Provisioned", ""),
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        told = {**request, "status": {"conditions": [provisioned]}}
        await cluster.client.update(PROVISIONING_REQUESTS, told, subresource="status")
        await asyncio.sleep(5)
        (workload,) = (await cluster.client.list(WORKLOADS)).items
        assert is_true(workload, "Admitted")
        await cluster.client.patch(WORKLOADS, workload["metadata"]["name"], "default", {"spec": {"active": False}})
        await asyncio.sleep(30)
        assert not (await cluster.client.list(PROVISIONING_REQUESTS)).items

    run(scenario)


def test_pods_that_lose_their_place_are_told_why_before_they_go() -> None:
    async def scenario(cluster: SimulatedCluster) -> None:
        await set_up_check(cluster)
        metadata = {"name": "p", "namespace": "default", "labels": QUEUE, "finalizers": ["example.com/kept"]}
        await cluster.client.create(PODS, {"metadata": metadata, "spec": template("c")["spec"]})
        await asyncio.sleep(5)
        await answer(cluster, "Ready")
        await asyncio.sleep(5)
        (workload,) = (await cluster.client.list(WORKLOADS)).items
        assert is_true(workload, "Admitted")
        await cluster.client.patch(WORKLOADS, workload["metadata"]["name"], "default", {"spec": {"active": False}})
        await asyncio.sleep(5)
        pod = await cluster.client.get(PODS, "p", "default")
        assert is_true(pod, "TerminationTarget")

    run(scenario)


def test_workers_are_taken_from_cluster_profiles() -> None:
    async def main() -> None:
        gate = {"featureGates": {"MultiKueueClusterProfile": True}}
        async with SimulatedFleet(["worker1"], configuration=gate) as fleet:
            client = fleet.manager.client
            profile = {
                "metadata": {"name": "east", "namespace": "kueue-system"},
                "spec": {"clusterManager": {"name": "m"}},
            }
            await client.create(CLUSTER_PROFILES, profile)
            source = {"clusterProfileRef": {"name": "east"}}
            await client.create(MULTI_KUEUE_CLUSTERS, {"metadata": {"name": "east"}, "spec": {"clusterSource": source}})
            await asyncio.sleep(5)
            (told,) = status_of(await client.get(MULTI_KUEUE_CLUSTERS, "east"))["conditions"]
            assert told["status"] == "False", "nobody gives credentials for it"
            assert "not found" not in told["message"]

    run_virtual(main)
