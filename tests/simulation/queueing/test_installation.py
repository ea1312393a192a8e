"""Queueing as an installation: what is there to look at, and a configuration changed through the API."""

from __future__ import annotations

import pytest
import yaml

from corral.clusters.kueue_installation.installer import Installation
from corral.clusters.operators import set_up_operators
from corral.core.meta import Obj
from corral.kinds.kubernetes.apps.kinds import DEPLOYMENTS
from corral.kinds.kubernetes.coordination import LEASES
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, PODS, SERVICES
from corral.kinds.kubernetes.networking.endpoint_slices import ENDPOINT_SLICES
from corral.kinds.kubernetes.rbac import CLUSTER_ROLES
from corral.runtime.virtual import run_virtual
from corral.testing.cluster import SetUp, VirtualCluster

from .world import JOBS, cluster_queue, flavor, job, local_queue

NAMESPACE = "kueue-system"


def install(*set_up: SetUp) -> tuple[Installation, VirtualCluster]:
    cluster = VirtualCluster(set_up)
    installation = Installation(cluster.manager)
    cluster.api.chain.plugins.extend(installation.plugins)
    return installation, cluster


def test_an_installation_leaves_its_objects_behind() -> None:
    async def main() -> None:
        _, cluster = install()
        async with cluster:
            await cluster.advance(1)
            deployment = await cluster.client.get(DEPLOYMENTS, "kueue-controller-manager", NAMESPACE)
            assert deployment["spec"]["replicas"] == 1
            config_map = await cluster.client.get(CONFIG_MAPS, "kueue-manager-config", NAMESPACE)
            document = yaml.safe_load(config_map["data"]["controller_manager_config.yaml"])
            assert "batch/job" in document["integrations"]["frameworks"]
            await cluster.client.get(SERVICES, "kueue-webhook-service", NAMESPACE)
            await cluster.client.get(LEASES, "c1f6bfd2.kueue.x-k8s.io", NAMESPACE)
            for role in ("kueue-batch-admin-role", "kueue-batch-user-role", "kueue-metrics-reader"):
                await cluster.client.get(CLUSTER_ROLES, role)

    run_virtual(main)


def test_the_controllers_are_shown_as_a_running_pod_of_two_containers() -> None:
    async def main() -> None:
        _, cluster = install(set_up_operators)
        async with cluster:
            await cluster.advance(3)
            [pod] = (await cluster.client.list(PODS, NAMESPACE)).items
            assert pod["metadata"]["name"].startswith("kueue-controller-manager-")
            assert pod["status"]["phase"] == "Running"
            assert [container["ready"] for container in pod["status"]["containerStatuses"]] == [True, True]
            deployment = await cluster.client.get(DEPLOYMENTS, "kueue-controller-manager", NAMESPACE)
            assert deployment["status"]["availableReplicas"] == 1

    run_virtual(main)


KUBERNETES = {
    "metadata": {"name": "kubernetes", "namespace": "default"},
    "spec": {"clusterIP": "10.0.0.1", "ports": [{"name": "https", "port": 443}]},
}
RESTART = {
    "spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:01Z"}}}}
}


async def installed_endpoints(cluster: VirtualCluster) -> dict[str, list[str]]:
    """The addresses behind each Service of the installation."""
    services = (await cluster.client.list(SERVICES, NAMESPACE)).items
    found: dict[str, list[str]] = {service["metadata"]["name"]: [] for service in services}
    for piece in (await cluster.client.list(ENDPOINT_SLICES, NAMESPACE)).items:
        for endpoint in piece["endpoints"] or ():
            found[piece["metadata"]["labels"]["kubernetes.io/service-name"]] += endpoint["addresses"]
    return found


@pytest.mark.parametrize("late", [False, True], ids=["known at once", "known later"])
def test_the_services_of_the_installation_lead_to_exactly_its_ready_pods(late: bool) -> None:
    async def main() -> None:
        _, cluster = install(set_up_operators)
        async with cluster:
            await cluster.advance(90 if late else 0)
            await cluster.client.create(SERVICES, KUBERNETES)

            async def check(replicas: int) -> None:
                await cluster.advance(5)
                pods = (await cluster.client.list(PODS, NAMESPACE)).items
                addresses = sorted({pod["status"]["podIP"] for pod in pods})
                assert len(addresses) == len(pods) == replicas
                for pod in pods:
                    assert pod["status"]["podIPs"] == [{"ip": pod["status"]["podIP"]}]
                    assert pod["status"]["hostIP"] == "10.0.0.1"
                endpoints = await installed_endpoints(cluster)
                assert {name: sorted(held) for name, held in endpoints.items()} == {
                    "kueue-webhook-service": addresses,
                    "kueue-controller-manager-metrics-service": addresses,
                }

            await check(1)
            for replicas in (3, 0, 2):
                scale = {"spec": {"replicas": replicas}}
                await cluster.client.patch(DEPLOYMENTS, "kueue-controller-manager", NAMESPACE, scale)
                await check(replicas)
            await cluster.client.patch(DEPLOYMENTS, "kueue-controller-manager", NAMESPACE, RESTART)
            await check(2)

    run_virtual(main)


def test_the_lease_is_held_by_the_pod_and_renewed_while_the_controllers_run() -> None:
    async def main() -> None:
        _, cluster = install(set_up_operators)
        async with cluster:

            async def lease_and_pod() -> tuple[Obj, Obj]:
                lease = await cluster.client.get(LEASES, "c1f6bfd2.kueue.x-k8s.io", NAMESPACE)
                [pod] = (await cluster.client.list(PODS, NAMESPACE)).items
                assert lease["spec"]["holderIdentity"] == f"{pod['metadata']['name']}_{pod['metadata']['uid']}"
                assert lease["spec"]["leaseDurationSeconds"] == 15
                return lease["spec"], pod

            await cluster.advance(5)
            first, old_pod = await lease_and_pod()
            await cluster.advance(5)
            renewed, _ = await lease_and_pod()
            assert first["acquireTime"] == renewed["acquireTime"] <= first["renewTime"] < renewed["renewTime"]
            assert first["leaseTransitions"] == renewed["leaseTransitions"]

            await cluster.client.patch(DEPLOYMENTS, "kueue-controller-manager", NAMESPACE, RESTART)
            await cluster.advance(5)
            taken, new_pod = await lease_and_pod()
            assert new_pod["metadata"]["name"] != old_pod["metadata"]["name"]
            assert renewed["renewTime"] < taken["acquireTime"] <= taken["renewTime"]
            assert taken["leaseTransitions"] == renewed["leaseTransitions"] + 1

            await cluster.client.delete(LEASES, "c1f6bfd2.kueue.x-k8s.io", NAMESPACE)
            await cluster.advance(5)
            await lease_and_pod()

    run_virtual(main)


def test_a_restart_puts_the_changed_configuration_in_force() -> None:
    async def main() -> None:
        installation, cluster = install()
        async with cluster:
            for resource, obj in (flavor(), cluster_queue(), local_queue("default", "cq")):
                await cluster.client.create(resource, obj)
            await cluster.advance(1)
            document = {"manageJobsWithoutQueueName": True, "featureGates": {"LocalQueueDefaulting": False}}
            patch = {"data": {"controller_manager_config.yaml": yaml.safe_dump(document)}}
            await cluster.client.patch(CONFIG_MAPS, "kueue-manager-config", NAMESPACE, patch)
            annotations = {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:01Z"}
            restart = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
            await cluster.client.patch(DEPLOYMENTS, "kueue-controller-manager", NAMESPACE, restart)
            await cluster.advance(2)
            assert installation.queueing.config.manage_jobs_without_queue_name
            created = await cluster.client.create(*job("unnamed", queue=""))
            assert created["spec"]["suspend"] is True
            assert "kueue.x-k8s.io/queue-name" not in created["metadata"].get("labels", {})
            await cluster.client.create(*job("named", queue="default"))
            await cluster.advance(2)
            assert (await cluster.client.get(JOBS, "named", "default"))["spec"]["suspend"] is False

    run_virtual(main)


def test_a_wrong_configuration_changes_nothing() -> None:
    async def main() -> None:
        installation, cluster = install()
        async with cluster:
            await cluster.advance(1)
            before = installation.queueing
            patch = {"data": {"controller_manager_config.yaml": "featureGates: {Nonsense: true}"}}
            await cluster.client.patch(CONFIG_MAPS, "kueue-manager-config", NAMESPACE, patch)
            restart = {"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "x"}}}}}
            await cluster.client.patch(DEPLOYMENTS, "kueue-controller-manager", NAMESPACE, restart)
            await cluster.advance(2)
            assert installation.queueing is before

    run_virtual(main)


def test_a_document_about_something_else_leaves_the_kinds_of_jobs_as_shipped() -> None:
    def queued(document: Obj | None = None) -> tuple[str, ...]:
        return Installation(VirtualCluster().manager, document).queueing.config.frameworks

    async def main() -> None:
        assert queued({"corral": {"propagateDependencies": True}}) == queued()
        assert queued({"integrations": {"frameworks": ["batch/job"]}}) == ("batch/job",)

    run_virtual(main)
