"""ValidatingAdmissionPolicies: rules in CEL, bound to what they apply to, evaluated in process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from corral.core.admission import AdmissionRequest
from corral.core.errors import ApiError
from corral.core.meta import Obj, spec_of
from corral.kinds.machinery.registry import Registry
from corral.server.admission.match_conditions import Conditions, ExpressionError, evaluate
from corral.server.admission.webhook_rules import is_exempt, match_rules, namespace_matches, objects_match, selector_of
from corral.store import Event, ObjectKey, Store

POLICIES = "validatingadmissionpolicies.admissionregistration.k8s.io"
BINDINGS = "validatingadmissionpolicybindings.admissionregistration.k8s.io"
_CODES = {"Unauthorized": 401, "Forbidden": 403, "Invalid": 422, "RequestEntityTooLarge": 413}


class Bound(NamedTuple):
    """A policy with one of its bindings."""

    policy: str
    binding: str
    rules: Obj
    scope: Obj


class Finding(NamedTuple):
    """One validation that did not hold."""

    message: str
    reason: str


class Policies:
    """The plug-in."""

    name = "ValidatingAdmissionPolicy"

    def __init__(self, store: Store, registry: Registry, conditions: Conditions) -> None:
        self._store = store
        self._registry = registry
        self._conditions = conditions
        self._kept: list[Bound] | None = None
        store.observe(self._changed)

    def _changed(self, event: Event) -> None:
        if event.stored.key.resource in (POLICIES, BINDINGS):
            self._kept = None

    def _bound(self) -> list[Bound]:
        if self._kept is None:
            policies = {stored.key.name: spec_of(stored.obj) for stored in self._store.scan(POLICIES)}
            bindings = [(stored.key.name, spec_of(stored.obj)) for stored in self._store.scan(BINDINGS)]
            self._kept = [
                Bound(scope["policyName"], name, policies[scope["policyName"]], scope)
                for name, scope in bindings
                if scope.get("policyName") in policies
            ]
        return self._kept

    def handles(self, request: AdmissionRequest) -> bool:
        return bool(self._bound()) and not is_exempt(request)

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        return request.obj

    async def validate(self, request: AdmissionRequest) -> None:
        for bound in self._bound():
            if self._concerns(bound, request):
                for finding in self._findings(bound, request):
                    self._act(bound, request, finding)

    def _concerns(self, bound: Bound, request: AdmissionRequest) -> bool:
        constraints = bound.rules.get("matchConstraints") or {}
        if not self._matches(constraints, request, required=True):
            return False
        narrowed = bound.scope.get("matchResources")
        return not narrowed or self._matches(narrowed, request, required=False)

    def _matches(self, constraints: Obj, request: AdmissionRequest, *, required: bool) -> bool:
        exact = constraints.get("matchPolicy") == "Exact"
        rules = constraints.get("resourceRules") or []

        def versions() -> list[str]:
            kind = self._registry.get(request.resource.group, request.resource.plural)
            return [version.name for version in kind.served_versions] if kind is not None else []

        if (rules or required) and match_rules(rules, request, versions, exact=exact) is None:
            return False
        excluded = constraints.get("excludeResourceRules") or []
        if excluded and match_rules(excluded, request, versions, exact=exact) is not None:
            return False
        return objects_match(constraints.get("objectSelector"), request) and namespace_matches(
            constraints.get("namespaceSelector"), request, self._namespace
        )

    def _namespace(self, name: str) -> Obj | None:
        stored = self._store.get(ObjectKey("namespaces", "", name))
        return stored.obj if stored is not None else None

    # evaluating

    def _findings(self, bound: Bound, request: AdmissionRequest) -> Iterator[Finding]:
        fails = bound.rules.get("failurePolicy", "Fail") != "Ignore"
        conditions = bound.rules.get("matchConditions") or []
        if conditions and not self._conditions.all_true(conditions, request, fails, bound.policy):
            return
        for params in self._params(bound, request):
            if params is _MISSING:
                if fails:
                    yield Finding(
                        "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction",
                        "Invalid",
                    )
                continue
            variables = {**self._conditions.variables(request), "params": params}
            variables["variables"] = _named_values(bound.rules.get("variables") or [], variables)
            for validation in bound.rules.get("validations") or ():
                finding = _check(validation, variables, fails)
                if finding is not None:
                    yield finding

    def _params(self, bound: Bound, request: AdmissionRequest) -> list[Any]:
        """The parameter objects to evaluate with; a single None when the policy takes none."""
        kind, reference = bound.rules.get("paramKind"), bound.scope.get("paramRef")
        if not kind or not reference:
            return [None]
        found = self._registry.find(kind.get("apiVersion", ""), kind.get("kind", ""))
        if found is None:
            return [_MISSING]
        definition = found[0]
        namespace = (reference.get("namespace") or request.namespace) if definition.namespaced else ""
        if reference.get("name"):
            stored = self._store.get(ObjectKey(definition.group_resource, namespace, reference["name"]))
            objects = [stored.obj] if stored is not None else []
        else:
            selector = selector_of(reference.get("selector"))
            scanned = self._store.scan(definition.group_resource, namespace)
            objects = [stored.obj for stored in scanned if selector is None or selector.matches(stored.labels)]
        if objects:
            return list(objects)
        return [] if reference.get("parameterNotFoundAction") == "Allow" else [_MISSING]

    def _act(self, bound: Bound, request: AdmissionRequest, finding: Finding) -> None:
        actions = bound.scope.get("validationActions") or ["Deny"]
        about = f"ValidatingAdmissionPolicy '{bound.policy}' with binding '{bound.binding}'"
        if "Warn" in actions:
            request.warn(f"Validation failed for {about}: {finding.message}")
        if "Deny" not in actions:
            return
        message = f"{about} denied request: {finding.message}"
        resource = request.resource
        details: Obj = {"name": request.name} if request.name else {}
        if resource.group:
            details["group"] = resource.group
        details |= {"kind": resource.plural, "causes": [{"message": message}]}
        quoted = f' "{request.name}"' if request.name else ""
        raise ApiError(
            f"{resource.group_resource}{quoted} is forbidden: {message}",
            code=_CODES.get(finding.reason, 422),
            reason=finding.reason,
            details=details,
        )


_MISSING = object()


def _named_values(declared: list[Obj], variables: dict[str, Any]) -> dict[str, Any]:
    """The policy's own variables, each of which may use those before it; one that fails is simply not there."""
    values: dict[str, Any] = {}
    for variable in declared:
        try:
            values[variable["name"]] = evaluate(variable["expression"], {**variables, "variables": values})
        except ExpressionError:
            continue
    return values


def _check(validation: Obj, variables: dict[str, Any], fails: bool) -> Finding | None:
    expression = validation.get("expression") or ""
    reason = validation.get("reason") or "Invalid"
    try:
        if evaluate(expression, variables) is True:
            return None
    except ExpressionError as error:
        return Finding(f"expression '{expression}' resulted in error: {error}", reason) if fails else None
    return Finding(_message(validation, expression, variables), reason)


def _message(validation: Obj, expression: str, variables: dict[str, Any]) -> str:
    composed = validation.get("messageExpression")
    if composed:
        try:
            text = evaluate(composed, variables)
            if isinstance(text, str) and text.strip() and "\n" not in text:
                return text.strip()
        except ExpressionError:
            pass  # the fixed message is the fallback
    return str(validation.get("message") or f"failed expression: {expression.strip()}")
