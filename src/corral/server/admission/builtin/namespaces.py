"""Namespaces must exist before anything is created in them, take nothing new once they end, and some never end."""

from __future__ import annotations

from corral.core import errors
from corral.core.admission import AdmissionRequest
from corral.core.errors import Forbidden
from corral.core.meta import Obj, is_deleting, uid_of
from corral.kinds.kubernetes.core.kinds import NAMESPACES
from corral.server.admission.builtin.base import BuiltinPlugin
from corral.server.admission.chain import Holding
from corral.store import ObjectKey, Store, Stored

IMMORTAL = ("default", "kube-system", "kube-public")


class NamespaceLifecycle(BuiltinPlugin, Holding):
    """The plug-in."""

    name = "NamespaceLifecycle"

    def __init__(self, store: Store):
        self._store = store

    def handles(self, request: AdmissionRequest) -> bool:
        if request.operation == "CREATE":
            return request.resource.namespaced and not request.subresource
        return request.operation == "DELETE" and request.resource.plural == "namespaces" and not request.resource.group

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        if request.operation == "DELETE":
            if request.name in IMMORTAL:
                raise errors.forbidden(request.resource, request.name, "this namespace may not be deleted")
            return request.obj
        self._check(request)
        return request.obj

    def ground(self, request: AdmissionRequest) -> str:
        namespace = self._namespace(request) if request.operation == "CREATE" else None
        return uid_of(namespace.obj) if namespace is not None else ""

    def hold(self, request: AdmissionRequest, before: str) -> None:
        """Whatever would come into a namespace behind its end belonged to the next one of that name."""
        if request.operation == "CREATE" and uid_of(self._check(request).obj) != before:
            raise errors.not_found(NAMESPACES, request.namespace)  # that of this name is another one

    def _check(self, request: AdmissionRequest) -> Stored:
        namespace = self._namespace(request)
        if namespace is None:
            raise errors.not_found(NAMESPACES, request.namespace)
        if is_deleting(namespace.obj):
            raise _ending(request)
        return namespace

    def _namespace(self, request: AdmissionRequest) -> Stored | None:
        return self._store.head(ObjectKey("namespaces", "", request.namespace))


def _ending(request: AdmissionRequest) -> Forbidden:
    space = request.namespace
    why = f"unable to create new content in namespace {space} because it is being terminated"
    error = errors.forbidden(request.resource, request.name, why)
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {space} is being terminated",
        "field": "metadata.namespace",
    }
    return Forbidden(error.message, details={**(error.details or {}), "causes": [cause]})
