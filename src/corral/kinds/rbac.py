"""rbac.authorization.k8s.io/v1: roles and their bindings."""

from __future__ import annotations

from typing import Any

from corral.core.meta import Obj
from corral.core.names import check_path_segment
from corral.kinds.builtin import kind
from corral.kinds.definition import Cell, Column
from corral.kinds.tables import AGE, NAME

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
_OPTIONS: dict[str, Any] = {"group": GROUP, "allow_create_on_update": True, "check_name": check_path_segment}

CLUSTER_ROLE_BINDING = kind(
    "rbac.v1.ClusterRoleBinding", "clusterrolebindings", namespaced=False, columns=_BINDING_COLUMNS, **_OPTIONS
)
CLUSTER_ROLE = kind("rbac.v1.ClusterRole", "clusterroles", namespaced=False, **_OPTIONS)
ROLE_BINDING = kind("rbac.v1.RoleBinding", "rolebindings", columns=_BINDING_COLUMNS, **_OPTIONS)
ROLE = kind("rbac.v1.Role", "roles", **_OPTIONS)

KINDS = (CLUSTER_ROLE_BINDING, CLUSTER_ROLE, ROLE_BINDING, ROLE)

CLUSTER_ROLE_BINDINGS = CLUSTER_ROLE_BINDING.resource()
CLUSTER_ROLES = CLUSTER_ROLE.resource()
ROLE_BINDINGS = ROLE_BINDING.resource()
ROLES = ROLE.resource()
