"""CEL over admission requests: match conditions of webhooks and the expressions of admission policies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from corral.core.admission import AdmissionRequest
from corral.core.errors import Forbidden
from corral.core.meta import Obj
from corral.server.access.authentication import user_status

_VARIABLES = ("object", "oldObject", "request", "namespaceObject", "params", "variables")


class ExpressionError(Exception):
    """An expression that is not CEL, or has no value for this request."""


@lru_cache(maxsize=4096)
def _compiled(expression: str) -> Any:
    from corral.core.cel import compile_expression  # loaded only where policies exist

    return compile_expression(expression, dict.fromkeys(_VARIABLES))


def evaluate(expression: str, variables: Mapping[str, Any]) -> Any:
    """The value of an expression; ExpressionError when it has none."""
    from corral.core.cel import CelError

    try:
        return _compiled(expression).evaluate(*(variables.get(name) for name in _VARIABLES))
    except CelError as error:
        raise ExpressionError(str(error)) from error


def request_variable(request: AdmissionRequest) -> Obj:
    """What expressions call `request`."""
    resource = request.resource
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    named = {"group": resource.group, "version": resource.version, "resource": resource.plural}
    return {
        "kind": kind,
        "resource": named,
        "subResource": request.subresource,
        "requestKind": kind,
        "requestResource": named,
        "requestSubResource": request.subresource,
        "name": request.name,
        "namespace": request.namespace,
        "operation": request.operation,
        "userInfo": {"groups": [], "extra": {}, "uid": "", **user_status(request.user)},
        "dryRun": request.dry_run,
    }


class Conditions:
    """Evaluates conditions; `namespace` finds the Namespace object of a request."""

    def __init__(self, namespace: Callable[[str], Obj | None]) -> None:
        self._namespace = namespace

    def variables(self, request: AdmissionRequest) -> dict[str, Any]:
        """The variables every admission expression has."""
        return {
            "object": request.obj,
            "oldObject": request.old,
            "request": request_variable(request),
            "namespaceObject": self._namespace(request.namespace) if request.namespace else None,
        }

    def all_true(self, conditions: list[Obj], request: AdmissionRequest, fails: bool, owner: str) -> bool:
        """Whether all match conditions hold. One that cannot be evaluated refuses the request if `fails`, else skips it."""
        variables = self.variables(request)
        problems = []
        for condition in conditions:
            try:
                if evaluate(condition["expression"], variables) is not True:
                    return False
            except ExpressionError as error:
                problems.append(f"expression '{condition['expression']}' resulted in error: {error}")
        if problems and fails:
            raise Forbidden(f"{owner}: {'; '.join(problems)}")
        return not problems
