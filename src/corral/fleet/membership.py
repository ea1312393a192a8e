"""Making clusters members of a hub: an identity on the hub, a MemberCluster that names it, and a kubeconfig for the agent.

The agent pulls: it is given a way to the hub, the hub is given none to the member. Everything is applied, so doing it
again renews the credentials and changes nothing else.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping

import yaml

from corral.client import kubeconfig
from corral.client.sync import SyncClient
from corral.configuration.fleet import HUB, MEMBER, FleetSpec
from corral.core.errors import NotFound
from corral.core.meta import Obj, spec_of
from corral.fleet.folder import FleetFolder
from corral.fleet.join import TOKEN_SECONDS, ensure_namespace
from corral.kinds.fleet import MEMBER_CLUSTERS
from corral.kinds.kubernetes.core.kinds import SECRETS, SERVICE_ACCOUNTS

NAMESPACE = "fleet-system"
SECRET = "hub-kubeconfig"
MEMBER_LABEL = "kubernetes-fleet.io/member-name"
AGENT_GONE = "corral.dev/agent-gone"
HEARTBEAT_S = 15


def join_members(fleet: FleetSpec, folder: FleetFolder, clients: dict[str, SyncClient]) -> None:
    """Let every member of an embedded fleet join its hub."""
    for hub in fleet.with_role(HUB):
        for member in fleet.with_role(MEMBER):
            if member.name != hub.name:
                join_member(clients[hub.name], clients[member.name], member.name, member.labels)


def dismiss_members(hub: SyncClient, absent: set[str]) -> None:
    """Members that are not started any more leave the fleet: what was placed there is placed elsewhere. They join again
    when they are back."""
    for name in sorted(absent):
        try:
            # Their agents do not run, so nobody will say that they have left.
            hub.patch(MEMBER_CLUSTERS, name, "", {"metadata": {"annotations": {AGENT_GONE: "true"}}})
            hub.delete(MEMBER_CLUSTERS, name)
            hub.delete(SERVICE_ACCOUNTS, f"{name}-agent", NAMESPACE)
        except NotFound:
            continue


def join_member(
    hub: SyncClient, member: SyncClient, name: str, labels: Mapping[str, str], heartbeat: int = HEARTBEAT_S
) -> Obj:
    """Let one cluster join a hub under `name`; returns the identity it has there.

    A MemberCluster that names an identity of somebody's choice stays as it is. If that is no ServiceAccount, only he can give the
    agent what it needs to be it: the Secret is his to write.
    """
    ours = {"kind": "ServiceAccount", "name": f"{name}-agent", "namespace": NAMESPACE}
    identity = _chosen_identity(hub, name) or ours
    if identity == ours:
        metadata: Obj = {"name": name, "labels": dict(labels)} if labels else {"name": name}
        hub.apply(
            MEMBER_CLUSTERS, {"metadata": metadata, "spec": {"identity": ours, "heartbeatPeriodSeconds": heartbeat}}
        )
    if identity["kind"] == "ServiceAccount":
        account, namespace = str(identity["name"]), str(identity["namespace"])
        ensure_namespace(hub, namespace)
        hub.apply(SERVICE_ACCOUNTS, {"metadata": {"name": account, "namespace": namespace}})
        give_access(member, name, hub.access, _token(hub, account, namespace))
    return identity


def _chosen_identity(hub: SyncClient, name: str) -> Obj | None:
    """Who a MemberCluster that is there says the member is."""
    try:
        held = spec_of(hub.get(MEMBER_CLUSTERS, name)).get("identity") or {}
    except NotFound:
        return None
    return {field: held[field] for field in ("kind", "name", "namespace") if held.get(field)}


def _token(hub: SyncClient, account: str, namespace: str) -> str:
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS},
    }
    answer = hub.create_subresource(SERVICE_ACCOUNTS, account, namespace, "token", request)
    return str(answer["status"]["token"])


def give_access(member: SyncClient, name: str, access: kubeconfig.Access, token: str) -> None:
    """Write the Secret the member's agent reads: a kubeconfig of the hub, and the name it is known by there."""
    ensure_namespace(member, NAMESPACE)
    document = yaml.safe_dump(kubeconfig.document_for("hub", access.server, access.ca, token=token))
    body: Obj = {
        "metadata": {"name": SECRET, "namespace": NAMESPACE, "labels": {MEMBER_LABEL: name}},
        "type": "Opaque",
        "data": {"kubeconfig": _encode(document), "member-name": _encode(name)},
    }
    member.apply(SECRETS, body)


def _encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
