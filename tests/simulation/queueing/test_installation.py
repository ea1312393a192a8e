"""Queueing as an installation: what is there to look at, and a configuration changed through the API."""

from __future__ import annotations

from typing import Any, cast

import pytest
import yaml

from corral.clusters.dispatching import Dispatching
from corral.clusters.kueue_installation.installer import Installation
from corral.clusters.kueue_installation.objects import WEBHOOK_SERVICE
from corral.clusters.operators import set_up_operators
from corral.controllers.queueing.queues.visibility import CLUSTER_QUEUE
from corral.core import conditions
from corral.core.admission import UserInfo
from corral.core.errors import NotFound
from corral.core.meta import Obj
from corral.core.remote_pods import PodListing
from corral.kinds.kubernetes.admissionregistration.kinds import (
    MUTATING_WEBHOOK_CONFIGURATION,
    VALIDATING_WEBHOOK_CONFIGURATION,
)
from corral.kinds.kubernetes.apps.kinds import DEPLOYMENTS
from corral.kinds.kubernetes.coordination import LEASES
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, EVENTS, NAMESPACES, PODS, SERVICES
from corral.kinds.kubernetes.networking.endpoint_slices import ENDPOINT_SLICES
from corral.kinds.kubernetes.notices import NAME, sentences
from corral.kinds.kubernetes.rbac import CLUSTER_ROLES
from corral.kinds.machinery.virtual_resources import ExtraRequest
from corral.runtime.controller import Manager
from corral.runtime.virtual import run_virtual
from corral.server.admission.webhooks import Webhooks
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
            for service in ("webhook-service", "controller-manager-metrics-service", "visibility-server"):
                await cluster.client.get(SERVICES, f"kueue-{service}", NAMESPACE)
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
                    "kueue-visibility-server": addresses,
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

            await cluster.advance(1)
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


def test_series_get_new_labels_with_a_changed_configuration_and_else_go_on() -> None:
    labels = {"metrics": {"customLabels": [{"name": "team"}]}, "featureGates": {"CustomMetricLabels": True}}

    async def main() -> None:
        _, cluster = install()

        def counted() -> list[str]:
            lines = cluster.manager.metrics.exposition().decode().splitlines()
            return [line for line in lines if line.startswith("kueue_admitted_workloads_total{")]

        async with cluster:
            for resource, obj in (flavor(), cluster_queue(), local_queue(), job("a")):
                await cluster.client.create(resource, obj)
            await cluster.advance(2)
            before = counted()
            assert len(before) == 1
            await edit_and_restart(cluster, {"manageJobsWithoutQueueName": True})
            assert counted() == before
            again = {"spec": {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "x"}}}}}
            patch = {"data": {"controller_manager_config.yaml": yaml.safe_dump(labels)}}
            await cluster.client.patch(CONFIG_MAPS, "kueue-manager-config", NAMESPACE, patch)
            await cluster.client.patch(DEPLOYMENTS, "kueue-controller-manager", NAMESPACE, again)
            await cluster.advance(3)
            assert counted() == []
            await cluster.client.create(*job("b"))
            await cluster.advance(3)
            [line] = counted()
            assert 'custom_team=""' in line

    run_virtual(main)


async def edit_and_restart(cluster: VirtualCluster, document: Obj) -> None:
    patch = {"data": {"controller_manager_config.yaml": yaml.safe_dump(document)}}
    await cluster.client.patch(CONFIG_MAPS, "kueue-manager-config", NAMESPACE, patch)
    await cluster.client.patch(DEPLOYMENTS, "kueue-controller-manager", NAMESPACE, RESTART)
    await cluster.advance(3)


def test_a_restart_puts_the_changed_configuration_in_force_for_dispatch_too() -> None:
    async def main() -> None:
        cluster = VirtualCluster([set_up_operators])
        dispatching = Dispatching(cast(Any, None), lambda: cluster.store.revision, None)
        Installation(cluster.manager, {"multiKueue": {"origin": "one"}}, (dispatching,))
        async with cluster:
            await cluster.advance(3)
            assert dispatching.listing == PodListing.LISTED
            _, feed = await dispatching.follow(0)
            await edit_and_restart(cluster, {"corral": {"remotePods": "OnRequest"}})
            assert dispatching.listing == PodListing.ON_REQUEST
            assert feed.poll() == []
            feed.close()

    run_virtual(main)


def test_pods_are_ready_when_the_controllers_of_their_restart_run() -> None:
    async def main() -> None:
        cluster = VirtualCluster([set_up_operators])
        dispatching = Dispatching(cast(Any, None), lambda: cluster.store.revision, None)
        Installation(cluster.manager, None, (dispatching,))
        async with cluster:
            await cluster.advance(3)
            [first] = (await cluster.client.list(PODS, NAMESPACE)).items
            await edit_and_restart(cluster, {"corral": {"remotePods": "Nonsense"}})
            pods = (await cluster.client.list(PODS, NAMESPACE)).items
            ready = {pod["metadata"]["uid"]: conditions.is_true(pod, "Ready") for pod in pods}
            assert len(ready) == 2
            assert [uid for uid in ready if ready[uid]] == [first["metadata"]["uid"]]
            told = [event["message"] for event in (await cluster.client.list(EVENTS, NAMESPACE)).items]
            assert [message for message in told if "Nonsense" in message]

            good = {"data": {"controller_manager_config.yaml": "corral: {remotePods: OnRequest}"}}
            await cluster.client.patch(CONFIG_MAPS, "kueue-manager-config", NAMESPACE, good)
            await cluster.advance(20)
            [pod] = (await cluster.client.list(PODS, NAMESPACE)).items
            assert conditions.is_true(pod, "Ready")
            assert pod["metadata"]["uid"] != first["metadata"]["uid"]
            assert dispatching.listing == PodListing.ON_REQUEST

    run_virtual(main)


@pytest.mark.parametrize("editor", ["kubectl-edit", "corral-stand-in"])
def test_only_an_edited_config_map_beats_what_the_cluster_is_started_with(editor: str) -> None:
    async def main() -> None:
        made: list[Installation] = []
        start = {"manageJobsWithoutQueueName": False}
        cluster = VirtualCluster([set_up_operators, lambda manager: made.append(Installation(manager, start))])
        data = {"controller_manager_config.yaml": "manageJobsWithoutQueueName: true"}
        held = {"metadata": {"name": "kueue-manager-config", "namespace": NAMESPACE}, "data": data}
        await cluster.client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        await cluster.client.create(CONFIG_MAPS, held, manager=editor)
        async with cluster:
            [installation] = made
            await cluster.advance(3)
            wins = editor == "kubectl-edit"
            assert installation.queueing.config.manage_jobs_without_queue_name is wins
            now = await cluster.client.get(CONFIG_MAPS, "kueue-manager-config", NAMESPACE)
            said = yaml.safe_load(now["data"]["controller_manager_config.yaml"])
            assert said["manageJobsWithoutQueueName"] is wins

    run_virtual(main)


def test_pods_left_by_an_earlier_process_have_restarted_with_this_one() -> None:
    async def main() -> None:
        _, cluster = install(set_up_operators)
        async with cluster:
            await cluster.advance(3)
            await cluster.manager.stop()
            again = Manager(cluster.client, cluster.manager.clock, cluster.manager.random)
            set_up_operators(again)
            Installation(again)
            await again.start()
            await cluster.advance(3)
            [pod] = (await cluster.client.list(PODS, NAMESPACE)).items
            assert conditions.is_true(pod, "Ready")
            assert [entry["restartCount"] for entry in pod["status"]["containerStatuses"]] == [1, 1]
            await again.stop()

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


def test_settings_without_effect_are_told_in_events_and_kept_where_status_looks() -> None:
    wanted = "the feature gate TLSOptions has no effect in Corral"
    document = {"featureGates": {"TLSOptions": False, "PartialAdmission": False}, "queueVisibility": {}}

    async def main() -> None:
        cluster = VirtualCluster([set_up_operators])
        Installation(cluster.manager, document)
        async with cluster:
            await cluster.advance(3)
            told = [event["message"] for event in (await cluster.client.list(EVENTS, NAMESPACE)).items]
            assert [message for message in told if message.startswith(wanted)]
            kept = sentences(await cluster.client.get(CONFIG_MAPS, NAME, "kube-system"))
            assert [line.split(":")[0] for line in kept] == [
                "the field queueVisibility has no effect in Corral",
                wanted,
            ]
            await cluster.client.patch(
                CONFIG_MAPS, "kueue-manager-config", NAMESPACE, {"data": {"controller_manager_config.yaml": "{}"}}
            )
            await cluster.client.patch(DEPLOYMENTS, "kueue-controller-manager", NAMESPACE, RESTART)
            await cluster.advance(3)
            assert sentences(await cluster.client.get(CONFIG_MAPS, NAME, "kube-system")) == []

    run_virtual(main)


@pytest.mark.parametrize("open_", [True, False])
def test_the_visibility_gate_opens_the_api_of_who_waits(open_: bool) -> None:
    async def main() -> None:
        cluster = VirtualCluster([set_up_operators])
        installation = Installation(cluster.manager, {"featureGates": {"VisibilityOnDemand": open_}})
        request = ExtraRequest(CLUSTER_QUEUE, "v1beta1", "", "nobody", "pendingworkloads", UserInfo("me"), None, {})
        async with cluster:
            await cluster.advance(1)
            with pytest.raises(NotFound) as refused:
                await installation.visibility.get(request)
            assert ("VisibilityOnDemand is off" in str(refused.value)) is not open_

    run_virtual(main)


def test_webhooks_of_an_installed_kueue_do_not_stand_in_the_way() -> None:
    """Corral admits itself what these webhooks are about; behind their Service there is only its own API server."""
    service = {"namespace": NAMESPACE, "name": WEBHOOK_SERVICE, "path": "/mutate-batch-v1-job"}
    rule = {"apiGroups": ["batch"], "apiVersions": ["v1"], "resources": ["jobs"], "operations": ["CREATE", "UPDATE"]}
    webhook = {
        "name": "mjob.kb.io",
        "clientConfig": {"service": service},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }

    async def main() -> None:
        _, cluster = install(set_up_operators)
        api, nobody = cluster.api, cast(Any, None)  # no webhook has conditions, and none may be called
        api.chain.plugins.append(Webhooks(api.store, api.serving, api.random, nobody, nobody, {WEBHOOK_SERVICE}))
        async with cluster:
            await cluster.client.create(SERVICES, KUBERNETES)
            await cluster.advance(3)
            for kind in (MUTATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOK_CONFIGURATION):
                await cluster.client.create(kind.resource(), {"metadata": {"name": "kueue"}, "webhooks": [webhook]})
            await cluster.client.create(*job("a"))

    run_virtual(main)
