"""Making a cluster a worker of a manager: a scoped identity on the worker, its kubeconfig in a Secret on the manager.

Everything is applied, so doing it again renews the credentials and changes nothing else. The identity may only do what
dispatching needs: its job kinds and Workloads, nothing in other groups.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

import yaml

from corral.client import kubeconfig
from corral.client.sync import SyncClient
from corral.core.errors import AlreadyExists, NotFound
from corral.core.meta import Obj, spec_of
from corral.jobs.framework.adapter import JobAdapter
from corral.jobs.framework.roles import READ, WRITE, needed_rules, worker_rules
from corral.kinds.kubernetes.core.kinds import NAMESPACES, SECRETS, SERVICE_ACCOUNTS
from corral.kinds.kubernetes.rbac import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from corral.kinds.kueue import MULTI_KUEUE_CLUSTERS, MULTI_KUEUE_CONFIGS

NAMESPACE = "kueue-system"
ACCOUNT = "corral-dispatch"
TOKEN_SECONDS = 365 * 86400
ITSELF = "corral.dev/itself"


RULES: list[Obj] = [
    {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": list(WRITE)},
    {"apiGroups": ["apps"], "resources": ["replicasets"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]},
    {"apiGroups": [""], "resources": ["pods/exec", "pods/attach", "pods/portforward"], "verbs": ["create", "get"]},
    {"apiGroups": ["metrics.k8s.io"], "resources": ["pods"], "verbs": ["get", "list"]},
    {"apiGroups": ["kueue.x-k8s.io"], "resources": ["workloads", "workloads/status"], "verbs": list(WRITE)},
    {
        "apiGroups": ["kueue.x-k8s.io"],
        "resources": ["clusterqueues", "localqueues", "cohorts", "resourceflavors", "topologies"],
        "verbs": list(READ),
    },
]
"""What dispatching needs whatever the kinds of jobs are."""
DEPENDENCY_RULES: list[Obj] = [
    {"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["create", "get", "patch", "update"]},
    {"apiGroups": [""], "resources": ["services"], "verbs": ["create", "get"]},
]


def prepare_worker(worker: SyncClient, *, dependencies: bool = False, described: Sequence[JobAdapter] = ()) -> str:
    """Make the dispatching identity on a worker; returns a token for it.

    `described` are kinds of jobs that only the manager's configuration knows."""
    ensure_namespace(worker, NAMESPACE)
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
    worker.apply(SERVICE_ACCOUNTS, {"metadata": {"name": ACCOUNT, "namespace": NAMESPACE}})
    rules = [*worker_rules(), *worker_rules(described), *RULES]
    if dependencies:
        rules += [*DEPENDENCY_RULES, *needed_rules()]
    worker.apply(CLUSTER_ROLES, {"metadata": {"name": ACCOUNT}, "rules": rules})
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": ACCOUNT}
    worker.apply(CLUSTER_ROLE_BINDINGS, {"metadata": {"name": ACCOUNT}, "roleRef": role, "subjects": [subject]})
    # For fencing the manager renews a Lease here.
    own = {"name": ACCOUNT, "namespace": NAMESPACE}
    leases = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "get", "patch"]}
    worker.apply(ROLES, {"metadata": own, "rules": [leases]})
    local = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": ACCOUNT}
    worker.apply(ROLE_BINDINGS, {"metadata": own, "roleRef": local, "subjects": [subject]})
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS},
    }
    answer = worker.create_subresource(SERVICE_ACCOUNTS, ACCOUNT, NAMESPACE, "token", request)
    return str(answer["status"]["token"])


def register_worker(
    manager: SyncClient, name: str, server: str, ca: bytes, token: str, namespace: str = NAMESPACE, suffix: str = ""
) -> None:
    """Tell the manager how to reach a worker: a Secret with a kubeconfig, and a MultiKueueCluster that names it.

    `suffix` is for the manager itself as a worker: what it sends to itself gets it to its name."""
    ensure_namespace(manager, namespace)
    secret = f"{name}-kubeconfig"
    document = yaml.safe_dump(kubeconfig.document_for(name, server, ca, token=token), sort_keys=False)
    body: Obj = {
        "metadata": {"name": secret, "namespace": namespace},
        "type": "Opaque",
        "data": {"kubeconfig": base64.b64encode(document.encode()).decode()},
    }
    manager.apply(SECRETS, body)
    source = {"kubeConfig": {"location": secret, "locationType": "Secret"}}
    metadata: Obj = {"name": name, **({"annotations": {ITSELF: suffix}} if suffix else {})}
    manager.apply(MULTI_KUEUE_CLUSTERS, {"metadata": metadata, "spec": {"clusterSource": source}})


def add_to_config(manager: SyncClient, config: str, names: Sequence[str]) -> list[str]:
    """Append workers to a MultiKueueConfig, made if it is missing; returns its clusters."""
    try:
        found = manager.get(MULTI_KUEUE_CONFIGS, config)
    except NotFound:
        manager.create(MULTI_KUEUE_CONFIGS, {"metadata": {"name": config}, "spec": {"clusters": list(names)}})
        return list(names)
    held = list(spec_of(found).get("clusters") or [])
    wanted = [*held, *(name for name in names if name not in held)]
    if wanted != held:
        manager.patch(MULTI_KUEUE_CONFIGS, config, "", {"spec": {"clusters": wanted}})
    return wanted


def remove_from_config(manager: SyncClient, config: str, name: str) -> list[str]:
    """Take a worker out of a MultiKueueConfig; returns the clusters that are left.

    A config must name a cluster, so that one without is deleted: its admission checks say that it is missing until
    `add_to_config` makes it again."""
    try:
        found = manager.get(MULTI_KUEUE_CONFIGS, config)
    except NotFound:
        return []
    held = list(spec_of(found).get("clusters") or [])
    left = [entry for entry in held if entry != name]
    if not left:
        manager.delete(MULTI_KUEUE_CONFIGS, config)
    elif left != held:
        manager.patch(MULTI_KUEUE_CONFIGS, config, "", {"spec": {"clusters": left}})
    return left


def ensure_namespace(client: SyncClient, name: str) -> None:
    try:
        client.create(NAMESPACES, {"metadata": {"name": name}})
    except AlreadyExists:
        pass
