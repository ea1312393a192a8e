"""Who acts: an identity of a controller, and the rules of RBAC it needs, as values.

Every controller group has one. In an embedded cluster its client acts under it, and the API refuses what no rule allows; for a
real cluster the same rules are printed as roles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from corral.core.admission import UserInfo
from corral.core.meta import Obj
from corral.core.resource import Resource

RBAC_GROUP = "rbac.authorization.k8s.io"
FOLLOW = "list watch"
"""What a cache of a kind needs."""
CONTROL_PLANE = "kube-system"
"""The namespace of the accounts of controllers that an embedded cluster runs itself. Nobody but administrators makes accounts there:
an account in a namespace that does not exist could be made, and used, by whoever may create namespaces."""
_SERVICE_ACCOUNT = "system:serviceaccount:"
_BOOTSTRAP = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_UPDATED = {"rbac.authorization.kubernetes.io/autoupdate": "true"}

Target = Resource | tuple[Resource, str]
"""A resource, or a subresource of one."""
Rules = tuple[Obj, ...]
EVENT_RIGHTS: Rules = ({"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},)
"""Every controller tells what it does."""


def rights(verbs: str, *targets: Target, names: Sequence[str] = ()) -> Rules:
    """Rules for `verbs` (separated by spaces) on some resources, or only on those of some names: one rule for each API group, in
    the order they are named."""
    by_group: dict[str, list[str]] = {}
    for target in targets:
        resource, part = (target, "") if isinstance(target, Resource) else target
        name = f"{resource.plural}/{part}" if part else resource.plural
        plurals = by_group.setdefault(resource.group, [])
        if name not in plurals:
            plurals.append(name)
    only: Obj = {"resourceNames": list(names)} if names else {}
    return tuple(
        {"apiGroups": [group], "resources": plurals, "verbs": verbs.split(), **only}
        for group, plurals in by_group.items()
    )


def statuses(*resources: Resource) -> tuple[Target, ...]:
    """The status subresources of some resources."""
    return tuple((resource, "status") for resource in resources)


@dataclass(frozen=True, slots=True)
class Identity:
    """A user and what it may do: everywhere, and in single namespaces."""

    name: str
    """How the group of controllers is called, such as `queueing`."""
    user: UserInfo
    rules: Rules
    inside: Mapping[str, Rules] = field(default_factory=dict)
    """What it may do in one namespace only, by namespace."""
    role: str = ""
    """The name of its ClusterRole where that is not made from its own name."""

    @property
    def role_name(self) -> str:
        return self.role or f"corral:{self.name}"


def controller(name: str, user: UserInfo, *rules: Rules, role: str = "") -> Identity:
    """The identity of a group of controllers that has the same rights everywhere."""
    return Identity(name, user, with_events(*rules), role=role)


def service_account(name: str, namespace: str = CONTROL_PLANE) -> UserInfo:
    """A service account, with the groups its tokens have."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return UserInfo(f"{_SERVICE_ACCOUNT}{namespace}:{name}", groups)


def role_objects(identity: Identity, subject: Obj | None = None, labels: Mapping[str, str] = _BOOTSTRAP) -> list[Obj]:
    """The roles of an identity and the bindings that give them to it, or to another subject."""
    bound = [subject or _subject(identity.user)]
    found: list[Obj] = []
    for namespace, rules in (("", identity.rules), *identity.inside.items()):
        if not rules:
            continue
        kind = "Role" if namespace else "ClusterRole"
        metadata: Obj = {"name": identity.role_name, "labels": dict(labels), "annotations": dict(_UPDATED)}
        if namespace:
            metadata["namespace"] = namespace
        reference = {"apiGroup": RBAC_GROUP, "kind": kind, "name": identity.role_name}
        version = f"{RBAC_GROUP}/v1"
        found.append(
            {"apiVersion": version, "kind": kind, "metadata": metadata, "rules": [dict(rule) for rule in rules]}
        )
        found.append(
            {
                "apiVersion": version,
                "kind": f"{kind}Binding",
                "metadata": metadata,
                "roleRef": reference,
                "subjects": bound,
            }
        )
    return found


def with_events(*parts: Rules) -> Rules:
    """Some rules, and those for the Events that every controller writes, as one list."""
    return merged(rule for part in (*parts, EVENT_RIGHTS) for rule in part)


def merged(rules: Iterable[Obj]) -> Rules:
    """The same rights in fewer rules: one for each API group and set of verbs, without repetition."""
    found: dict[tuple[object, ...], Obj] = {}
    for rule in rules:
        key = (tuple(rule.get("apiGroups") or ()), tuple(rule["verbs"]), tuple(rule.get("resourceNames") or ()))
        held = found.setdefault(key, {**rule, "resources": []})
        held["resources"] += [name for name in rule.get("resources") or () if name not in held["resources"]]
    return tuple(found.values())


def _subject(user: UserInfo) -> Obj:
    if not user.name.startswith(_SERVICE_ACCOUNT):
        return {"apiGroup": RBAC_GROUP, "kind": "User", "name": user.name}
    namespace, _, name = user.name.removeprefix(_SERVICE_ACCOUNT).partition(":")
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}
