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
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["create"]},
    {"apiGroups": ["kueue.x-k8s.io"], "resources": ["localqueues", "workloadpriorityclasses"], "verbs": ["create"]},
    {"apiGroups": ["scheduling.k8s.io"], "resources": ["priorityclasses"], "verbs": ["create"]},
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
    return new_token(worker)


def new_token(worker: SyncClient) -> str:
    """Another token for the dispatching identity; those it has stay good until they end."""
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": TOKEN_SECONDS},
    }
    answer = worker.create_subresource(SERVICE_ACCOUNTS, ACCOUNT, NAMESPACE, "token", request)
    return str(answer["status"]["token"])


def revoke_tokens(worker: SyncClient) -> None:
    """Make every token of the dispatching identity worthless: each is bound to an account that another of its name replaces."""
    worker.delete(SERVICE_ACCOUNTS, ACCOUNT, NAMESPACE)
    worker.apply(SERVICE_ACCOUNTS, {"metadata": {"name": ACCOUNT, "namespace": NAMESPACE}})


def replace_token(manager: SyncClient, name: str, token: str, namespace: str = NAMESPACE) -> None:
    """Let the manager show another token to a worker; how it is reached stays. NotFound where the worker was not added by us."""
    secret = manager.get(SECRETS, f"{name}-kubeconfig", namespace)
    origin = f"Secret {namespace}/{name}-kubeconfig"
    known = kubeconfig.access(kubeconfig.parse(base64.b64decode(secret["data"]["kubeconfig"]), origin), origin=origin)
    manager.apply(SECRETS, _kubeconfig_secret(name, known.server, known.ca, token, namespace))


def register_worker(
    manager: SyncClient, name: str, server: str, ca: bytes, token: str, namespace: str = NAMESPACE, suffix: str = ""
) -> None:
    """Tell the manager how to reach a worker: a Secret with a kubeconfig, and a MultiKueueCluster that names it.

    `suffix` is for the manager itself as a worker: what it sends to itself gets it to its name."""
    ensure_namespace(manager, namespace)
    manager.apply(SECRETS, _kubeconfig_secret(name, server, ca, token, namespace))
    source = {"kubeConfig": {"location": f"{name}-kubeconfig", "locationType": "Secret"}}
    metadata: Obj = {"name": name, **({"annotations": {ITSELF: suffix}} if suffix else {})}
    manager.apply(MULTI_KUEUE_CLUSTERS, {"metadata": metadata, "spec": {"clusterSource": source}})


def _kubeconfig_secret(name: str, server: str, ca: bytes, token: str, namespace: str) -> Obj:
    document = yaml.safe_dump(kubeconfig.document_for(name, server, ca, token=token), sort_keys=False)
    return {
        "metadata": {"name": f"{name}-kubeconfig", "namespace": namespace},
        "type": "Opaque",
        "data": {"kubeconfig": base64.b64encode(document.encode()).decode()},
    }


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
