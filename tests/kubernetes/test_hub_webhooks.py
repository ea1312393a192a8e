"""A hub's webhooks at a real kube-apiserver, under the account that is shipped: placements are completed, and what an embedded hub
refuses is refused in the same words."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))

from accounts import account_of, kubectl
from cluster import USER_TOKEN, ControlPlane, eventually, programs
from test_process import FLEET, Replicas

from corral.client import kubeconfig
from corral.client.http import HttpClient
from corral.clusters.definitions import established, install
from corral.clusters.webhooks import certificate_secret
from corral.clusters.webhooks.configurations import HUB_NAMES
from corral.core.errors import ApiError, Forbidden
from corral.core.meta import Obj, finalizers_of, spec_of
from corral.core.resource import Resource
from corral.kinds.fleet import CLUSTER_OVERRIDES, CLUSTER_RESOURCE_PLACEMENTS, MEMBER_CLUSTERS
from corral.kinds.fleet.names import PLACEMENT_CLEANUP
from corral.kinds.kubernetes.admissionregistration.kinds import VALIDATING_WEBHOOK_CONFIGURATIONS
from corral.kinds.kubernetes.core.kinds import NAMESPACES, PODS, SECRETS
from corral.runtime.clock import WallClock

BINARIES = programs()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(BINARIES is None, reason="no real kube-apiserver here; `make kube-tools` builds one"),
    pytest.mark.timeout(600),
]
ENVELOPES = Resource("placement.kubernetes-fleet.io", "v1beta1", "resourceenvelopes", "ResourceEnvelope")
OUTSIDE: list[Obj] = [
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": "outside", "namespace": "fleet-system"},
        **content,
    }
    for kind, content in (
        ("Role", {"rules": [{"apiGroups": [""], "resources": ["services"], "verbs": ["create", "patch"]}]}),
        (
            "RoleBinding",
            {
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "outside"},
                "subjects": [{"kind": "ServiceAccount", "name": "corral-hub", "namespace": "fleet-system"}],
            },
        ),
    )
]
"""A process outside of the cluster also makes the Service that leads to it."""
ALICE = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: places}
rules:
- {apiGroups: [placement.kubernetes-fleet.io], resources: ["*"], verbs: ["*"]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: places}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: places}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: alice}]
"""


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    assert BINARIES is not None
    made = ControlPlane("hub", tmp_path / "plane", BINARIES)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def placement(name: str, **spec: object) -> Obj:
    selector = {"group": "", "version": "v1", "kind": "Namespace", "name": "placed"}
    return {"metadata": {"name": name}, "spec": {"resourceSelectors": [selector], **spec}}


def pod(name: str) -> Obj:
    return {"metadata": {"name": name, "namespace": "placed"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


async def refused(client: HttpClient, resource: Resource, obj: Obj) -> str:
    with pytest.raises(ApiError) as found:
        await client.create(resource, obj, dry_run=True)
    return found.value.message


async def test_what_an_embedded_hub_checks_is_checked_on_a_real_one(plane: ControlPlane, tmp_path: Path) -> None:
    account = account_of(plane, "hub", tmp_path / "account")
    kubectl(plane, "apply", "--filename=-", given=yaml.safe_dump_all(OUTSIDE))
    config = tmp_path / "configuration.yaml"
    config.write_text("namespace: fleet-system")
    (tmp_path / "logs").mkdir()
    replicas = Replicas(
        tmp_path / "logs", "--roles=hub,webhooks", f"--kubeconfig={account}", f"--config={config}",
        "--webhook-host=localhost", "--webhook-port=0",
    )  # fmt: skip
    client = HttpClient.from_kubeconfig(plane.kubeconfig)
    try:
        made = await install(client, groups=FLEET)
        assert not await established(client, WallClock(), made.created)
        await client.create(NAMESPACES, {"metadata": {"name": "placed"}})
        replicas.start()
        await eventually(lambda: client.get(VALIDATING_WEBHOOK_CONFIGURATIONS, HUB_NAMES.validating))
        await eventually(lambda: _is_asked(client))

        whole = await client.create(CLUSTER_RESOURCE_PLACEMENTS, placement("whole"))
        assert spec_of(whole)["policy"]["placementType"] == "PickAll"
        assert PLACEMENT_CLEANUP in finalizers_of(whole)
        unknown = {"group": "example.com", "version": "v1", "kind": "Nothing", "name": "n"}
        assert (
            await refused(client, CLUSTER_RESOURCE_PLACEMENTS, placement("bad", resourceSelectors=[unknown]))
        ).startswith(
            'admission webhook "fleet.clusterresourceplacementv1beta1.validating" denied the request: '
            "deny create/update v1beta1 CRP has invalid fields"
        )
        taint = {"key": "a", "value": "b", "effect": "NoSchedule"}
        identity = {"kind": "ServiceAccount", "name": "agent", "namespace": "fleet-system"}
        twice = {"metadata": {"name": "one"}, "spec": {"identity": identity, "taints": [taint, taint]}}
        assert (await refused(client, MEMBER_CLUSTERS, twice)).startswith(
            'admission webhook "fleet.membercluster.validating" denied the request: taint'
        )
        await _a_deputy_asks_whom_it_serves(plane)

        assert await client.create(PODS, pod("here"), dry_run=True), "a cluster that became a hub runs other things too"
        config.write_text("namespace: fleet-system\nplacement: {enableWorkload: false}")
        await eventually(lambda: _is_refused(client, pod("there")))

        await client.patch(SECRETS, certificate_secret.NAME, "fleet-system", {"data": {"tls.crt": "AA=="}})
        replicas.start()
        await eventually(lambda: _is_renewed(client))
    except AssertionError as error:
        raise AssertionError(f"{error}\n{replicas.said()[-3000:]}") from error
    finally:
        replicas.stop()
        await client.close()
    assert "orbidden" not in replicas.said(), [line for line in replicas.said().splitlines() if "orbidden" in line][:5]


async def _is_asked(client: HttpClient) -> bool:
    """A configuration is in force a moment after it was made."""
    made = await client.create(CLUSTER_RESOURCE_PLACEMENTS, placement("asked"), dry_run=True)
    return bool(spec_of(made).get("revisionHistoryLimit")) and PLACEMENT_CLEANUP in finalizers_of(made)


async def _is_renewed(client: HttpClient) -> bool:
    """Whether certificates that cannot be read were replaced by who starts next."""
    return certificate_secret.read(await client.get(SECRETS, certificate_secret.NAME, "fleet-system")) is not None


async def _is_refused(client: HttpClient, obj: Obj) -> bool:
    try:
        await client.create(PODS, obj, dry_run=True)
    except Forbidden as error:
        return error.message == (
            'admission webhook "fleet.pod.validating" denied the request: '
            "Pod placed/there creation is disallowed in the fleet hub cluster"
        )
    return False


async def _a_deputy_asks_whom_it_serves(plane: ControlPlane) -> None:
    """Alice may write placements, and nothing that they would bring to members."""
    kubectl(plane, "apply", "--filename=-", given=ALICE)
    authority = (plane.folder / "ca.crt").read_bytes()
    path = plane.folder / "alice"
    kubeconfig.write(kubeconfig.document_for("alice", plane.server, authority, token=USER_TOKEN), path)
    alice, admin = HttpClient.from_kubeconfig(path), HttpClient.from_kubeconfig(plane.kubeconfig)
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "all"}, "rules": []}
    envelope = {"metadata": {"name": "wrapped", "namespace": "placed"}, "data": {"role.yaml": role}}
    rule = {"clusterSelector": {"clusterSelectorTerms": []}, "jsonPatchOverrides": [PATCH]}
    selector = {"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole", "name": "places"}
    override = {
        "metadata": {"name": "more"},
        "spec": {"clusterResourceSelectors": [selector], "policy": {"overrideRules": [rule]}},
    }
    try:
        await eventually(lambda: alice.list(CLUSTER_RESOURCE_PLACEMENTS))
        assert "user alice is not authorized to create Role all in placed" in await refused(alice, ENVELOPES, envelope)
        assert "user alice is not authorized to update ClusterRole places" in await refused(
            alice, CLUSTER_OVERRIDES, override
        )
        assert await admin.create(ENVELOPES, envelope, dry_run=True)
        assert await admin.create(CLUSTER_OVERRIDES, override, dry_run=True)
    finally:
        await alice.close()
        await admin.close()


PATCH: Obj = {"op": "add", "path": "/metadata/labels/more", "value": "x"}
