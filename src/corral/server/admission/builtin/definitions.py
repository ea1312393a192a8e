"""No new objects of a custom kind whose definition is on its way out."""

from __future__ import annotations

from typing import NamedTuple

from corral.core.admission import AdmissionRequest
from corral.core.errors import MethodNotAllowed
from corral.core.meta import Obj, is_deleting, uid_of
from corral.server.admission.builtin.base import BuiltinPlugin
from corral.server.admission.chain import Holding
from corral.store import ObjectKey, Store

_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"


class _Known(NamedTuple):
    """A definition as it was at a revision."""

    revision: int
    uid: str
    is_going: bool


class DefinitionLifecycle(BuiltinPlugin, Holding):
    """The plug-in."""

    name = "CustomResourceDefinitionLifecycle"

    def __init__(self, store: Store):
        self._store = store
        self._known: dict[str, _Known] = {}
        """What was seen of definitions that were looked at; they are large and change seldom."""

    def handles(self, request: AdmissionRequest) -> bool:
        return request.operation == "CREATE" and "." in request.resource.group

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        self._check(request)
        return request.obj

    def ground(self, request: AdmissionRequest) -> str:
        definition = self._definition(request)
        return definition.uid if definition is not None else ""

    def hold(self, request: AdmissionRequest, before: str) -> None:
        """What comes behind the end of its kind would be of the next one of that name."""
        self._check(request)
        if before and self.ground(request) != before:
            raise _gone()

    def _check(self, request: AdmissionRequest) -> None:
        definition = self._definition(request)
        if definition.is_going if definition is not None else request.resource.group_resource in self._known:
            raise _gone()

    def _definition(self, request: AdmissionRequest) -> _Known | None:
        name = request.resource.group_resource
        stored = self._store.head(ObjectKey(_DEFINITIONS, "", name))
        if stored is None:
            return None
        known = self._known.get(name)
        if known is None or known.revision != stored.revision:
            known = self._known[name] = _Known(stored.revision, uid_of(stored.obj), is_deleting(stored.obj))
        return known


def _gone() -> MethodNotAllowed:
    return MethodNotAllowed("create not allowed while custom resource definition is terminating", details={})
