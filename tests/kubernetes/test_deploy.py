"""What `deploy/` ships, at a real API server: every manifest is accepted, and the controllers do with its roles what they are for."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests import waiting

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2]))

from accounts import OUTSIDE, account_of, kubectl, start_corral
from cluster import ControlPlane, eventually, programs
from test_dispatch import make_queue
from tools.deployment.__main__ import CHART, KUSTOMIZE, NAMESPACES, find_helm, plain_manifests

from corral.client import kubeconfig
from corral.client.http import HttpClient
from corral.client.sync import SyncClient
from corral.clusters.definitions import install
from corral.clusters.webhooks.configurations import MUTATING_NAME
from corral.core import conditions
from corral.core.errors import Forbidden, NotFound, Unauthorized
from corral.core.meta import Obj
from corral.fleet import join
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.kubernetes.admissionregistration.kinds import MUTATING_WEBHOOK_CONFIGURATIONS
from corral.kinds.kubernetes.apiextensions.kinds import CUSTOM_RESOURCE_DEFINITIONS
from corral.kinds.kubernetes.core.kinds import SECRETS
from corral.kinds.kubernetes.networking.endpoint_slices import ENDPOINT_SLICES
from corral.kinds.kueue import MULTI_KUEUE_CLUSTERS, WORKLOADS

BINARIES = programs()
HELM = find_helm()
needs_helm = pytest.mark.skipif(HELM is None, reason="no helm here; `make helm` builds it")
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(BINARIES is None, reason="no real kube-apiserver here; `make kube-tools` builds one"),
    pytest.mark.timeout(600),
]
EVERYTHING = [
    "--set", "webhooks.certManager.enabled=true", "--set", "webhooks.certManager.issuer.name=issuer",
    "--set", "monitoring.serviceMonitor=true", "--set", "configuration.corral.propagateDependencies=true",
    "--set", "logFormat=json", "--set", "takeOver=true", "--set", "monitoring.rules=true", "--set", "monitoring.board=true", "--set", "replicas=3", "--set", "verbosity=2",
    "--set", "nodeSelector.disk=ssd", "--set", "imagePullSecrets[0].name=pull", "--set", "podAnnotations.a=b",
    "--set", "tolerations[0].operator=Exists", "--set", "image.tag=other", "--set", "image.repository=registry/corral",
    "--set", "image.pullPolicy=Always", "--set", "resources.requests.cpu=1", "--set", "resources.requests.memory=1Gi",
    "--set", "resources.limits.memory=4Gi", "--set", "leaseSeconds=15", "--set", "priorityClassName=important",
    "--set", "networkPolicy.apiServerPorts={443,8443}", "--set", "monitoring.prometheusAccount.name=scraper",
    "--set", "monitoring.prometheusAccount.namespace=metrics", "--set", "monitoring.boardLabels.grafana_dashboard=team",
    "--set", "webhooks.certManager.issuer.kind=ClusterIssuer", "--set", "configuration.integrations.frameworks={batch/job,pod}",
]  # fmt: skip
NOTHING = [
    "--set", "webhooks.enabled=false", "--set", "networkPolicy.enabled=false", "--set", "podDisruptionBudget.enabled=false",
    "--set", "roles.create=false", "--set", "replicas=1", "--set", "configuration=null",
]  # fmt: skip


def leaves(value: object, path: str = "") -> Iterator[str]:
    """The settings of a chart by their paths; what has no content of its own is one."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from leaves(inner, f"{path}.{name}" if path else name)
    else:
        yield path


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    assert BINARIES is not None
    made = ControlPlane("deploy", tmp_path_factory.mktemp("plane"), BINARIES)
    try:
        made.start()
        for namespace in sorted(set(NAMESPACES.values())):
            kubectl(made, "create", "namespace", namespace)
        for each in OTHERS:
            admin_of(made).create(CUSTOM_RESOURCE_DEFINITIONS, definition(*each))
        kubectl(made, "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        yield made
    finally:
        made.stop()


def admin_of(plane: ControlPlane) -> SyncClient:
    return SyncClient.from_kubeconfig(plane.kubeconfig)


OTHERS = (
    ("monitoring.coreos.com", "prometheusrules", "PrometheusRule"),
    ("monitoring.coreos.com", "servicemonitors", "ServiceMonitor"),
    ("cert-manager.io", "certificates", "Certificate"),
)
"""Kinds of other projects; their own definitions are not here, so that only their being objects is checked."""


def definition(group: str, plural: str, kind: str) -> Obj:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    names = {"plural": plural, "singular": kind.lower(), "kind": kind}
    spec = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    return {"metadata": {"name": f"{plural}.{group}"}, "spec": spec}


def rendered(role: str, *settings: str) -> str:
    assert HELM is not None
    named = ["--set", "member.name=member-1"] if role == "member" else []
    command = [HELM, "template", "corral", str(CHART), "--namespace", NAMESPACES[role], "--set", f"role={role}"]
    return subprocess.run([*command, *named, *settings], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("role", sorted(NAMESPACES))
def test_the_plain_manifests_are_accepted(plane: ControlPlane, role: str) -> None:
    built = kubectl(plane, "kustomize", str(KUSTOMIZE / role))
    said = kubectl(plane, "apply", "--dry-run=server", "--validate=strict", "--filename=-", given=built)
    assert "deployment.apps/corral" in said


@needs_helm
@pytest.mark.parametrize("settings", [[], EVERYTHING, NOTHING], ids=["defaults", "everything", "nothing"])
@pytest.mark.parametrize("role", sorted(NAMESPACES))
def test_the_chart_is_accepted(plane: ControlPlane, role: str, settings: list[str]) -> None:
    built = rendered(role, *settings)
    said = kubectl(plane, "apply", "--dry-run=server", "--validate=strict", "--filename=-", given=built)
    assert "deployment.apps/corral" in said


@needs_helm
def test_no_setting_of_the_chart_is_left_out_and_each_changes_what_is_rendered() -> None:
    said = [*EVERYTHING[1::2], *NOTHING[1::2]]
    idle = []
    for path in leaves(yaml.safe_load((CHART / "values.yaml").read_text())):
        if path not in ALWAYS_SAID:
            changes = [each for each in said if each.partition("=")[0].startswith(path)]
            context = [part for each in CONTEXT.get(path, ()) for part in ("--set", each)]
            if not changes or rendered("worker", *context) == rendered("worker", *context, "--set", changes[0]):
                idle.append(path)
    assert idle == []


ALWAYS_SAID = ("role", "member.name")
ISSUED = ("webhooks.certManager.enabled=true", "webhooks.certManager.issuer.name=other")
CONTEXT = {
    "webhooks.certManager.enabled": ISSUED[1:],
    "webhooks.certManager.issuer.kind": ISSUED,
    "webhooks.certManager.issuer.name": ISSUED,
    "monitoring.prometheusAccount.name": ("monitoring.serviceMonitor=true",),
    "monitoring.prometheusAccount.namespace": ("monitoring.serviceMonitor=true",),
    "monitoring.boardLabels.grafana_dashboard": ("monitoring.board=true",),
}
"""What else has to be set for a setting to be seen."""


@needs_helm
def test_the_plain_manifests_are_the_chart_with_its_defaults() -> None:
    assert HELM is not None
    assert {path: path.read_text() for path in plain_manifests(HELM)} == plain_manifests(HELM)


@needs_helm
@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (["--set", "role=boss"], "role"),
        (["--namespace", "default"], "a worker lives in the namespace kueue-system"),
        (["--set", "role=member", "--namespace", "fleet-system"], "a member needs the name its hub knows it by"),
        (["--set", "webhooks.certManager.enabled=true"], "cert-manager needs an issuer"),
        (["--set", "webhook.enabled=true"], "webhook"),
    ],
)
def test_settings_that_cannot_be_are_refused_with_a_sentence(settings: list[str], sentence: str) -> None:
    assert HELM is not None
    command = [HELM, "template", "corral", str(CHART), "--namespace", "kueue-system", *settings]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert sentence in done.stderr


def account_kubeconfig(plane: ControlPlane, token: str, path: Path) -> Path:
    """How a pod of the account reaches the cluster."""
    authority = (plane.folder / "ca.crt").read_bytes()
    kubeconfig.write(kubeconfig.document_for("account", plane.server, authority, token=token), path)
    return path


async def test_the_controllers_queue_and_register_their_webhooks_with_the_roles_that_are_shipped(
    plane: ControlPlane, tmp_path: Path
) -> None:
    """As a worker's pod would: the account of the manifests and nothing else; webhooks too."""
    client = HttpClient.from_kubeconfig(plane.kubeconfig)
    log = tmp_path / "log"
    try:
        await install(client)
        await eventually(lambda: _lists(client))
        shipped = [*yaml.safe_load_all((KUSTOMIZE / "manager" / "corral.yaml").read_text())]
        shipped = [each for each in shipped if each["kind"] not in ("Deployment", "Service")]
        kubectl(plane, "apply", "--filename=-", given=yaml.safe_dump_all(shipped))
        token = kubectl(plane, "create", "token", "corral", "--namespace=kueue-system").strip()
        path = account_kubeconfig(plane, token, tmp_path / "account")
        kubectl(plane, "apply", "--filename=-", given=yaml.safe_dump_all(OUTSIDE))
        config = tmp_path / "configuration.yaml"
        config.write_text(next(each for each in shipped if each["kind"] == "ConfigMap")["data"]["configuration.yaml"])
        arguments = [
            "controllers",
            "run",
            "--roles=queueing,dispatch,webhooks",
            "--webhook-port=0",
            "--webhook-host=localhost",
            f"--kubeconfig={path}",
            f"--config={config}",
        ]
        process = start_corral(log, *arguments)
        try:
            await make_queue(client, "4", [])
            await eventually(lambda: client.get(MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING_NAME))
            template = {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
                }
            }
            labels = {"kueue.x-k8s.io/queue-name": "user-queue"}
            job: Obj = {"metadata": {"name": "shipped", "namespace": "default", "labels": labels}}
            await eventually(lambda: _is_suspended(client, {**job, "spec": {"template": template}}))
            await eventually(lambda: _is_admitted(client))
            await eventually(lambda: _is_started(client))
        finally:
            process.terminate()
            process.wait(60)
            corral("controllers", "unregister", f"--kubeconfig={plane.kubeconfig}")
        told = log.read_text()
        assert "orbidden" not in told, [line for line in told.splitlines() if "orbidden" in line][:5]
    except AssertionError as error:
        raise AssertionError(f"{error}\n{log.read_text()[-3000:] if log.exists() else ''}") from error
    finally:
        await client.close()


async def test_webhooks_of_a_pod_are_registered_once_somebody_is_behind_their_service(
    plane: ControlPlane, tmp_path: Path
) -> None:
    """As in a cluster: the Service is that of the manifests, and who answers for it is said by others."""
    client, log = HttpClient.from_kubeconfig(plane.kubeconfig), tmp_path / "log"
    await install(client)
    await eventually(lambda: _lists(client))
    account = account_of(plane, "worker", tmp_path / "account")
    text = (KUSTOMIZE / "worker" / "corral.yaml").read_text()
    services = [each for each in yaml.safe_load_all(text) if each["kind"] == "Service"]
    kubectl(plane, "delete", "service", "corral-webhooks", "--namespace=kueue-system", "--ignore-not-found")
    kubectl(plane, "apply", "--filename=-", given=yaml.safe_dump_all(services))
    process = start_corral(log, "controllers", "run", "--roles=webhooks", "--webhook-port=0", f"--kubeconfig={account}")
    try:
        waiting.eventually(lambda: "not registered before the Service has an endpoint" in log.read_text(), 60)
        with pytest.raises(NotFound):
            await client.get(MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING_NAME)
        await client.create(ENDPOINT_SLICES, SOMEBODY)
        await eventually(lambda: client.get(MUTATING_WEBHOOK_CONFIGURATIONS, MUTATING_NAME))
    finally:
        process.terminate()
        process.wait(60)
        corral("controllers", "unregister", f"--kubeconfig={plane.kubeconfig}")
        kubectl(plane, "delete", "service", "corral-webhooks", "--namespace=kueue-system")
        await client.close()
    assert "orbidden" not in log.read_text()


SOMEBODY: Obj = {
    "metadata": {
        "name": "corral-webhooks-played",
        "namespace": "kueue-system",
        "labels": {"kubernetes.io/service-name": "corral-webhooks"},
    },
    "addressType": "IPv4",
    "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": True}}],
    "ports": [{"name": "webhooks", "port": 9443, "protocol": "TCP"}],
}


async def _is_suspended(client: HttpClient, job: Obj) -> bool:
    """Whether a job that names a queue is suspended as it is made; before the webhook is in force it is taken away again."""
    made = await client.create(JOBS, job)
    if made["spec"].get("suspend"):
        return True
    await client.delete(JOBS, made["metadata"]["name"], "default")
    return False


async def _lists(client: HttpClient) -> bool:
    await client.list(WORKLOADS)
    return True


async def _is_admitted(client: HttpClient) -> bool:
    return any(conditions.is_true(each, "Admitted") for each in (await client.list(WORKLOADS, "default")).items)


async def _is_started(client: HttpClient) -> bool:
    return not (await client.get(JOBS, "shipped", "default"))["spec"]["suspend"]


def corral(*arguments: str) -> str:
    command = [sys.executable, "-m", "corral", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def kept_access(admin: SyncClient) -> kubeconfig.Access:
    """How the manager reaches the worker."""
    secret = admin.get(SECRETS, "west-kubeconfig", join.NAMESPACE)
    return kubeconfig.access(yaml.safe_load(base64.b64decode(secret["data"]["kubeconfig"])))


def may_list_workloads(access: kubeconfig.Access) -> bool:
    try:
        SyncClient(access).list(WORKLOADS)
    except Unauthorized:
        return False
    return True


async def test_a_worker_gets_a_scoped_account_whose_token_is_rotated(plane: ControlPlane) -> None:
    """The cluster is its own worker here: what is made on the worker and what on the manager does not depend on it."""
    admin = admin_of(plane)
    client = HttpClient.from_kubeconfig(plane.kubeconfig)
    await install(client)
    await eventually(lambda: _lists(client))
    await client.close()
    here = ("west", f"--kubeconfig={plane.kubeconfig}", f"--worker-context={plane.name}")

    corral("clusters", "add", *here)
    first = kept_access(admin)
    assert admin.get(MULTI_KUEUE_CLUSTERS, "west")
    assert may_list_workloads(first)
    with pytest.raises(Forbidden, match="secrets"):
        SyncClient(first).list(SECRETS)

    assert "west has another token" in corral("clusters", "rotate", *here)
    second = kept_access(admin)
    assert second.token != first.token
    assert (second.server, second.ca) == (first.server, first.ca)
    assert may_list_workloads(first)

    corral("clusters", "rotate", "--revoke", *here)
    assert may_list_workloads(kept_access(admin))
    waiting.eventually(lambda: not may_list_workloads(first) and not may_list_workloads(second), 60)
