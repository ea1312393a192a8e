"""Overrides: which of them concern a selection and a cluster, and what an object looks like after them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from corral.core.meta import Obj, labels_of, name_of, namespace_of, spec_of
from corral.core.selectors import from_label_selector
from corral.core.whole_numbers import whole_number
from corral.decide.placement.bindings import Overrides
from corral.decide.placement.selection import split_api_version

NAME_VARIABLE: Final = "${MEMBER-CLUSTER-NAME}"
LABEL_VARIABLE: Final = "${MEMBER-CLUSTER-LABEL-KEY-"

Identity = tuple[str, str, str, str]


class OverrideError(ValueError):
    """An override cannot be applied to an object."""


def override_spec(snapshot: Obj) -> Obj:
    spec: Obj = spec_of(snapshot).get("overrideSpec") or {}
    return spec


def concerns_placement(snapshot: Obj, placement: str, *, namespaced: bool) -> bool:
    """Whether an override is for any placement, or for this one."""
    reference = override_spec(snapshot).get("placement")
    if not reference:
        return True
    scope = reference.get("scope") or "Cluster"
    return reference.get("name") == placement and scope == ("Namespaced" if namespaced else "Cluster")


def _identity(group: str, version: str, kind: str, name: str) -> Identity:
    return group, version, kind, name


def cluster_identity(obj: Obj) -> Identity:
    """What a ClusterResourceOverride has to select to reach the object: itself, or the namespace it is in."""
    if namespace := namespace_of(obj):
        return _identity("", "v1", "Namespace", namespace)
    return object_identity(obj)


def object_identity(obj: Obj) -> Identity:
    group, version = split_api_version(str(obj.get("apiVersion", "")))
    return _identity(group, version, str(obj.get("kind", "")), name_of(obj))


def selected_by(snapshot: Obj) -> list[Identity]:
    spec = override_spec(snapshot)
    selectors = spec.get("clusterResourceSelectors") or spec.get("resourceSelectors") or ()
    return [
        _identity(one.get("group", ""), one.get("version", ""), one.get("kind", ""), one.get("name", ""))
        for one in selectors
    ]


def matching(
    resources: Iterable[Obj], cluster_scoped: Sequence[Obj], namespaced: Sequence[Obj]
) -> tuple[list[Obj], list[Obj]]:
    """The override snapshots, of either kind, that select one of the resources."""
    wide: dict[Identity, None] = {}
    narrow: dict[tuple[str, Identity], None] = {}
    for obj in resources:
        wide[cluster_identity(obj)] = None
        if namespace := namespace_of(obj):
            narrow[(namespace, object_identity(obj))] = None
    return (
        [one for one in cluster_scoped if any(identity in wide for identity in selected_by(one))],
        [one for one in namespaced if any((namespace_of(one), identity) in narrow for identity in selected_by(one))],
    )


def selects_cluster(rule: Obj, labels: Mapping[str, str]) -> bool:
    """Whether a rule is for a cluster: without a selector for none, with an empty one for all."""
    selector = rule.get("clusterSelector")
    if selector is None:
        return False
    terms = selector.get("clusterSelectorTerms") or ()
    return not terms or any(from_label_selector(term.get("labelSelector")).matches(labels) for term in terms)


def rules_of(snapshot: Obj) -> Sequence[Obj]:
    return (override_spec(snapshot).get("policy") or {}).get("overrideRules") or ()


def for_cluster(cluster_scoped: Sequence[Obj], namespaced: Sequence[Obj], member: Obj) -> Overrides:
    """The names of those snapshots that have a rule for this member."""

    def concerns(snapshot: Obj) -> bool:
        return any(selects_cluster(rule, labels_of(member)) for rule in rules_of(snapshot))

    return Overrides(
        tuple(sorted(name_of(one) for one in cluster_scoped if concerns(one))),
        tuple(sorted((namespace_of(one), name_of(one)) for one in namespaced if concerns(one))),
    )


def apply_overrides(obj: Obj, member: Obj, snapshots: Sequence[Obj]) -> Obj | None:
    """The object as a member gets it, None when a rule keeps it from that member.

    `snapshots` come in order of precedence, the strongest last: ClusterResourceOverrides, then ResourceOverrides.
    """
    for snapshot in snapshots:
        reached = object_identity(obj) if namespace_of(snapshot) else cluster_identity(obj)
        if namespace_of(snapshot) and namespace_of(snapshot) != namespace_of(obj):
            continue
        if reached not in selected_by(snapshot):
            continue
        for rule in rules_of(snapshot):
            if not selects_cluster(rule, labels_of(member)):
                continue
            if rule.get("overrideType") == "Delete":
                return None
            for operation in rule.get("jsonPatchOverrides") or ():
                obj = _patch(obj, operation, member)
    return obj


def _patch(obj: Obj, operation: Obj, member: Obj) -> Obj:
    path = str(operation.get("path", ""))
    parts = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]
    value = _resolve(operation.get("value"), member)
    result: Obj = _edit(obj, parts, str(operation.get("op")), path, value)
    return result


def _resolve(value: Any, member: Obj) -> Any:
    """A value with the variables in its strings replaced."""
    if isinstance(value, str):
        return _replace(value, member)
    if isinstance(value, list):
        return [_resolve(item, member) for item in value]
    if isinstance(value, dict):
        return {_replace(str(name), member): _resolve(item, member) for name, item in value.items()}
    return value


def _replace(text: str, member: Obj) -> str:
    text = text.replace(NAME_VARIABLE, name_of(member))
    while (start := text.find(LABEL_VARIABLE)) >= 0:
        end = text.find("}", start)
        if end < 0:
            raise OverrideError(
                f"input {text} is missing the closing bracket" if text else "missing the closing bracket"
            )
        key = text[start + len(LABEL_VARIABLE) : end]
        if key not in labels_of(member):
            raise OverrideError(f"label key {key} not found on cluster {name_of(member)}")
        text = text[:start] + labels_of(member)[key] + text[end + 1 :]
    return text


def _edit(node: Any, parts: Sequence[str], op: str, path: str, value: Any) -> Any:
    """The document after one operation; the errors are those of upstream's patch library."""
    head, rest = parts[0], parts[1:]
    if rest:
        child = _child(node, head)
        if child is None or not isinstance(child, dict | list):
            shown = f'"{path}"' if op == "add" else path
            raise OverrideError(f"{op} operation does not apply: doc is missing path: {shown}: missing value")
        return _with(node, head, _edit(child, rest, op, path, value))
    if isinstance(node, list):
        return _edit_list(node, head, op, path, value)
    if op == "add":
        return {**node, head: value}
    if head not in node:
        if op == "replace":
            raise OverrideError(f"replace operation does not apply: doc is missing key: {path}: missing value")
        raise OverrideError(
            f"error in remove for path: '{path}': unable to remove nonexistent key: {head}: missing value"
        )
    if op == "replace":
        return {**node, head: value}
    return {name: item for name, item in node.items() if name != head}


def _child(node: Any, part: str) -> Any:
    if isinstance(node, dict):
        return node.get(part)
    index = _index(node, part)
    return None if index is None else node[index]


def _index(node: list[Any], part: str) -> int | None:
    index = whole_number(part)
    return index if index is not None and index < len(node) else None


def _with(node: Any, part: str, value: Any) -> Any:
    if isinstance(node, dict):
        return {**node, part: value}
    index = int(part)
    return [*node[:index], value, *node[index + 1 :]]


def _edit_list(node: list[Any], part: str, op: str, path: str, value: Any) -> list[Any]:
    if op == "add":
        position = len(node) if part == "-" else whole_number(part)
        if position is None or position > len(node):
            raise OverrideError(
                f"error in add for path: '{path}': Unable to access invalid index: {part}: invalid index referenced"
            )
        return [*node[:position], value, *node[position:]]
    index = _index(node, part)
    if index is None:
        if op == "replace":
            raise OverrideError(f"replace operation does not apply: doc is missing key: {path}: missing value")
        raise OverrideError(
            f"error in remove for path: '{path}': Unable to access invalid index: {part}: invalid index referenced"
        )
    return [*node[:index], *([value] if op == "replace" else []), *node[index + 1 :]]
