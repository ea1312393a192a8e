"""rbac.authorization.k8s.io/v1: roles and their bindings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from corral.core.errors import Cause
from corral.core.meta import Obj
from corral.core.names import check_path_segment, check_subdomain
from corral.core.validation import (
    check_label_selector,
    check_metadata,
    check_metadata_update,
    invalid,
    not_supported,
    required,
)  # fmt: skip
from corral.kinds.machinery.builtin import kind
from corral.kinds.machinery.definition import Cell, Column
from corral.kinds.machinery.tables import AGE, NAME

GROUP = "rbac.authorization.k8s.io"


def _role_ref(binding: Obj, now: float) -> Cell:
    ref = binding.get("roleRef") or {}
    return f"{ref.get('kind', '')}/{ref.get('name', '')}"


def _subjects(binding: Obj, kind_name: str) -> str:
    found = [subject for subject in binding.get("subjects") or () if subject.get("kind") == kind_name]
    if kind_name == "ServiceAccount":
        return ", ".join(f"{subject.get('namespace') or ''}/{subject.get('name')}" for subject in found)
    return ", ".join(str(subject.get("name")) for subject in found)


_BINDING_COLUMNS = (
    NAME,
    Column("Role", cell=_role_ref),
    AGE,
    Column("Users", priority=1, cell=lambda obj, now: _subjects(obj, "User")),
    Column("Groups", priority=1, cell=lambda obj, now: _subjects(obj, "Group")),
    Column("ServiceAccounts", priority=1, cell=lambda obj, now: _subjects(obj, "ServiceAccount")),
)


def default_binding(binding: Obj) -> None:
    """Users and groups belong to this API group, service accounts to none; so does the role."""
    ref = binding.get("roleRef")
    if ref is not None and not ref.get("apiGroup"):
        ref["apiGroup"] = GROUP
    for subject in binding.get("subjects") or ():
        if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
            subject["apiGroup"] = GROUP


def _check_rule(rule: Obj, path: str, *, namespaced: bool) -> list[Cause]:
    causes: list[Cause] = []
    if not rule.get("verbs"):
        causes.append(required(f"{path}.verbs", "verbs must contain at least one value"))
    urls = rule.get("nonResourceURLs")
    if urls:
        where = f"{path}.nonResourceURLs"
        if namespaced:
            causes.append(invalid(where, urls, "namespaced rules cannot apply to non-resource URLs"))
        if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            causes.append(invalid(where, urls, detail))
        return causes
    if not rule.get("apiGroups"):
        causes.append(required(f"{path}.apiGroups", "resource rules must supply at least one api group"))
    if not rule.get("resources"):
        causes.append(required(f"{path}.resources", "resource rules must supply at least one resource"))
    return causes


def check_role(role: Obj) -> list[Cause]:
    """A Role or a ClusterRole."""
    namespaced = role.get("kind") == "Role"
    causes: list[Cause] = []
    for position, rule in enumerate(role.get("rules") or ()):
        causes += _check_rule(rule, f"rules[{position}]", namespaced=namespaced)
    aggregation = role.get("aggregationRule")
    if aggregation is None:
        return causes
    path, selectors = "aggregationRule.clusterRoleSelectors", aggregation.get("clusterRoleSelectors") or ()
    if not selectors:
        causes.append(required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
    for position, selector in enumerate(selectors):
        wrong = check_label_selector(f"{path}[{position}]", selector)
        causes += [*wrong, invalid(f"{path}[{position}]", None, "invalid label selector.")] if wrong else []
    return causes


def check_binding(binding: Obj) -> list[Cause]:
    """A RoleBinding or a ClusterRoleBinding."""
    namespaced = binding.get("kind") == "RoleBinding"
    ref = binding.get("roleRef") or {}
    allowed = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    causes: list[Cause] = []
    if ref.get("apiGroup") != GROUP:
        causes.append(not_supported("roleRef.apiGroup", ref.get("apiGroup") or "", (GROUP,)))
    if ref.get("kind") not in allowed:
        causes.append(not_supported("roleRef.kind", ref.get("kind") or "", allowed))
    name = ref.get("name") or ""
    checked = [invalid("roleRef.name", name, text) for text in check_path_segment(name)]
    causes += checked if name else [required("roleRef.name")]
    for position, subject in enumerate(binding.get("subjects") or ()):
        causes += _check_subject(subject, f"subjects[{position}]", namespaced=namespaced)
    return causes


def _check_subject(subject: Obj, path: str, *, namespaced: bool) -> list[Cause]:
    name, kind_name, group = subject.get("name") or "", subject.get("kind"), subject.get("apiGroup") or ""
    causes: list[Cause] = [] if name else [required(f"{path}.name")]
    if kind_name == "ServiceAccount":
        causes += [invalid(f"{path}.name", name, text) for text in check_subdomain(name)] if name else []
        if group:
            causes.append(not_supported(f"{path}.apiGroup", group, ("",)))
        if not namespaced and not subject.get("namespace"):
            causes.append(required(f"{path}.namespace"))
    elif kind_name in ("User", "Group"):
        if group != GROUP:
            causes.append(not_supported(f"{path}.apiGroup", group, (GROUP,)))
    else:
        causes.append(not_supported(f"{path}.kind", kind_name or "", ("ServiceAccount", "User", "Group")))
    return causes


def _revalidate(check: Callable[[Obj], list[Cause]]) -> Callable[[Obj, Obj], list[Cause]]:
    def check_update(new: Obj, old: Obj) -> list[Cause]:
        namespaced = new.get("kind") in ("Role", "RoleBinding")
        causes = check_metadata(new["metadata"], namespaced=namespaced, check_name=check_path_segment)
        causes += check(new)
        causes += check_metadata_update(new["metadata"], old["metadata"])
        if new.get("roleRef") != old.get("roleRef"):
            shown = {field: (new.get("roleRef") or {}).get(field) or "" for field in ("apiGroup", "kind", "name")}
            go_names = {"apiGroup": "APIGroup", "kind": "Kind", "name": "Name"}
            value = {go_names[field]: text for field, text in shown.items()}
            causes.append(invalid("roleRef", value, "cannot change roleRef"))
        return causes

    return check_update


_ROLE: dict[str, Any] = {"validate": check_role, "validate_update": _revalidate(check_role)}
_BINDING: dict[str, Any] = {
    "default": default_binding,
    "validate": check_binding,
    "validate_update": _revalidate(check_binding),
    "columns": _BINDING_COLUMNS,
}
_OPTIONS: dict[str, Any] = {"group": GROUP, "allow_create_on_update": True, "check_name": check_path_segment}

CLUSTER_ROLE_BINDING = kind(
    "rbac.v1.ClusterRoleBinding", "clusterrolebindings", namespaced=False, **_BINDING, **_OPTIONS
)
CLUSTER_ROLE = kind("rbac.v1.ClusterRole", "clusterroles", namespaced=False, **_ROLE, **_OPTIONS)
ROLE_BINDING = kind("rbac.v1.RoleBinding", "rolebindings", **_BINDING, **_OPTIONS)
ROLE = kind("rbac.v1.Role", "roles", **_ROLE, **_OPTIONS)

KINDS = (CLUSTER_ROLE_BINDING, CLUSTER_ROLE, ROLE_BINDING, ROLE)

CLUSTER_ROLE_BINDINGS = CLUSTER_ROLE_BINDING.resource()
CLUSTER_ROLES = CLUSTER_ROLE.resource()
ROLE_BINDINGS = ROLE_BINDING.resource()
ROLES = ROLE.resource()
