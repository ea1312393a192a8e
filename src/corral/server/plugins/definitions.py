"""No new objects of a custom kind whose definition is on its way out."""

from __future__ import annotations

from corral.core.admission import AdmissionRequest
from corral.core.errors import MethodNotAllowed
from corral.core.meta import Obj, is_deleting
from corral.server.plugins.base import BuiltinPlugin
from corral.store import ObjectKey, Store

_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"


class DefinitionLifecycle(BuiltinPlugin):
    """The plug-in."""

    name = "CustomResourceDefinitionLifecycle"

    def __init__(self, store: Store):
        self._store = store

    def handles(self, request: AdmissionRequest) -> bool:
        return request.operation == "CREATE" and "." in request.resource.group

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        definition = self._store.head(ObjectKey(_DEFINITIONS, "", request.resource.group_resource))
        if definition is not None and b'"deletionTimestamp"' in definition.raw and is_deleting(definition.obj):
            raise MethodNotAllowed("create not allowed while custom resource definition is terminating", details={})
        return request.obj
