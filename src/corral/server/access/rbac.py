"""Role-based access control as pure functions: which rules allow a request, which rules cover others.

Rules are the `rules` of Role and ClusterRole objects, as they are on the wire.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import NamedTuple

from corral.core.admission import UserInfo
from corral.core.meta import Obj
from corral.core.selectors import from_label_selector
from corral.server.paths import RequestInfo

GROUP = "rbac.authorization.k8s.io"
ALL = "*"


class Attributes(NamedTuple):
    """What somebody wants to do; `path` counts only when `resource` is empty."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""
    version: str = ALL

    @property
    def full_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


def attributes_of(info: RequestInfo) -> Attributes:
    if not info.is_resource:
        return Attributes(info.verb, path=info.path)
    return Attributes(
        info.verb, info.group, info.resource, info.subresource, info.namespace, info.name, "", info.version
    )


def allows(rule: Obj, wanted: Attributes) -> bool:
    """Whether one rule allows the request."""
    verbs = rule.get("verbs") or ()
    if wanted.verb not in verbs and ALL not in verbs:
        return False
    if not wanted.resource:
        return any(_path_matches(pattern, wanted.path) for pattern in rule.get("nonResourceURLs") or ())
    groups = rule.get("apiGroups") or ()
    if wanted.group not in groups and ALL not in groups:
        return False
    if not _resource_matches(rule.get("resources") or (), wanted):
        return False
    names = rule.get("resourceNames") or ()
    return not names or (bool(wanted.name) and wanted.name in names)


def _resource_matches(resources: Sequence[str], wanted: Attributes) -> bool:
    if wanted.full_resource in resources or ALL in resources:
        return True
    return bool(wanted.subresource) and f"*/{wanted.subresource}" in resources


def _path_matches(pattern: str, path: str) -> bool:
    return pattern in (ALL, path) or (pattern.endswith(ALL) and path.startswith(pattern.rstrip(ALL)))


def subject_matches(subject: Obj, user: UserInfo, binding_namespace: str) -> bool:
    """Whether a binding's subject is this user, one of their groups or their service account."""
    kind, name = subject.get("kind"), subject.get("name") or ""
    if kind == "User":
        return name in (user.name, ALL)
    if kind == "Group":
        return name in user.groups
    if kind == "ServiceAccount":
        namespace = subject.get("namespace") or binding_namespace
        return user.name == f"system:serviceaccount:{namespace}:{name}"
    return False


def aggregated(role: Obj, cluster_roles: Iterable[Obj]) -> list[Obj]:
    """The rules of a ClusterRole: its own, or those of the roles its aggregationRule selects."""
    selectors = (role.get("aggregationRule") or {}).get("clusterRoleSelectors")
    if not selectors:
        return list(role.get("rules") or ())
    matchers = [from_label_selector(selector) for selector in selectors]
    own = role["metadata"].get("name")
    rules: list[Obj] = []
    for other in sorted(cluster_roles, key=lambda item: str(item["metadata"].get("name"))):
        labels = other["metadata"].get("labels") or {}
        if other["metadata"].get("name") != own and any(matcher.matches(labels) for matcher in matchers):
            rules.extend(rule for rule in other.get("rules") or () if rule not in rules)
    return rules


def uncovered(owned: Sequence[Obj], wanted: Sequence[Obj]) -> list[Obj]:
    """Those of the `wanted` rules that `owned` does not fully grant."""
    return [rule for rule in wanted if not all(_covered(owned, part) for part in _parts(rule))]


def _parts(rule: Obj) -> Iterator[Obj]:
    """The rule taken apart into rules with one verb and one resource, name or path each."""
    names: Sequence[str | None] = rule.get("resourceNames") or (None,)
    groups, resources = rule.get("apiGroups") or (), rule.get("resources") or ()
    for verb in rule.get("verbs") or ():
        for group, resource, name in product(groups, resources, names):
            part: Obj = {"verbs": [verb], "apiGroups": [group], "resources": [resource]}
            yield part if name is None else {**part, "resourceNames": [name]}
        for path in rule.get("nonResourceURLs") or ():
            yield {"verbs": [verb], "nonResourceURLs": [path]}


def _covered(owned: Sequence[Obj], part: Obj) -> bool:
    return any(_covers(rule, part) for rule in owned)


def _covers(rule: Obj, part: Obj) -> bool:
    if not _has(rule, "verbs", part["verbs"][0]):
        return False
    paths = part.get("nonResourceURLs")
    if paths:
        return any(_path_matches(pattern, paths[0]) for pattern in rule.get("nonResourceURLs") or ())
    if not _has(rule, "apiGroups", part["apiGroups"][0]):
        return False
    resource = part["resources"][0]
    subresource = resource.partition("/")[2]
    resources = rule.get("resources") or ()
    if not (resource in resources or ALL in resources or (subresource and f"*/{subresource}" in resources)):
        return False
    names = rule.get("resourceNames") or ()
    return not names or (part.get("resourceNames") or [None])[0] in names


def _has(rule: Obj, field: str, value: str) -> bool:
    values = rule.get(field) or ()
    return value in values or ALL in values


def describe_rule(rule: Obj) -> str:
    """A rule in the words of a refused escalation."""
    fields = (
        ("APIGroups", "apiGroups"),
        ("Resources", "resources"),
        ("ResourceNames", "resourceNames"),
        ("NonResourceURLs", "nonResourceURLs"),
        ("Verbs", "verbs"),
    )
    parts = [f"{title}:[{' '.join(_quote(value) for value in rule[name])}]" for title, name in fields if rule.get(name)]
    return "{" + ", ".join(parts) + "}"


def _quote(text: str) -> str:
    return f'"{text}"'


def compact(rules: Sequence[Obj]) -> list[Obj]:
    """`rules` in the order and grouping of a refusal: rules alike but for their verbs become one."""
    merged: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    keys = ("apiGroups", "resources", "resourceNames", "nonResourceURLs")
    for rule in rules:
        for part in _parts(rule):
            key = tuple(tuple(part.get(name) or ()) for name in keys)
            verbs = merged.setdefault(key, [])
            verbs.extend(verb for verb in part["verbs"] if verb not in verbs)
    return [
        {**{name: list(values) for name, values in zip(keys, key, strict=True) if values}, "verbs": verbs}
        for key, verbs in merged.items()
    ]


def forbidden_message(user: UserInfo, wanted: Attributes) -> str:
    """What a server says to a request that no rule allows, without the name of the object in front."""
    if not wanted.resource:
        return f'User "{user.name}" cannot {wanted.verb} path "{wanted.path}"'
    where = f'in the namespace "{wanted.namespace}"' if wanted.namespace else "at the cluster scope"
    return (
        f'User "{user.name}" cannot {wanted.verb} resource "{wanted.full_resource}" '
        f'in API group "{wanted.group}" {where}'
    )
