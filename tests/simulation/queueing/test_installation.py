"""Queueing as an installation: what is there to look at, and a configuration changed through the API."""

from __future__ import annotations

import yaml

from corral.controllers.queueing.installation import Installation
from corral.controllers.queueing.installed import CLUSTER_ROLES, CONFIG_MAPS, DEPLOYMENTS, LEASES, SERVICES
from corral.kinds.core import PODS
from corral.operators.setup import set_up_operators
from corral.runtime.virtual import run_virtual
from corral.testing.cluster import VirtualCluster

from .world import JOBS, cluster_queue, flavor, job, local_queue

NAMESPACE = "kueue-system"


async def start(installation: Installation) -> VirtualCluster:
    return VirtualCluster([installation.setup], plugins=installation.plugins)


def test_an_installation_leaves_its_objects_behind() -> None:
    async def main() -> None:
        installation = Installation()
        async with await start(installation) as cluster:
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
        installation = Installation()
        async with VirtualCluster([installation.setup, set_up_operators], plugins=installation.plugins) as cluster:
            await cluster.advance(3)
            [pod] = (await cluster.client.list(PODS, NAMESPACE)).items
            assert pod["metadata"]["name"].startswith("kueue-controller-manager-")
            assert pod["status"]["phase"] == "Running"
            assert [container["ready"] for container in pod["status"]["containerStatuses"]] == [True, True]
            deployment = await cluster.client.get(DEPLOYMENTS, "kueue-controller-manager", NAMESPACE)
            assert deployment["status"]["availableReplicas"] == 1

    run_virtual(main)


def test_a_restart_puts_the_changed_configuration_in_force() -> None:
    async def main() -> None:
        installation = Installation()
        async with await start(installation) as cluster:
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
        installation = Installation()
        async with await start(installation) as cluster:
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
    shipped = Installation().queueing.config.frameworks
    assert Installation({"corral": {"propagateDependencies": True}}).queueing.config.frameworks == shipped
    chosen = Installation({"integrations": {"frameworks": ["batch/job"]}})
    assert chosen.queueing.config.frameworks == ("batch/job",)
