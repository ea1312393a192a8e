"""The member agent on a real kube-apiserver with its controllers, for a hub in this process: what the recordings show."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parent))

from accounts import account_of
from cluster import ControlPlane, eventually, programs

from corral.client import kubeconfig
from corral.client.http import HttpClient
from corral.clusters.definitions import install
from corral.clusters.embedded_api import EmbeddedApi
from corral.clusters.member import MemberCluster
from corral.core.errors import NotFound
from corral.core.meta import Obj, status_of, uid_of
from corral.jobs.batch_job.kind import JOBS
from corral.kinds.fleet import APPLIED_WORKS, INTERNAL_MEMBER_CLUSTERS, WORKS
from corral.kinds.kubernetes.core.kinds import CONFIG_MAPS, NAMESPACES, SECRETS

BINARIES = programs()
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(BINARIES is None, reason="no real kube-apiserver here; `make kube-tools` builds one"),
    pytest.mark.timeout(900),
]
NAMESPACE = "fleet-member-real"
GUIDE = Path(__file__).parents[2] / "examples" / "fleet-kueue"


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    assert BINARIES is not None
    made = ControlPlane("real", tmp_path / "real", BINARIES)
    try:
        made.start()
        yield made
    finally:
        made.stop()


def secret() -> Obj:
    document = kubeconfig.document_for("hub", "https://hub", b"", token="t")
    del document["clusters"][0]["cluster"]["certificate-authority-data"]
    data = {"kubeconfig": yaml.safe_dump(document), "member-name": "real"}
    encoded = {name: base64.b64encode(text.encode()).decode() for name, text in data.items()}
    return {"metadata": {"name": "hub-kubeconfig", "namespace": "fleet-system"}, "data": encoded}


def manifests() -> list[Obj]:
    """A namespace, a ConfigMap and the guide's Job as a hub sends it."""
    job = yaml.safe_load((GUIDE / "06-mock-workload.yaml").read_text())
    labels = {"batch.kubernetes.io/job-name": "mock-workload", "job-name": "mock-workload"}
    job["metadata"]["labels"] = dict(labels)
    job["spec"] |= {
        "selector": {"matchLabels": {}},
        "completionMode": "NonIndexed",
        "manualSelector": False,
        "podReplacementPolicy": "TerminatingOrFailed",
    }
    template = job["spec"]["template"]
    template["metadata"] = {"labels": dict(labels)}
    template["spec"] |= {
        "dnsPolicy": "ClusterFirst",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    }
    template["spec"]["containers"][0] |= {
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    metadata = {"name": "conf", "namespace": "compute-jobs"}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "compute-jobs"}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}},
        job,
        *RIGHTS,
    ]


def rights(kind: str, metadata: Obj) -> list[Obj]:
    """A role and its binding, in a namespace or everywhere. It gives a right that the agent does not have: nobody may make such a role but
    who may escalate, nor bind it but who may do that."""
    rule = {"apiGroups": [""], "resources": ["users"], "verbs": ["impersonate"]}
    head = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": metadata}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": metadata["name"]}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "somebody"}
    return [
        {**head, "kind": kind, "rules": [rule]},
        {**head, "kind": f"{kind}Binding", "roleRef": reference, "subjects": [subject]},
    ]


RIGHTS = [
    *rights("ClusterRole", {"name": "placed"}),
    *rights("Role", {"name": "placed", "namespace": "compute-jobs"}),
]


def reason(work: Obj, ordinal: int) -> str:
    told: list[Obj] = status_of(work).get("manifestConditions") or []
    entries = told[ordinal]["conditions"] if told else []
    return next((one["reason"] for one in entries if one["type"] == "Applied"), "")


async def test_works_reach_a_real_cluster_and_jobs_drift_there_as_recorded(plane: ControlPlane, tmp_path: Path) -> None:
    """The agent has the account that is shipped for it."""
    hub = EmbeddedApi(None)
    client = HttpClient.from_kubeconfig(plane.kubeconfig)
    own = HttpClient.from_kubeconfig(account_of(plane, "member", tmp_path / "account"))
    agent = MemberCluster(own, "unnamed", {}, connect=lambda access: hub.client)
    await hub.start()
    try:
        await install(client, groups=("placement.kubernetes-fleet.io",))
        await agent.start()
        await hub.client.create(NAMESPACES, {"metadata": {"name": NAMESPACE}})
        body: Obj = {"metadata": {"name": "real", "namespace": NAMESPACE}, "spec": {"state": "Join"}}
        await hub.client.create(INTERNAL_MEMBER_CLUSTERS, body)
        await client.create(SECRETS, secret())

        async def joined() -> bool:
            cluster = await hub.client.get(INTERNAL_MEMBER_CLUSTERS, "real", NAMESPACE)
            agents = status_of(cluster).get("agentStatus") or []
            return any(one["type"] == "Joined" and one["status"] == "True" for a in agents for one in a["conditions"])

        await eventually(joined)
        spec = {"workload": {"manifests": manifests()}, "applyStrategy": {"whenToApply": "IfNotDrifted"}}
        await hub.client.create(WORKS, {"metadata": {"name": "w", "namespace": NAMESPACE}, "spec": spec})

        async def work() -> Obj:
            return await hub.client.get(WORKS, "w", NAMESPACE)

        async def applied() -> bool:
            return all([reason(await work(), ordinal) == "Applied" for ordinal in range(len(manifests()))])

        await eventually(applied)
        live = await client.get(JOBS, "mock-workload", "compute-jobs")
        await client.patch(JOBS, "mock-workload", "compute-jobs", {"spec": {"suspend": False}})

        async def drifted() -> bool:
            return reason(await work(), 2) == "FoundDriftsInDegradedMode"

        await eventually(drifted)
        found = status_of(await work())["manifestConditions"]
        assert [reason(await work(), ordinal) for ordinal in (0, 1)] == ["Applied", "Applied"]
        uid = uid_of(live)
        assert found[2]["driftDetails"]["observedDrifts"] == [
            {"path": "/spec/selector/matchLabels/batch.kubernetes.io~1controller-uid", "valueInMember": uid},
            {"path": "/spec/suspend", "valueInHub": "true", "valueInMember": "false"},
            {"path": "/spec/template/metadata/labels/batch.kubernetes.io~1controller-uid", "valueInMember": uid},
            {"path": "/spec/template/metadata/labels/controller-uid", "valueInMember": uid},
        ]

        changed = manifests()
        changed[1]["data"] = {"b": "2"}
        changed[2]["metadata"]["annotations"]["corral.dev/queue-friendly"] = "true"
        current = await work()
        await hub.client.update(WORKS, {**current, "spec": {**spec, "workload": {"manifests": changed}}})
        await eventually(applied)
        assert (await client.get(CONFIG_MAPS, "conf", "compute-jobs"))["data"] == {"b": "2"}
        assert (await client.get(JOBS, "mock-workload", "compute-jobs"))["spec"]["suspend"] is False
        assert "driftDetails" not in status_of(await work())["manifestConditions"][2]

        await hub.client.delete(WORKS, "w", NAMESPACE)

        async def gone() -> bool:
            try:
                await work()
            except NotFound:
                return not (await client.list(APPLIED_WORKS)).items
            return False

        await eventually(gone)
    finally:
        await agent.stop()
        await own.close()
        await client.close()
        await hub.stop()
