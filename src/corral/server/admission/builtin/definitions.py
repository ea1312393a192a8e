"""No new objects of a custom kind whose definition is on its way out."""

from __future__ import annotations

from corral.core.admission import AdmissionRequest
from corral.core.errors import MethodNotAllowed
from corral.core.meta import Obj, is_deleting
from corral.server.admission.builtin.base import BuiltinPlugin
from corral.store import ObjectKey, Store, Stored

_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"


class DefinitionLifecycle(BuiltinPlugin):
    """The plug-in."""

    name = "CustomResourceDefinitionLifecycle"

    def __init__(self, store: Store):
        self._store = store
        self._known: dict[str, tuple[int, bool]] = {}
        """Of definitions looked at, the revision, and whether each is going; they are large and change seldom."""

    def handles(self, request: AdmissionRequest) -> bool:
        return request.operation == "CREATE" and "." in request.resource.group

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        self.hold(request)
        return request.obj

    def hold(self, request: AdmissionRequest) -> None:
        """Looked at again when it is stored: what comes behind the end of its kind would be of the next one of that name."""
        name = request.resource.group_resource
        definition = self._store.head(ObjectKey(_DEFINITIONS, "", name))
        if self._is_going(definition) if definition is not None else name in self._known:
            raise MethodNotAllowed("create not allowed while custom resource definition is terminating", details={})

    def _is_going(self, definition: Stored) -> bool:
        known = self._known.get(definition.key.name)
        if known is None or known[0] != definition.revision:
            going = b'"deletionTimestamp"' in definition.raw and is_deleting(definition.obj)
            known = self._known[definition.key.name] = (definition.revision, going)
        return known[1]
