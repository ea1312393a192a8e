"""Admission of roles and bindings: nobody grants what they do not hold, unless they may escalate or bind."""

from __future__ import annotations

from corral.core import errors
from corral.core.admission import AdmissionRequest
from corral.core.meta import Obj
from corral.core.resource import Resource
from corral.server.access import rbac
from corral.server.access.authorization import EVERYTHING, MASTERS, Authorizer
from corral.server.access.rbac import Attributes

# Who may only let go of a role or binding changes nothing about what it grants; labels do, where roles are aggregated.
_HOLDING = frozenset({"ownerReferences", "finalizers", "managedFields", "resourceVersion", "generation"})


class RbacGuard:
    """The plug-in."""

    name = "RBAC"
    kinds = tuple((rbac.GROUP, kind) for kind in ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"))

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def handles(self, request: AdmissionRequest) -> bool:
        return (
            request.resource.group == rbac.GROUP
            and request.operation in ("CREATE", "UPDATE")
            and MASTERS not in request.user.groups
        )

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        return request.obj

    async def validate(self, request: AdmissionRequest) -> None:
        self.check(request)

    def check(self, request: AdmissionRequest) -> None:
        """Raises Forbidden where the user would grant more than they hold."""
        obj = request.obj or {}
        if request.old is not None and _granted(obj) == _granted(request.old):
            return
        if request.resource.kind in ("Role", "ClusterRole"):
            old = request.old or {}
            self._check(request, "escalate", request.resource.plural, request.name, obj.get("rules") or [])
            if obj.get("aggregationRule") or old.get("aggregationRule"):
                self._check(request, "escalate", request.resource.plural, request.name, EVERYTHING)
        else:
            reference = obj.get("roleRef") or {}
            rules = self._authorizer.role_rules(reference, request.namespace)
            plural = "roles" if reference.get("kind") == "Role" else "clusterroles"
            if rules is None:
                wanted = Attributes("bind", rbac.GROUP, plural, "", request.namespace, reference.get("name") or "")
                if not self._authorizer.allowed(request.user, wanted):
                    raise errors.not_found(Resource(rbac.GROUP, "v1", plural, ""), reference.get("name") or "")
                return
            self._check(request, "bind", plural, reference.get("name") or "", rules)

    def _check(self, request: AdmissionRequest, verb: str, plural: str, role: str, rules: list[Obj]) -> None:
        wanted = Attributes(verb, rbac.GROUP, plural, "", request.namespace, role)
        if self._authorizer.allowed(request.user, wanted):
            return
        missing = rbac.uncovered(self._authorizer.rules(request.user, request.namespace), rules)
        if not missing:
            return
        lines = "\n".join(sorted(rbac.describe_rule(rule) for rule in rbac.compact(missing)))
        groups = " ".join(f'"{group}"' for group in request.user.groups)
        why = (
            f'user "{request.user.name}" (groups=[{groups}]) is attempting to grant RBAC permissions not currently held'
        )
        raise errors.forbidden(request.resource, request.name, f"{why}:\n{lines}")


def _granted(obj: Obj) -> Obj:
    """The object without what says who holds on to it."""
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name not in _HOLDING}
    return {**obj, "metadata": metadata}


class CreateGuard:
    """The plug-in that asks for `create` whenever something is created, by whichever verb: apply and update may do it too."""

    name = "CreateRights"

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def handles(self, request: AdmissionRequest) -> bool:
        return request.operation == "CREATE" and not request.subresource and MASTERS not in request.user.groups

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        """Refuses, before anybody else does anything about the object."""
        resource = request.resource
        wanted = Attributes("create", resource.group, resource.plural, "", request.namespace, version=resource.version)
        if not self._authorizer.allowed(request.user, wanted):  # a plain create names nothing, the others do
            self._authorizer.require(request.user, wanted._replace(name=request.name))
        return request.obj

    async def validate(self, request: AdmissionRequest) -> None:
        """There is nothing more to it."""
