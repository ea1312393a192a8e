"""Deployments of `deploy/` in memory: the process that `corral controllers run` starts, under the account of the manifests and their roles,
over an API that enforces RBAC, on virtual time, with something to do for each of its roles."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

import yaml

sys.path.insert(0, str(Path(__file__).parents[2]))

from tools.deployment.held import SHIPPED_WITH, Cell, Held, role_documents
from tools.deployment.rights import EVERYTHING

from corral.client.protocol import Client
from corral.clusters.process.configuration_in_force import CONFIG_KEY, CONFIG_MAP, ConfigMapOrigin, ConfigurationInForce
from corral.clusters.process.controllers_process import ControllersProcess, ProcessSettings
from corral.clusters.process.roles import DISPATCH, HUB, MEMBER, QUEUEING, WEBHOOKS
from corral.clusters.webhooks.certificate_secret import NAME as CERTIFICATES
from corral.clusters.webhooks.configurations import HUB_NAMES, QUEUEING_NAMES
from corral.clusters.webhooks.service import SERVICE_NAME, WebhookSettings
from corral.controllers.member.connection import FIELD, SECRET
from corral.core.admission import UserInfo
from corral.core.errors import NotFound
from corral.core.identity import service_account
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.fleet import CLUSTER_PROFILES, INTERNAL_MEMBER_CLUSTERS, MEMBER_CLUSTERS, WORKS
from corral.kinds.kubernetes.admissionregistration.kinds import MUTATING_WEBHOOK_CONFIGURATIONS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, NAMESPACES, SECRETS, SERVICES
from corral.kinds.kubernetes.networking.endpoint_slices import ENDPOINT_SLICES
from corral.kinds.kubernetes.rbac import ROLE_BINDINGS, ROLES
from corral.kinds.kueue import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    MULTI_KUEUE_CLUSTERS,
    PROVISIONING_REQUEST_CONFIGS,
    RESOURCE_FLAVORS,
    names,
)
from corral.kinds.kueue.provisioning import PROVISIONING_REQUESTS
from corral.runtime.virtual import run_virtual
from corral.server.access.authorization import Authorizer
from corral.server.access.bootstrap import ensure_role
from corral.server.access.permissions import Permissions
from corral.server.local import LocalClient
from corral.testing import VirtualCluster

KUEUE, FLEET = "kueue-system", "fleet-system"
A_WHILE_S = 60.0


@dataclass(frozen=True)
class Deployment:
    """Pods of one account, and the roles that they carry out."""

    carried_out: Sequence[str]
    user: UserInfo


DEPLOYMENTS = {
    "manager": Deployment((QUEUEING, DISPATCH, WEBHOOKS), service_account("corral", KUEUE)),
    "worker": Deployment((QUEUEING, WEBHOOKS), service_account("corral", KUEUE)),
    "hub": Deployment((HUB, WEBHOOKS), service_account("corral-hub", FLEET)),
    "member": Deployment((MEMBER,), service_account("corral-member", FLEET)),
}


class Noting(LocalClient):
    """A client in memory that keeps what it was asked to do."""

    def __init__(self, cluster: VirtualCluster, user: UserInfo) -> None:
        super().__init__(cluster.api, user, permissions=Permissions(Authorizer(cluster.store), user))
        self.allowed: set[Cell] = set()
        self.refused: set[Cell] = set()

    def _require(
        self, verb: str, resource: Resource, namespace: str = "", name: str = "", subresource: str = ""
    ) -> None:
        plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
        found = Cell(verb, resource.group, plural)
        try:
            super()._require(verb, resource, namespace, name, subresource)
        except Exception:
            self.refused.add(found)
            raise
        self.allowed.add(found)


class Outcome(NamedTuple):
    """What a deployment did, what it was refused, and whether all its work was done."""

    done: set[Cell]
    refused: set[Cell]
    works: bool


def carried_out(name: str, without: Held | None = None) -> Outcome:
    """A deployment for a while, with all of its rules but one."""

    async def main() -> Outcome:
        deployment = DEPLOYMENTS[name]
        async with VirtualCluster(namespaces=("default", "kube-system", KUEUE, FLEET)) as cluster:
            for file in SHIPPED_WITH[name]:
                for role in role_documents(file, without):
                    await ensure_role(cluster.api, role)
            await fill(cluster.client, name)
            client = Noting(cluster, deployment.user)
            process = process_of(deployment, cluster, client)
            running = asyncio.ensure_future(process.run())
            try:
                await cluster.clock.sleep(A_WHILE_S)
                await change(cluster.client, name)
                await cluster.clock.sleep(A_WHILE_S)
                return Outcome(client.allowed, client.refused, await works(cluster.client, name))
            finally:
                running.cancel()
                # One that may not read how it is configured has ended.
                await asyncio.gather(running, return_exceptions=True)

    return run_virtual(main)


@cache
def as_shipped(name: str) -> Outcome:
    return carried_out(name)


def process_of(deployment: Deployment, cluster: VirtualCluster, client: Client) -> ControllersProcess:
    namespace = deployment.user.name.split(":")[2]
    return ControllersProcess(
        client,
        ConfigurationInForce(ConfigMapOrigin(client, cluster.clock, namespace), namespace),
        ProcessSettings(
            deployment.carried_out, "pod", member_name="east", webhooks=WebhookSettings(host="localhost", port=0)
        ),
        connect=lambda access: cluster.client,
        connect_hub=lambda access: cluster.client,
        clock=cluster.clock,
    )


# what there is to do

GATES = {"MultiKueueClusterProfile": True, "MultiKueueManagerQuotaAutomation": True}
CONFIGURATION: Obj = {**EVERYTHING, "featureGates": {**EVERYTHING["featureGates"], **GATES}}
CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
HUB_ACCESS = "{clusters: [{name: hub, cluster: {server: 'https://hub'}}], users: [{name: hub, user: {token: t}}], contexts: [{name: hub, context: {cluster: hub, user: hub}}], current-context: hub}"  # fmt: skip
PLACED: Obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "placed", "namespace": "default"}}
IDENTITY = {"kind": "ServiceAccount", "name": "m", "namespace": FLEET}


def written(configuration: Obj) -> Obj:
    return {"data": {CONFIG_KEY: yaml.safe_dump(configuration)}}


async def fill(client: Client, name: str) -> None:
    """Something to do for each role; jobs are not queued before the configuration changes."""
    for namespace in (KUEUE, FLEET):
        metadata = {"name": CONFIG_MAP, "namespace": namespace}
        await client.create(CONFIG_MAPS, {"metadata": metadata, **written({"integrations": {"frameworks": ["pod"]}})})
        await client.create(
            SERVICES, {"metadata": {"name": SERVICE_NAME, "namespace": namespace}, "spec": {"ports": [{"port": 443}]}}
        )
        await client.create(ENDPOINT_SLICES, {**SOMEBODY, "metadata": {**SOMEBODY["metadata"], "namespace": namespace}})
    if name == "hub":
        for member in ("east", "west"):
            await client.create(MEMBER_CLUSTERS, {"metadata": {"name": member}, "spec": {"identity": IDENTITY}})
        outdated = {"displayName": "outdated", "clusterManager": {"name": "somebody"}}
        await client.create(CLUSTER_PROFILES, {"metadata": {"name": "east", "namespace": FLEET}, "spec": outdated})
    elif name == "member":
        await fill_a_member(client)
    else:
        await fill_a_queue(client)
        # Certificates that cannot be read are made again.
        await client.create(SECRETS, {"metadata": {"name": CERTIFICATES, "namespace": KUEUE}, "stringData": {"a": "b"}})


SOMEBODY: Obj = {
    "metadata": {"name": "somebody", "labels": {"kubernetes.io/service-name": SERVICE_NAME}},
    "addressType": "IPv4",
    "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": True}}],
    "ports": [{"name": "webhooks", "port": 9443, "protocol": "TCP"}],
}


async def fill_a_queue(client: Client) -> None:
    """A job that starts, and one that waits for an autoscaler."""
    config = {"apiGroup": names.GROUP, "kind": PROVISIONING_REQUEST_CONFIGS.kind, "name": "autoscaler"}
    check = {"controllerName": names.PROVISIONING_CONTROLLER, "parameters": config}
    secret = {"kubeConfig": {"location": "west", "locationType": "Secret"}}
    for resource, name, spec in (
        (RESOURCE_FLAVORS, "default", {}),
        (PROVISIONING_REQUEST_CONFIGS, "autoscaler", {"provisioningClassName": "class"}),
        (ADMISSION_CHECKS, "autoscaler", check),
        (MULTI_KUEUE_CLUSTERS, "west", {"clusterSource": secret}),
    ):
        await client.create(resource, {"metadata": {"name": name}, "spec": spec})
    await make_queue(client, "plain", [])
    await make_queue(client, "growing", ["autoscaler"])
    closed = {"name": "closed", "finalizers": [names.RESOURCE_IN_USE]}
    await client.create(CLUSTER_QUEUES, {"metadata": closed, "spec": {"namespaceSelector": {}}})


async def make_queue(client: Client, name: str, checks: list[str]) -> None:
    """A queue and a job in it."""
    resources = [{"name": "cpu", "nominalQuota": "1"}]
    group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": resources}]}
    asked = {"admissionChecks": [{"name": check} for check in checks]} if checks else None
    queue = {"namespaceSelector": {}, "resourceGroups": [group], "admissionChecksStrategy": asked}
    metadata = {"name": name, "namespace": "default"}
    await client.create(CLUSTER_QUEUES, {"metadata": {"name": name}, "spec": queue})
    await client.create(LOCAL_QUEUES, {"metadata": metadata, "spec": {"clusterQueue": name}})
    template = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
    job = {**metadata, "labels": {names.QUEUE_NAME: name}}
    await client.create(JOBS, {"metadata": job, "spec": {"suspend": True, "template": template}})


async def fill_a_member(client: Client) -> None:
    """Its hub is the same API here."""
    namespace = "fleet-member-east"
    await client.create(NAMESPACES, {"metadata": {"name": namespace}})
    await client.create(SECRETS, {"metadata": {"name": SECRET, "namespace": FLEET}, "stringData": {FIELD: HUB_ACCESS}})
    state = {"state": "Join", "heartbeatPeriodSeconds": 60}
    await client.create(INTERNAL_MEMBER_CLUSTERS, {"metadata": {"name": "east", "namespace": namespace}, "spec": state})
    work = {"metadata": {"name": "work", "namespace": namespace}, "spec": {"workload": {"manifests": [PLACED]}}}
    await client.create(WORKS, work)


async def change(client: Client, name: str) -> None:
    """Another configuration, which queues jobs; and what was made is changed by somebody else or not wanted any more."""
    for namespace in (KUEUE, FLEET):
        await client.patch(CONFIG_MAPS, CONFIG_MAP, namespace, written(CONFIGURATION))
    if name in ("manager", "worker"):
        await client.delete(CLUSTER_QUEUES, "closed")
    if name == "hub":
        with suppress(NotFound):  # a hub that may not read has given nobody anything
            await spoil(client)


async def spoil(client: Client) -> None:
    """Take from a member what it was given, and let another one go."""
    namespace = "fleet-member-east"
    await client.patch(ROLES, "fleet-role-east", namespace, {"rules": []})
    await client.patch(ROLE_BINDINGS, "fleet-rolebinding-east", namespace, {"subjects": []})
    await client.patch(NAMESPACES, namespace, "", {"metadata": {"labels": None}})
    joined = {"type": "Joined", "status": "True", "reason": "Joined", "message": "", "lastTransitionTime": EARLY}
    internal = await client.get(INTERNAL_MEMBER_CLUSTERS, "east", namespace)
    told = {"type": "MemberAgent", "conditions": [joined], "lastReceivedHeartbeat": EARLY}
    await client.update(INTERNAL_MEMBER_CLUSTERS, {**internal, "status": {"agentStatus": [told]}}, subresource="status")
    await client.delete(MEMBER_CLUSTERS, "west")


EARLY = "1970-01-01T00:00:00Z"


async def is_started(client: Client, job: str) -> bool:
    return not (await client.get(JOBS, job, "default"))["spec"]["suspend"]


async def works(client: Client, name: str) -> bool:
    """Whether what there is to do was done, webhooks too."""
    try:
        if name == "hub":
            await client.get(INTERNAL_MEMBER_CLUSTERS, "east", "fleet-member-east")
        elif name == "member":
            await client.get(CONFIG_MAPS, "placed", "default")
        elif not (await is_started(client, "plain") and (await client.list(PROVISIONING_REQUESTS)).items):
            return False
        if WEBHOOKS in DEPLOYMENTS[name].carried_out:
            registered = HUB_NAMES if name == "hub" else QUEUEING_NAMES
            await client.get(MUTATING_WEBHOOK_CONFIGURATIONS, registered.mutating)
    except NotFound:
        return False
    return True
