"""Admission on a hub of what members are told beyond what is on the hub: envelopes, and overrides of what is placed.

The agent of a member applies whatever it is sent, with its own rights. What is placed as it is went past the hub's guards
when it was created there; what is in an envelope or made by an override did not, so whoever writes one must be allowed
to do the same on the hub.
"""

from __future__ import annotations

from typing import Protocol

from corral.controllers.placement.admission import Refuses, refuse
from corral.core.admission import AdmissionRequest, UserInfo
from corral.core.meta import Obj, name_of, spec_of
from corral.decide.placement.envelopes import ENVELOPES, is_envelope
from corral.jobs.framework.registry import carried_objects, is_carrier
from corral.kinds.fleet.names import PLACEMENT_GROUP

_RBAC = "rbac.authorization.k8s.io"
_OVERRIDES = ("ClusterResourceOverride", "ResourceOverride")


class Rights(Protocol):
    """What users may do on the hub."""

    async def may_create(self, user: UserInfo, obj: Obj, namespace: str) -> bool: ...

    async def may_change(self, user: UserInfo, api_version: str, kind: str, namespace: str, name: str) -> bool: ...

    async def may_grant(self, user: UserInfo, namespace: str) -> bool: ...


class PlacedRights(Refuses):
    """The plug-in."""

    name = "fleet-placed-rights"
    kinds = tuple((PLACEMENT_GROUP, kind) for kind in (*sorted(ENVELOPES), *_OVERRIDES))

    def __init__(self, rights: Rights) -> None:
        self._rights = rights

    def handles(self, request: AdmissionRequest) -> bool:
        return request.kind in self.kinds and request.operation in ("CREATE", "UPDATE") and not request.subresource

    async def validate(self, request: AdmissionRequest) -> None:
        new, old = request.obj or {}, request.old or {}
        if request.resource.kind in _OVERRIDES:
            if spec_of(new) != spec_of(old):
                await self._check_override(request, new)
        elif new.get("data") != old.get("data"):
            for name, obj in sorted((new.get("data") or {}).items()):
                await self._check_wrapped(request, name, obj)

    async def _check_wrapped(self, request: AdmissionRequest, name: str, obj: Obj) -> None:
        """The wrapped object, and what it carries in its turn. An envelope in an envelope is applied as it is, unopened."""
        for one in (obj, *carried_objects(obj)):
            if not await self._rights.may_create(request.user, one, request.namespace):
                where = f" in {request.namespace}" if request.namespace else ""
                text = f"data[{name}]: user {request.user.name} is not authorized to create {_shown(one)}{where}"
                raise refuse(request.resource.kind.lower(), text)

    async def _check_override(self, request: AdmissionRequest, override: Obj) -> None:
        spec, user, namespace = spec_of(override), request.user, request.namespace
        for selector in spec.get("clusterResourceSelectors") or spec.get("resourceSelectors") or ():
            group, kind, name = (str(selector.get(part) or "") for part in ("group", "kind", "name"))
            version = str(selector.get("version") or "")
            api_version = f"{group}/{version}" if group else version
            if not await self._rights.may_change(user, api_version, kind, namespace, name):
                text = f"user {user.name} is not authorized to update {kind} {name}, so may not override it"
                raise refuse(request.resource.kind.lower(), text)
            if _may_hold_grants(group, kind) and not await self._rights.may_grant(user, namespace):
                text = (
                    f"an override of {kind} {name} may grant any right on members: user {user.name} needs the verbs"
                    " escalate on roles and bind on clusterroles"
                )
                raise refuse(request.resource.kind.lower(), text)


def _may_hold_grants(group: str, kind: str) -> bool:
    """Roles and bindings, and what they can be in: an override of a namespace is one of all that is in it."""
    wraps = is_envelope({"apiVersion": f"{group}/", "kind": kind})
    return group == _RBAC or wraps or is_carrier(group, kind) or (group, kind) == ("", "Namespace")


def _shown(obj: Obj) -> str:
    return f"{obj.get('kind')} {name_of(obj)}"
