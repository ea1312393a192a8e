"""Which writes a webhook or an admission policy wants to see: rules, selectors and scopes, as pure functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import msgspec

from corral.core.admission import AdmissionRequest
from corral.core.meta import Obj, labels_of
from corral.core.selectors import Selector, from_label_selector

EXEMPT = frozenset(
    {
        "mutatingwebhookconfigurations", "validatingwebhookconfigurations", "validatingadmissionpolicies",
        "validatingadmissionpolicybindings", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings",
    }
)  # fmt: skip
"""Resources of admissionregistration.k8s.io that nothing configured by them may block."""

_GROUP = "admissionregistration.k8s.io"


class Match(NamedTuple):
    """A rule that wants the request, and the version it wants the object in."""

    version: str


def is_exempt(request: AdmissionRequest) -> bool:
    resource = request.resource
    if resource.group == _GROUP and resource.plural in EXEMPT:
        return True
    # Reviews are questions, not objects.
    return resource.group in ("authentication.k8s.io", "authorization.k8s.io") and request.operation == "CREATE"


def match_rules(
    rules: list[Obj], request: AdmissionRequest, versions: Callable[[], list[str]], *, exact: bool
) -> Match | None:
    """The first rule that fits. Unless `exact`, a rule for another version of the resource (`versions`) fits too."""
    for rule in rules:
        if rule_matches(rule, request, request.resource.version):
            return Match(request.resource.version)
    if exact:
        return None
    for rule in rules:
        for version in versions():
            if rule_matches(rule, request, version):
                return Match(version)
    return None


def rule_matches(rule: Obj, request: AdmissionRequest, version: str) -> bool:
    resource = request.resource
    return (
        _has(rule.get("operations"), request.operation)
        and _has(rule.get("apiGroups"), resource.group)
        and _has(rule.get("apiVersions"), version)
        and _scope_matches(rule.get("scope") or "*", request)
        and any(
            _resource_matches(pattern, resource.plural, request.subresource) for pattern in rule.get("resources") or ()
        )
        and (not rule.get("resourceNames") or request.name in rule["resourceNames"])
    )


def _has(values: list[str] | None, value: str) -> bool:
    return values is not None and ("*" in values or value in values)


def _scope_matches(scope: str, request: AdmissionRequest) -> bool:
    if scope == "*":
        return True
    # A Namespace object is cluster-scoped although requests about it name a namespace.
    return (scope == "Namespaced") == request.resource.namespaced


def _resource_matches(pattern: str, plural: str, subresource: str) -> bool:
    name, _, sub = pattern.partition("/")
    if pattern == "*/*":
        return True
    return name in ("*", plural) and (
        sub == subresource or (sub == "*" and bool(subresource)) or (sub == "*" and name == plural)
    )


@lru_cache(maxsize=1024)
def _selector(encoded: bytes) -> Selector:
    return from_label_selector(msgspec.json.decode(encoded))


def selector_of(selector: Obj | None) -> Selector | None:
    """A compiled LabelSelector, or None when it selects everything."""
    return _selector(msgspec.json.encode(selector)) if selector else None


def objects_match(selector: Obj | None, request: AdmissionRequest) -> bool:
    """An object selector fits when the new or the old object has the labels."""
    compiled = selector_of(selector)
    if compiled is None:
        return True
    return any(compiled.matches(labels_of(obj)) for obj in (request.obj, request.old) if obj is not None)


def namespace_matches(selector: Obj | None, request: AdmissionRequest, namespace: Callable[[str], Obj | None]) -> bool:
    """A namespace selector looks at the object's namespace, or at the object itself if it is one; others always fit."""
    compiled = selector_of(selector)
    if compiled is None:
        return True
    if request.resource.plural == "namespaces" and not request.resource.group:
        obj = request.obj or request.old or {}
        return compiled.matches(labels_of(obj))
    if not request.resource.namespaced:
        return True
    found = namespace(request.namespace)
    return compiled.matches(labels_of(found or {}))
