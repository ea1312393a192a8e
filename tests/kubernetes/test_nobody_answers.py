"""Corral's webhooks are registered at a real kube-apiserver, and nobody answers them: what passes, what waits, and who is not asked.

The table is made of what is registered, so that a kind without an example fails."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "conformance"))

from cluster import ControlPlane, eventually, programs
from job_examples import BATCH_JOBS
from prometheus_client.parser import text_string_to_metric_families
from test_job_adapters import METADATA, POD, ROWS
from tests import waiting

from corral.client.http import HttpClient
from corral.client.sync import SyncClient
from corral.clusters.definitions import established, install
from corral.clusters.webhooks.configurations import MUTATING_NAME, VALIDATING_NAME
from corral.clusters.webhooks.service import WebhookService, WebhookSettings
from corral.core.errors import ApiError
from corral.core.meta import Obj, name_of
from corral.core.resource import Resource
from corral.jobs.framework.registry import known_frameworks
from corral.jobs.framework.served_kinds import native_kinds
from corral.kinds.kubernetes.admissionregistration.kinds import (
    MUTATING_WEBHOOK_CONFIGURATIONS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
)
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.kinds.kueue import LOCAL_QUEUES
from corral.kinds.kueue.names import GROUP
from corral.runtime.clock import WallClock

BINARIES = programs()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(BINARIES is None, reason="no real kube-apiserver here; `make kube-tools` builds one"),
    pytest.mark.timeout(600),
]
MANAGED, DEFAULTED, OTHER = "default", "defaulted", "other"
CONFIGURATION: Obj = {
    "managedJobsNamespaceSelector": {
        "matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [OTHER]}]
    },
    "integrations": {"frameworks": known_frameworks()},
    "featureGates": {"VisibilityOnDemand": False},
}
"""The visibility API is an aggregated one: an API server asks by itself whether it is there, and no namespace ends until it is."""
QUEUE = {"kueue.x-k8s.io/queue-name": "user-queue"}
UNANSWERED = "failed calling webhook"


def set_of_pods(api_version: str, kind: str, spec: Obj) -> Obj:
    return {"apiVersion": api_version, "kind": kind, "metadata": METADATA, "spec": spec}


TEMPLATE = {**POD, "spec": {key: value for key, value in POD["spec"].items() if key != "restartPolicy"}}
REPLICATED = {"replicas": 1, "selector": {"matchLabels": {"app": "train"}}, "template": TEMPLATE}
SETS = [
    set_of_pods("apps/v1", "Deployment", REPLICATED),
    set_of_pods("apps/v1", "StatefulSet", {**REPLICATED, "serviceName": "train"}),
    set_of_pods(
        "leaderworkerset.x-k8s.io/v1",
        "LeaderWorkerSet",
        {"replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": TEMPLATE}},
    ),
]
EXAMPLES: dict[str, Obj] = {each["kind"].lower(): each for each in (*(row.job for row in ROWS), *SETS)}


def named(kind: str, name: str, namespace: str, labels: dict[str, str], **metadata: Any) -> Obj:
    """A job of the kind, with nothing about it that its kind does not ask for."""
    return {**EXAMPLES[kind], "metadata": {"name": name, "namespace": namespace, "labels": labels, **metadata}}


class Abandoned(NamedTuple):
    """A cluster that calls webhooks at a port where nobody listens."""

    client: SyncClient
    port: int
    hooks: dict[str, Obj]


@pytest.fixture(scope="module")
def abandoned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Abandoned]:
    assert BINARIES is not None
    plane = ControlPlane("abandoned", tmp_path_factory.mktemp("plane"), BINARIES)
    try:
        plane.start()
        client = SyncClient.from_kubeconfig(plane.kubeconfig)
        for name in (DEFAULTED, OTHER):
            client.create(NAMESPACES, {"metadata": {"name": name}})
        port = asyncio.run(registered_and_left(plane))
        queue = {"metadata": {"name": "default", "namespace": DEFAULTED}, "spec": {"clusterQueue": "team"}}
        client.create(LOCAL_QUEUES, queue)
        found = Abandoned(client, port, hooks_of(client))
        waiting.eventually(lambda: said_of(found, "job", DEFAULTED, {}), what="the rules are in force")
        yield found
        client.close()
    finally:
        plane.stop()


async def registered_and_left(plane: ControlPlane) -> int:
    """Serve webhooks until the API server calls them; the port they were at."""
    client = HttpClient.from_kubeconfig(plane.kubeconfig)
    done = await install(client, groups=tuple({kind.group for kind in native_kinds()}))
    await established(client, WallClock(), done.created)
    settings = WebhookSettings(host="127.0.0.1", port=0, external_name="localhost")
    service = WebhookService(client, CONFIGURATION, settings)
    await service.start()
    registering = asyncio.ensure_future(service.keep_registered())
    try:
        await eventually(lambda: _is_suspended(client))
        for resource, obj in service.registered().manifests():
            await eventually(lambda resource=resource, obj=obj: client.get(resource, name_of(obj)))
        await client.create(BATCH_JOBS, named("job", "leaving", MANAGED, QUEUE, finalizers=["example.com/hold"]))
    finally:
        registering.cancel()
        await asyncio.gather(registering, return_exceptions=True)
        await service.stop()
        await client.close()
    return service.port


async def _is_suspended(client: HttpClient) -> bool:
    plain = named("job", "probe", MANAGED, QUEUE)
    made = await client.create(BATCH_JOBS, {**plain, "spec": {"template": POD}}, dry_run=True)
    return bool(made["spec"]["suspend"])


def hooks_of(client: SyncClient) -> dict[str, Obj]:
    found = client.get(MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING_NAME)["webhooks"]
    found += client.get(VALIDATING_WEBHOOK_CONFIGURATIONS, VALIDATING_NAME)["webhooks"]
    return {hook["name"]: hook for hook in found}


def kind_of(hook: Obj) -> str:
    return str(hook["name"].removeprefix("unmarked-").removesuffix(".kb.io")[1:])


def said_of(cluster: Abandoned, kind: str, namespace: str, labels: dict[str, str]) -> str:
    """What is said against a new job; "" when it is let in."""
    example = EXAMPLES[kind]
    try:
        cluster.client.create(resource_of(cluster, kind), named(kind, "tried", namespace, labels), dry_run=True)
    except ApiError as error:
        return f"{example['kind']}: {error.message}"
    return ""


def resource_of(cluster: Abandoned, kind: str) -> Resource:
    """In the version that is asked about."""
    (rule,) = cluster.hooks[f"m{kind}.kb.io"]["rules"]
    return Resource(rule["apiGroups"][0], rule["apiVersions"][0], rule["resources"][0], EXAMPLES[kind]["kind"])


every_kind = pytest.mark.parametrize("kind", sorted(EXAMPLES))


def test_every_registered_webhook_is_of_a_kind_in_the_table_or_of_the_queues_themselves(abandoned: Abandoned) -> None:
    of_queues = {hook["name"] for hook in abandoned.hooks.values() if hook["rules"][0]["apiGroups"] == [GROUP]}
    asked = {kind_of(hook) for name, hook in abandoned.hooks.items() if name not in of_queues}
    assert asked == set(EXAMPLES)
    assert len(of_queues) == 6


@every_kind
def test_a_job_that_names_a_queue_waits_for_an_answer(abandoned: Abandoned, kind: str) -> None:
    assert UNANSWERED in said_of(abandoned, kind, MANAGED, QUEUE)


@every_kind
def test_a_job_that_names_no_queue_is_made_changed_and_deleted(abandoned: Abandoned, kind: str) -> None:
    resource, client = resource_of(abandoned, kind), abandoned.client
    client.create(resource, named(kind, "free", MANAGED, {}))
    client.patch(resource, "free", MANAGED, {"metadata": {"annotations": {"seen": "yes"}}})
    with pytest.raises(ApiError, match=UNANSWERED):
        client.patch(resource, "free", MANAGED, {"metadata": {"labels": QUEUE}})
    client.delete(resource, "free", MANAGED)


@every_kind
def test_nobody_is_asked_about_jobs_of_a_namespace_that_is_not_managed(abandoned: Abandoned, kind: str) -> None:
    def is_nobody_asked() -> bool:
        before = calls(abandoned)
        assert said_of(abandoned, kind, OTHER, QUEUE) == ""
        assert said_of(abandoned, kind, OTHER, {}) == ""
        return calls(abandoned) == before

    # Kubernetes' own controllers are at work, too: about the pods of other jobs somebody may be asked in the same moment.
    waiting.eventually(is_nobody_asked, what="a moment in which nobody was asked")


def calls(cluster: Abandoned) -> dict[str, float]:
    """How often the API server has called each webhook, as it counts itself."""
    said = cluster.client.call("GET", "/metrics", accept="text/plain")
    return {
        sample.labels["name"]: sample.value
        for family in text_string_to_metric_families(said["text"])
        if family.name == "apiserver_admission_webhook_admission_duration_seconds"
        for sample in family.samples
        if sample.name.endswith("_count")
    }


def test_a_job_that_names_no_queue_does_not_wait_for_one_who_never_answers(abandoned: Abandoned) -> None:
    before = calls(abandoned).get("unmarked-mjob.kb.io", 0)
    with silence(abandoned.port):
        assert said_of(abandoned, "job", MANAGED, {}) == ""
    assert calls(abandoned)["unmarked-mjob.kb.io"] == before + 1


def test_a_queued_job_that_is_being_deleted_can_be_cleaned_up(abandoned: Abandoned) -> None:
    client = abandoned.client
    client.delete(BATCH_JOBS, "leaving", MANAGED)
    client.patch(BATCH_JOBS, "leaving", MANAGED, {"metadata": {"finalizers": None}})
    waiting.eventually(lambda: "leaving" not in names(client, BATCH_JOBS), what="the end of the job")


def names(client: SyncClient, resource: Resource) -> list[str]:
    return [name_of(each) for each in client.list(resource)["items"]]


def test_a_namespace_can_be_deleted(abandoned: Abandoned) -> None:
    client = abandoned.client
    client.create(NAMESPACES, {"metadata": {"name": "short-lived"}})
    client.create(BATCH_JOBS, named("job", "free", "short-lived", {}))
    client.delete(NAMESPACES, "short-lived")
    waiting.eventually(lambda: "short-lived" not in names(client, NAMESPACES), what="the end of the namespace")


def test_a_job_for_the_default_queue_of_its_namespace_does_not_start(abandoned: Abandoned) -> None:
    assert "a new job names a queue in a namespace with a LocalQueue 'default'" in said_of(
        abandoned, "job", DEFAULTED, {}
    )
    assert UNANSWERED in said_of(abandoned, "job", DEFAULTED, QUEUE)
    assert said_of(abandoned, "deployment", DEFAULTED, {}) == ""


@contextmanager
def silence(port: int) -> Iterator[None]:
    """Connections to the port are made, and nobody says anything."""
    with socket.create_server(("127.0.0.1", port)):
        yield
