"""The Deployments of operators that run in the API server's process."""

from __future__ import annotations

import pytest

from corral.clusters.operator_installations import InstalledAgain, OperatorInstallations
from corral.clusters.operators import set_up_operators
from corral.core import conditions
from corral.core.meta import Obj, status_of
from corral.kinds.kubernetes.apps.kinds import DEPLOYMENTS
from corral.kinds.kubernetes.core.kinds import NAMESPACES, PODS
from corral.runtime.controller import Manager
from corral.runtime.virtual import run_virtual
from corral.testing.cluster import VirtualCluster

INSTALLED = [
    ("appwrapper-system", "appwrapper-controller-manager"),
    ("jobset-system", "jobset-controller-manager"),
    ("kubeflow", "training-operator"),
    ("kubeflow-system", "kubeflow-trainer-controller-manager"),
    ("lws-system", "lws-controller-manager"),
    ("mpi-operator", "mpi-operator"),
]


@pytest.mark.parametrize(("namespace", "name"), INSTALLED)
def test_an_operator_has_its_deployment_with_a_pod_that_runs_and_has_not_restarted(namespace: str, name: str) -> None:
    async def main() -> None:
        async with VirtualCluster([set_up_operators, OperatorInstallations]) as cluster:
            await cluster.advance(5)
            held = await cluster.client.get(DEPLOYMENTS, name, namespace)
            assert conditions.is_true(held, "Available")
            assert status_of(held)["availableReplicas"] == status_of(held)["replicas"] == 1
            (pod,) = (await cluster.client.list(PODS, namespace)).items
            assert conditions.is_true(pod, "Ready")
            assert [entry["restartCount"] for entry in status_of(pod)["containerStatuses"]] == [0]

    run_virtual(main)


def test_an_operator_in_the_namespace_of_users_is_available_without_a_pod_among_theirs() -> None:
    async def main() -> None:
        async with VirtualCluster([set_up_operators, OperatorInstallations]) as cluster:
            await cluster.advance(5)
            held = await cluster.client.get(DEPLOYMENTS, "kuberay-operator", "default")
            assert conditions.is_true(held, "Available")
            assert not (await cluster.client.list(PODS, "default")).items

    run_virtual(main)


def test_what_somebody_made_under_such_a_name_is_left_alone() -> None:
    async def main() -> None:
        labels = {"app": "mine"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "mine"}]}}
        spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
        async with VirtualCluster([set_up_operators]) as cluster:
            await cluster.client.create(NAMESPACES, {"metadata": {"name": "mpi-operator"}})
            metadata = {"name": "mpi-operator", "namespace": "mpi-operator"}
            made = await cluster.client.create(DEPLOYMENTS, {"metadata": metadata, "spec": spec})
            OperatorInstallations(cluster.manager)
            await cluster.advance(5)
            held = await cluster.client.get(DEPLOYMENTS, "mpi-operator", "mpi-operator")
            assert held["spec"] == made["spec"]

    run_virtual(main)


JOB_SET = ("jobset-controller-manager", {"control-plane": "controller-manager"})


def _operator(name: str, labels: dict[str, str], namespace: str) -> Obj:
    """A Deployment as the manifests of an operator have it."""
    container = {"name": "manager", "image": "registry.example/operator:v1", "command": ["/manager"]}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


def test_an_operator_that_is_installed_in_another_namespace_stands_for_the_same() -> None:
    async def main() -> None:
        plugins = [InstalledAgain()]
        async with VirtualCluster([set_up_operators, OperatorInstallations], plugins=plugins) as cluster:
            await cluster.client.create(NAMESPACES, {"metadata": {"name": "elsewhere"}})
            await cluster.client.create(DEPLOYMENTS, _operator(*JOB_SET, "elsewhere"))
            await cluster.advance(5)
            held = await cluster.client.get(DEPLOYMENTS, JOB_SET[0], "elsewhere")
            assert conditions.is_true(held, "Available")
            (pod,) = (await cluster.client.list(PODS, "elsewhere")).items
            assert not pod["spec"].get("nodeName")

    run_virtual(main)


def test_a_program_of_somebody_else_under_an_operators_name_is_started() -> None:
    async def main() -> None:
        async with VirtualCluster([set_up_operators], plugins=[InstalledAgain()]) as cluster:
            await cluster.client.create(NAMESPACES, {"metadata": {"name": "elsewhere"}})
            made = await cluster.client.create(DEPLOYMENTS, _operator(JOB_SET[0], {"app": "mine"}, "elsewhere"))
            assert made["spec"]["template"]["spec"]["schedulerName"] == "default-scheduler"

    run_virtual(main)


@pytest.mark.parametrize(("role", "name"), [("hub", "hub-agent"), ("member", "member-agent")])
def test_an_agent_has_its_deployment_where_its_role_is_carried_out_and_can_be_installed_again(
    role: str, name: str
) -> None:
    def installations(manager: Manager) -> None:
        OperatorInstallations(manager, [role])

    async def main() -> None:
        async with VirtualCluster([set_up_operators, installations], plugins=[InstalledAgain([role])]) as cluster:
            await cluster.advance(5)
            assert conditions.is_true(await cluster.client.get(DEPLOYMENTS, name, "fleet-system"), "Available")
            # A chart puts the name of its release before it, or beside it.
            labels = {"app.kubernetes.io/name": name, "app.kubernetes.io/instance": "prod"}
            await cluster.client.create(DEPLOYMENTS, _operator(f"prod-{name}", labels, "fleet-system"))
            await cluster.advance(5)
            held = await cluster.client.get(DEPLOYMENTS, f"prod-{name}", "fleet-system")
            assert conditions.is_true(held, "Available")
            found = {entry["metadata"]["name"] for entry in (await cluster.client.list(DEPLOYMENTS)).items}
            others = {"hub-agent", "member-agent"} - {name}
            assert not found & others

    run_virtual(main)
