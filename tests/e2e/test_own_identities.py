"""A fleet that nobody is introduced in, and members with identities of their owner's choice."""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.e2e.started import client, corral, eventually, started

from corral.core.conditions import is_true
from corral.core.meta import Obj, name_of, spec_of
from corral.core.resource import Resource
from corral.kinds.fleet import MEMBER_CLUSTERS
from corral.kinds.kubernetes.apps.kinds import DEPLOYMENTS
from corral.kinds.kubernetes.core.kinds import NAMESPACES, SECRETS, SERVICE_ACCOUNTS
from corral.kinds.kueue import CLUSTER_QUEUES, MULTI_KUEUE_CLUSTERS

FLEET = """
introduced: false
queues: false
clusters:
  - name: hub
    roles: [hub, manager]
  - name: west
    roles: [worker, member]
"""
IDENTITY = {"kind": "ServiceAccount", "name": "west-identity", "namespace": "agents"}

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("identities")
    (folder / "fleet.yaml").write_text(FLEET)
    with started(folder / "state", "-f", str(folder / "fleet.yaml")) as state:
        hub = client(state, "corral-hub")
        assert [hub.list(kind)["items"] for kind in (MULTI_KUEUE_CLUSTERS, MEMBER_CLUSTERS, CLUSTER_QUEUES)] == [
            [],
            [],
            [],
        ]
        hub.create(NAMESPACES, {"metadata": {"name": "agents"}})
        hub.create(SERVICE_ACCOUNTS, {"metadata": {"name": "west-identity", "namespace": "agents"}})
        yield state


def member_cluster(state: Path, name: str) -> Obj:
    spec = {"identity": IDENTITY, "heartbeatPeriodSeconds": 7}
    client(state, "corral-hub").create(MEMBER_CLUSTERS, {"metadata": {"name": name}, "spec": spec})
    return client(state, "corral-hub").get(MEMBER_CLUSTERS, name)


def test_a_member_joins_with_a_secret_that_somebody_wrote(state: Path) -> None:
    member_cluster(state, "by-hand")
    hub, west = client(state, "corral-hub"), client(state, "corral-west")
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = hub.create_subresource(SERVICE_ACCOUNTS, "west-identity", "agents", "token", request)["status"]["token"]
    document = yaml.safe_load((state / "kubeconfig").read_text())
    (cluster,) = [entry["cluster"] for entry in document["clusters"] if entry["name"] == "corral-hub"]
    kubeconfig = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "hub",
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "me"}}],
        "clusters": [{"name": "hub", "cluster": cluster}],
        "users": [{"name": "me", "user": {"token": token}}],
    }
    data = {"kubeconfig": yaml.safe_dump(kubeconfig), "member-name": "by-hand"}
    encoded = {name: base64.b64encode(text.encode()).decode() for name, text in data.items()}
    eventually(lambda: west.apply(NAMESPACES, {"metadata": {"name": "fleet-system"}}))
    west.apply(SECRETS, {"metadata": {"name": "hub-kubeconfig", "namespace": "fleet-system"}, "data": encoded})
    eventually(lambda: is_true(hub.get(MEMBER_CLUSTERS, "by-hand"), "Joined"))


def test_joining_keeps_the_identity_of_a_member_cluster_that_is_there(state: Path) -> None:
    before = member_cluster(state, "west")
    config = ("--kubeconfig", str(state / "kubeconfig"), "--context", "corral-hub")
    corral_fleet(state, "join", "west", "--member-context", "corral-west", *config)
    hub = client(state, "corral-hub")
    eventually(lambda: is_true(hub.get(MEMBER_CLUSTERS, "west"), "Joined"))
    assert spec_of(hub.get(MEMBER_CLUSTERS, "west")) == spec_of(before)


def corral_fleet(state: Path, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "corral.cli.main", "fleet", *arguments], check=True, timeout=60)


def test_the_agents_are_found_where_their_charts_would_put_them(state: Path) -> None:
    for cluster, name in (("hub", "hub-agent"), ("west", "member-agent")):
        there = client(state, f"corral-{cluster}")
        eventually(lambda there=there, name=name: is_true(there.get(DEPLOYMENTS, name, "fleet-system"), "Available"))


def test_what_nothing_acts_on_is_said_by_status(state: Path) -> None:
    scalers = Resource("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler")
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    made = {"metadata": {"name": "web", "namespace": "default"}, "spec": {"maxReplicas": 3, "scaleTargetRef": target}}
    client(state, "corral-west").create(scalers, made)
    line = "west: no controller here acts on HorizontalPodAutoscaler default/web: nothing scales by metrics"
    eventually(lambda: line in corral(state, "status").stderr)


def test_a_fleet_that_comes_back_still_introduces_nobody(state: Path) -> None:
    member_cluster(state, "nobody-yet")
    before = member_names(state)
    corral(state, "down")
    corral(state, "up")
    assert client(state, "corral-hub").list(MULTI_KUEUE_CLUSTERS)["items"] == []
    assert member_names(state) == before


def member_names(state: Path) -> list[str]:
    return [name_of(found) for found in client(state, "corral-hub").list(MEMBER_CLUSTERS)["items"]]
