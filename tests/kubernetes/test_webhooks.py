"""Corral's webhooks at a real kube-apiserver: registered by ourselves, and what they change, refuse and convert."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from cluster import USER_TOKEN, ControlPlane, eventually, programs

from corral.client.http import HttpClient
from corral.clusters.definitions import install
from corral.clusters.webhooks.certificates import Terms
from corral.clusters.webhooks.configurations import MUTATING_NAME, VALIDATING_NAME
from corral.clusters.webhooks.service import WebhookService, WebhookSettings
from corral.core.errors import ApiError, Forbidden, NotFound
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.admissionregistration.kinds import (
    MUTATING_WEBHOOK_CONFIGURATIONS,
    VALIDATING_WEBHOOK_CONFIGURATIONS,
)
from corral.kinds.kubernetes.core.kinds import PODS, SECRETS
from corral.kinds.kubernetes.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES
from corral.kinds.kueue import ADMISSION_CHECKS, CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, WORKLOADS

BINARIES = programs()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(BINARIES is None, reason="no real kube-apiserver here; `make kube-tools` builds one"),
    pytest.mark.timeout(600),
]
QUEUE = {"kueue.x-k8s.io/queue-name": "user-queue"}
GROUPS = ("kueue.x-k8s.io", "kubeflow.org", "jobset.x-k8s.io")
PYTORCH_JOBS = Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob")
JOB_SETS = Resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet")
FRAMEWORKS = ["batch/job", "kubeflow.org/pytorchjob", "jobset.x-k8s.io/jobset", "pod"]
CONFIGURATION = {"integrations": {"frameworks": FRAMEWORKS}}
LOCAL = WebhookSettings(host="127.0.0.1", port=0, external_name="localhost")


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    assert BINARIES is not None
    made = ControlPlane("webhooks", tmp_path_factory.mktemp("plane"), BINARIES)
    try:
        made.start()
        yield made
    finally:
        made.stop()


@asynccontextmanager
async def serving(plane: ControlPlane, settings: WebhookSettings = LOCAL) -> AsyncIterator[HttpClient]:
    """A client of a cluster that calls our webhooks."""
    client = HttpClient.from_kubeconfig(plane.kubeconfig)
    await install(client, groups=GROUPS)
    await eventually(lambda: _lists(client, WORKLOADS, PYTORCH_JOBS, JOB_SETS))
    service = WebhookService(client, CONFIGURATION, settings)
    await service.start()
    leading = asyncio.ensure_future(service.keep_registered())
    try:
        await eventually(lambda: _is_registered(client, service))
        yield client
    finally:
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)
        await service.stop()
        await client.close()


async def _lists(client: HttpClient, *resources: Resource) -> bool:
    for resource in resources:
        await client.list(resource)
    return True


async def _is_registered(client: HttpClient, service: WebhookService) -> bool:
    """The configurations are there with our port, and the API server acts on them."""
    for resource, name in (
        (MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING_NAME),
        (VALIDATING_WEBHOOK_CONFIGURATIONS, VALIDATING_NAME),
    ):
        found = await client.get(resource, name)
        ports = {hook["clientConfig"]["service"]["port"] for hook in found["webhooks"]}
        if ports != {service.port}:
            return False
    made = await client.create(JOBS, job("probe"), dry_run=True)
    return bool(made["spec"]["suspend"])


def pod_template() -> Obj:
    container = {"name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    return {"spec": {"restartPolicy": "Never", "containers": [container]}}


def meta(name: str, labels: dict[str, str] = QUEUE) -> Obj:
    return {"name": name, "namespace": "default", "labels": labels}


def job(name: str, labels: dict[str, str] = QUEUE) -> Obj:
    return {"metadata": meta(name, labels), "spec": {"template": pod_template()}}


def pytorch_job(name: str) -> Obj:
    template = pod_template()
    template["spec"]["containers"][0]["name"] = "pytorch"
    return {"metadata": meta(name), "spec": {"pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": template}}}}


def job_set(name: str) -> Obj:
    replicated = {"name": "main", "replicas": 1, "template": {"spec": {"template": pod_template()}}}
    return {"metadata": meta(name), "spec": {"replicatedJobs": [replicated]}}


async def test_jobs_of_every_kind_are_suspended_in_the_answer_to_their_creation(plane: ControlPlane) -> None:
    async with serving(plane) as client:
        assert (await client.create(JOBS, job("plain")))["spec"]["suspend"] is True
        made = await client.create(PYTORCH_JOBS, pytorch_job("torch"))
        assert made["spec"]["runPolicy"]["suspend"] is True
        assert (await client.create(JOB_SETS, job_set("set")))["spec"]["suspend"] is True
        assert (await client.create(JOBS, job("free", {})))["spec"]["suspend"] is False


async def test_pods_of_a_group_are_gated_in_the_answer_and_wrong_ones_refused_in_upstreams_words(
    plane: ControlPlane,
) -> None:
    grouped = {**QUEUE, "kueue.x-k8s.io/pod-group-name": "group"}
    pod: Obj = {"metadata": meta("one", grouped), **pod_template()}
    async with serving(plane) as client:
        pod["metadata"]["annotations"] = {"kueue.x-k8s.io/pod-group-total-count": "2"}
        made = await client.create(PODS, pod)
        assert {"name": "kueue.x-k8s.io/admission"} in made["spec"]["schedulingGates"]
        assert made["metadata"]["labels"]["kueue.x-k8s.io/managed"] == "true"
        with pytest.raises(Forbidden) as refused:
            await client.create(PODS, {"metadata": meta("two", grouped), **pod_template()})
        assert refused.value.message == (
            'admission webhook "vpod.kb.io" denied the request: metadata.annotations[kueue.x-k8s.io/pod-group-total-count]: '
            "Required value: both the 'kueue.x-k8s.io/pod-group-total-count' annotation and the "
            "'kueue.x-k8s.io/pod-group-name' label should be set"
        )
        unmarked = await client.create(PODS, {"metadata": meta("other", {}), **pod_template()})
        assert "schedulingGates" not in unmarked["spec"]


async def test_wrong_queues_and_jobs_are_refused_in_upstreams_words(plane: ControlPlane) -> None:
    async with serving(plane) as client:
        with pytest.raises(Forbidden) as refused:
            await client.create(JOBS, job("bad", {"kueue.x-k8s.io/queue-name": "Not_A_Name"}))
        assert refused.value.message.startswith(
            'admission webhook "vjob.kb.io" denied the request: metadata.labels[kueue.x-k8s.io/queue-name]: Invalid value: '
            '"Not_A_Name": a lowercase RFC 1123 subdomain must consist of'
        )
        resources = [{"name": "cpu", "nominalQuota": "1", "borrowingLimit": "1"}]
        group = {"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": resources}]}
        spec = {"namespaceSelector": {}, "resourceGroups": [group]}
        with pytest.raises(ApiError) as wrong:
            await client.create(CLUSTER_QUEUES, {"metadata": {"name": "lonely"}, "spec": spec})
        assert "borrowingLimit" in wrong.value.message


async def test_a_job_of_a_queue_that_dispatches_is_given_to_its_manager(plane: ControlPlane) -> None:
    async with serving(plane) as client:
        await client.create(RESOURCE_FLAVORS, {"metadata": {"name": "default"}, "spec": {}})
        check = {"metadata": {"name": "multikueue"}, "spec": {"controllerName": "kueue.x-k8s.io/multikueue"}}
        await client.create(ADMISSION_CHECKS, check)
        group = {
            "coveredResources": ["cpu"],
            "flavors": [{"name": "default", "resources": [{"name": "cpu", "nominalQuota": "4"}]}],
        }
        spec = {
            "namespaceSelector": {},
            "resourceGroups": [group],
            "admissionChecksStrategy": {"admissionChecks": [{"name": "multikueue"}]},
        }
        made = await client.create(CLUSTER_QUEUES, {"metadata": {"name": "dispatching"}, "spec": spec})
        assert made["metadata"]["finalizers"] == ["kueue.x-k8s.io/resource-in-use"]
        queue = {"metadata": {"name": "far", "namespace": "default"}, "spec": {"clusterQueue": "dispatching"}}
        await client.create(LOCAL_QUEUES, queue)
        far = await client.create(JOBS, job("far", {"kueue.x-k8s.io/queue-name": "far"}))
        assert far["spec"]["managedBy"] == "kueue.x-k8s.io/multikueue"


async def test_old_versions_of_objects_are_converted_and_lose_nothing(plane: ControlPlane) -> None:
    path = "/apis/kueue.x-k8s.io/v1beta1/clusterqueues"
    flavor = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": "4"}]}
    old: Obj = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "ClusterQueue",
        "metadata": {"name": "old"},
        "spec": {
            "namespaceSelector": {},
            "cohort": "team",
            "admissionChecks": ["check"],
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [flavor]}],
        },
    }
    async with serving(plane) as client:
        await eventually(lambda: _converts(client))
        await client.raw("POST", path, old)
        new = await client.get(CLUSTER_QUEUES, "old")
        assert new["spec"]["cohortName"] == "team"
        assert new["spec"]["admissionChecksStrategy"] == {"admissionChecks": [{"name": "check"}]}
        read = await client.raw("GET", f"{path}/old")
        assert read["spec"]["cohort"] == "team"
        read["spec"]["cohort"] = "other"
        await client.raw("PUT", f"{path}/old", read)
        assert (await client.get(CLUSTER_QUEUES, "old"))["spec"]["cohortName"] == "other"


async def _converts(client: HttpClient) -> bool:
    made = await client.raw(
        "POST",
        "/apis/kueue.x-k8s.io/v1beta1/clusterqueues?dryRun=All",
        {
            "apiVersion": "kueue.x-k8s.io/v1beta1",
            "kind": "ClusterQueue",
            "metadata": {"name": "asked"},
            "spec": {"cohort": "team", "namespaceSelector": {}},
        },
    )
    return bool(made["spec"].get("cohort") == "team")


async def test_the_visibility_api_is_answered_under_the_clusters_roles(plane: ControlPlane) -> None:
    path = "/apis/visibility.kueue.x-k8s.io/v1beta2/clusterqueues/seen/pendingworkloads"
    local = "/apis/visibility.kueue.x-k8s.io/v1beta1/namespaces/default/localqueues/seen/pendingworkloads"
    async with serving(plane) as client:
        await client.create(CLUSTER_QUEUES, {"metadata": {"name": "seen"}, "spec": {"namespaceSelector": {}}})
        queue = {"metadata": {"name": "seen", "namespace": "default"}, "spec": {"clusterQueue": "seen"}}
        await client.create(LOCAL_QUEUES, queue)
        for name, priority in (("second", 1), ("first", 10)):
            pod_set = {"name": "main", "count": 1, "template": pod_template()}
            spec = {"queueName": "seen", "priority": priority, "podSets": [pod_set]}
            await client.create(WORKLOADS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
        for url in (path, local):
            found = await eventually(lambda url=url: _pending(client, url))
            assert [item["metadata"]["name"] for item in found] == ["first", "second"]
        assert '"first"' in await asyncio.to_thread(kubectl, plane, "get", "--raw", path)
        refused = await asyncio.to_thread(kubectl, plane, "get", "--raw", path, f"--token={USER_TOKEN}", ok=False)
        assert 'User "alice" cannot get resource "clusterqueues/pendingworkloads"' in refused
        rules = [
            {
                "apiGroups": ["visibility.kueue.x-k8s.io"],
                "resources": ["clusterqueues/pendingworkloads"],
                "verbs": ["get"],
            }
        ]
        await client.create(CLUSTER_ROLES, {"metadata": {"name": "seer"}, "rules": rules})
        binding = {
            "metadata": {"name": "seer"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "seer"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
        }
        await client.create(CLUSTER_ROLE_BINDINGS, binding)
        await eventually(lambda: _sees(plane, path))


async def _pending(client: HttpClient, path: str) -> list[Obj]:
    items: list[Obj] = (await client.raw("GET", path))["items"]
    return items if len(items) == 2 else []


async def _sees(plane: ControlPlane, path: str) -> bool:
    said = await asyncio.to_thread(kubectl, plane, "get", "--raw", path, f"--token={USER_TOKEN}", ok=False)
    return '"first"' in said


def kubectl(plane: ControlPlane, *arguments: str, ok: bool = True) -> str:
    assert BINARIES is not None
    command = [str(BINARIES / "kubectl"), f"--kubeconfig={plane.kubeconfig}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=ok, timeout=120)
    return done.stdout + done.stderr


async def test_certificates_are_renewed_under_load_and_no_call_is_refused(plane: ControlPlane) -> None:
    """An authority lives for half a minute here: jobs are created without a pause until one has taken over from another."""
    quick = Terms(authority_s=30.0, serving_s=9.0, settle_s=4.0)
    settings = WebhookSettings(host="127.0.0.1", port=0, external_name="localhost", terms=quick)
    await forget_certificates(plane)
    bundles: set[str] = set()
    served: set[str] = set()
    async with serving(plane, settings) as client:
        for number in range(100_000):
            made = await client.create(JOBS, job(f"rotated-{number}"), dry_run=True)
            assert made["spec"]["suspend"] is True
            if number % 20 == 0:
                data = (await client.get(SECRETS, "corral-webhook-certificates", "kueue-system"))["data"]
                bundles.add(data["ca.crt"])
                served.add(data["tls.crt"])
            if len(bundles) >= 3:
                break
    assert len(bundles) >= 3, "the first authority, both, and the second"
    assert len(served) >= 3
    await forget_certificates(plane)


async def forget_certificates(plane: ControlPlane) -> None:
    client = HttpClient.from_kubeconfig(plane.kubeconfig)
    try:
        await client.delete(SECRETS, "corral-webhook-certificates", "kueue-system")
    except NotFound:
        pass
    finally:
        await client.close()


async def test_no_queued_job_starts_while_nobody_answers(plane: ControlPlane) -> None:
    async with serving(plane) as client:
        await client.delete(MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING_NAME)
        await eventually(lambda: _is_there_again(client))
    client = HttpClient.from_kubeconfig(plane.kubeconfig)
    try:
        with pytest.raises(ApiError, match="failed calling webhook"):
            await client.create(JOBS, job("unanswered"))
        await client.delete(MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING_NAME)
        await client.delete(VALIDATING_WEBHOOK_CONFIGURATIONS, VALIDATING_NAME)
        await eventually(lambda: _is_refused_by_policy(client))
        await eventually(lambda: _is_let_in(client))
    finally:
        await client.close()


async def _is_there_again(client: HttpClient) -> bool:
    await client.get(MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING_NAME)
    return True


async def _is_let_in(client: HttpClient) -> bool:
    """Whether an unqueued job can be made; the API server may go on asking a deleted webhook for a moment."""
    await client.create(JOBS, job("unqueued", {}))
    return True


async def _is_refused_by_policy(client: HttpClient) -> bool:
    try:
        await client.create(JOBS, job("never"))
    except ApiError as error:
        return "corral-queued-jobs-start-suspended-spec-suspend" in error.message
    raise AssertionError("a queued job was let in unsuspended")
