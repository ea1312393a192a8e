"""The roles and bindings every cluster starts with, by the names people and charts refer to."""

from __future__ import annotations

from corral.core.meta import Obj

_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]
_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
_ANNOTATIONS = {AUTOUPDATE: "true"}
_GROUP = "rbac.authorization.k8s.io"


def _rule(verbs: list[str], groups: list[str], resources: list[str]) -> Obj:
    return {"verbs": verbs, "apiGroups": groups, "resources": resources}


def _paths(*paths: str) -> Obj:
    return {"verbs": ["get"], "nonResourceURLs": list(paths)}


def _role(name: str, rules: list[Obj], labels: dict[str, str] | None = None, aggregate: str = "") -> Obj:
    role: Obj = {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name, "labels": {**_LABELS, **(labels or {})}, "annotations": dict(_ANNOTATIONS)},
        "rules": rules,
    }
    if aggregate:
        selector = {"matchLabels": {f"rbac.authorization.k8s.io/aggregate-to-{aggregate}": "true"}}
        role["aggregationRule"] = {"clusterRoleSelectors": [selector]}
    return role


def _binding(role: str, subjects: list[tuple[str, str]], name: str = "") -> Obj:
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name or role, "labels": dict(_LABELS), "annotations": dict(_ANNOTATIONS)},
        "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": _GROUP, "kind": kind, "name": subject} for kind, subject in subjects],
    }


_CORE = [
    "configmaps", "endpoints", "persistentvolumeclaims", "pods", "replicationcontrollers",
    "replicationcontrollers/scale", "serviceaccounts", "services",
]  # fmt: skip
_APPS = [
    "daemonsets", "deployments", "deployments/scale", "replicasets", "replicasets/scale", "statefulsets",
    "statefulsets/scale",
]  # fmt: skip
_VIEWED: list[Obj] = [
    _rule(_READ, [""], [*_CORE, "persistentvolumeclaims/status", "services/status"]),
    _rule(
        _READ,
        [""],
        ["bindings", "events", "limitranges", "namespaces/status", "pods/log", "pods/status",
         "replicationcontrollers/status", "resourcequotas", "resourcequotas/status", "namespaces"],
    ),
    _rule(_READ, ["discovery.k8s.io"], ["endpointslices"]),
    _rule(_READ, ["apps"], [*_APPS, "controllerrevisions", "daemonsets/status", "deployments/status",
                            "replicasets/status", "statefulsets/status"]),
    _rule(_READ, ["autoscaling"], ["horizontalpodautoscalers", "horizontalpodautoscalers/status"]),
    _rule(_READ, ["batch"], ["cronjobs", "cronjobs/status", "jobs", "jobs/status"]),
    _rule(_READ, ["policy"], ["poddisruptionbudgets", "poddisruptionbudgets/status"]),
    _rule(_READ, ["networking.k8s.io"], ["ingresses", "ingresses/status", "networkpolicies"]),
]  # fmt: skip
_EDITED: list[Obj] = [
    _rule(_READ, [""], ["pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "secrets", "services/proxy"]),
    _rule(["impersonate"], [""], ["serviceaccounts"]),
    _rule(_WRITE, [""], ["pods", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"]),
    _rule(["create"], [""], ["pods/eviction"]),
    _rule(_WRITE, [""], ["configmaps", "events", "persistentvolumeclaims", "replicationcontrollers",
                         "replicationcontrollers/scale", "secrets", "serviceaccounts", "services", "services/proxy"]),
    _rule(["create"], [""], ["serviceaccounts/token"]),
    _rule(_WRITE, ["apps"], [*_APPS, "deployments/rollback"]),
    _rule(_WRITE, ["autoscaling"], ["horizontalpodautoscalers"]),
    _rule(_WRITE, ["batch"], ["cronjobs", "jobs"]),
    _rule(_WRITE, ["policy"], ["poddisruptionbudgets"]),
    _rule(_WRITE, ["networking.k8s.io"], ["ingresses", "networkpolicies"]),
    _rule([*_READ, *_WRITE], ["coordination.k8s.io"], ["leases"]),
]  # fmt: skip
_ADMINISTERED: list[Obj] = [
    _rule(["create"], ["authorization.k8s.io"], ["localsubjectaccessreviews"]),
    _rule([*_READ, *_WRITE], [_GROUP], ["rolebindings", "roles"]),
]


def cluster_roles() -> list[Obj]:
    """The default ClusterRoles."""
    everything: list[Obj] = [
        _rule(["*"], ["*"], ["*"]),
        {"verbs": ["*"], "nonResourceURLs": ["*"]},
    ]

    def into(name: str) -> dict[str, str]:
        return {f"rbac.authorization.k8s.io/aggregate-to-{name}": "true"}

    return [
        _role("cluster-admin", everything),
        _role("admin", [*_ADMINISTERED, *_EDITED, *_VIEWED], aggregate="admin"),
        _role("edit", [*_EDITED, *_VIEWED], into("admin"), aggregate="edit"),
        _role("view", list(_VIEWED), into("edit"), aggregate="view"),
        _role("system:aggregate-to-admin", _ADMINISTERED, into("admin")),
        _role("system:aggregate-to-edit", _EDITED, into("edit")),
        _role("system:aggregate-to-view", _VIEWED, into("view")),
        _role(
            "system:discovery",
            [_paths("/api", "/api/*", "/apis", "/apis/*", "/healthz", "/livez", "/openapi", "/openapi/*", "/readyz",
                    "/version", "/version/")],
        ),
        _role(
            "system:basic-user",
            [
                _rule(["create"], ["authorization.k8s.io"], ["selfsubjectaccessreviews", "selfsubjectrulesreviews"]),
                _rule(["create"], ["authentication.k8s.io"], ["selfsubjectreviews"]),
            ],
        ),
        _role("system:public-info-viewer", [_paths("/healthz", "/livez", "/readyz", "/version", "/version/")]),
        _role(
            "system:service-account-issuer-discovery",
            [_paths("/.well-known/openid-configuration", "/.well-known/openid-configuration/", "/openid/v1/jwks",
                    "/openid/v1/jwks/")],
        ),
        _role(
            "system:auth-delegator",
            [
                _rule(["create"], ["authentication.k8s.io"], ["tokenreviews"]),
                _rule(["create"], ["authorization.k8s.io"], ["subjectaccessreviews"]),
            ],
        ),
        _role("system:monitoring", [_paths("/healthz", "/healthz/*", "/livez", "/livez/*", "/metrics", "/metrics/slis",
                                           "/readyz", "/readyz/*")]),
        _role(
            "system:node",
            [
                _rule([*_READ, "create", "update", "patch"], [""], ["nodes", "nodes/status", "pods", "pods/status",
                                                                   "events"]),
                _rule(["create", "delete"], [""], ["pods", "pods/eviction"]),
                _rule(_READ, [""], ["configmaps", "secrets", "services", "persistentvolumeclaims",
                                    "persistentvolumes"]),
                _rule(["create"], [""], ["serviceaccounts/token"]),
                _rule([*_READ, *_WRITE], ["coordination.k8s.io"], ["leases"]),
                _rule(["create", "patch", "update"], ["events.k8s.io"], ["events"]),
            ],
        ),
    ]  # fmt: skip


def cluster_role_bindings() -> list[Obj]:
    """The default ClusterRoleBindings."""
    authenticated, anonymous = ("Group", "system:authenticated"), ("Group", "system:unauthenticated")
    return [
        _binding("cluster-admin", [("Group", "system:masters")]),
        _binding("system:discovery", [authenticated]),
        _binding("system:basic-user", [authenticated]),
        _binding("system:public-info-viewer", [authenticated, anonymous]),
        _binding("system:service-account-issuer-discovery", [("Group", "system:serviceaccounts")]),
        _binding("system:monitoring", [("Group", "system:monitoring")]),
        _binding("system:node", [("Group", "system:nodes")]),
    ]
