"""The guard rail: who may touch what a fleet is made of. Opt-in, as it is upstream.

Administrators may do nearly everything. Workloads' own accounts, the system's controllers and nodes may change what is in
the reserved namespaces; a member's identity may besides change what the fleet keeps for it in its own namespace: Works, the
InternalMemberCluster, exported and imported services. Everybody else is refused, and nobody at all may turn a member into one
that the provider of the fleet marked as its own, or back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from corral.client.protocol import Client
from corral.controllers.placement.admission import Refuses, refuse
from corral.core.admission import AdmissionRequest, UserInfo
from corral.core.errors import ApiError
from corral.core.meta import Obj, annotations_of, metadata_of, name_of, spec_of, status_of
from corral.kinds.fleet import MEMBER_CLUSTERS
from corral.kinds.fleet.inventory import INVENTORY_GROUP
from corral.kinds.fleet.names import CLUSTER_GROUP, PLACEMENT_GROUP, SYSTEM_NAMESPACE

ADMINISTRATORS: Final = ("system:masters", "kubeadm:cluster-admins")
_GROUPS: Final = ("system:serviceaccounts", "system:nodes")
_USERS: Final = ("system:kube-scheduler", "system:kube-controller-manager", "aks-support")
_NETWORKING: Final = "networking.fleet.azure.com"
_FLEET_GROUPS: Final = (CLUSTER_GROUP, PLACEMENT_GROUP, INVENTORY_GROUP, _NETWORKING)
_KEPT_FOR_MEMBERS: Final = (
    (CLUSTER_GROUP, "InternalMemberCluster"),
    (PLACEMENT_GROUP, "Work"),
    (_NETWORKING, "EndpointSliceExport"),
    (_NETWORKING, "EndpointSliceImport"),
    (_NETWORKING, "InternalServiceExport"),
    (_NETWORKING, "InternalServiceImport"),
)
"""Kinds that a member's own agents write in its namespace."""
_MARK: Final = "fleet.azure.com"
_MEMBERS: Final = "fleet-member-"
_UNWATCHED: Final = (("coordination.k8s.io", "Lease"), ("", "Event"), ("events.k8s.io", "Event"))
"""Kinds that are written all the time and protect nothing."""


class GuardRail(Refuses):
    """An admission plug-in for the hub."""

    name = "fleet-guard-rail"

    def __init__(self, client: Client, allowed_users: Iterable[str] = ()) -> None:
        self._client = client
        self._allowed = frozenset(allowed_users)

    def handles(self, request: AdmissionRequest) -> bool:
        return request.operation in ("CREATE", "UPDATE", "DELETE") and _webhook(request) != ""

    async def validate(self, request: AdmissionRequest) -> None:
        webhook = _webhook(request)
        if request.resource.kind == "MemberCluster":
            _check_marks(request, webhook)
        if self._is_administrator(request.user):
            return
        match request.resource.kind:
            case "CustomResourceDefinition":
                allowed = name_of(request.old or request.obj or {}).partition(".")[2] not in _FLEET_GROUPS
            case "MemberCluster":
                allowed = _may_change_member(request)
            case _ if request.kind in _KEPT_FOR_MEMBERS and request.namespace.startswith(_MEMBERS):
                allowed = _is_of_the_system(request.user) or await self._is_the_member(request)
            case _:
                allowed = _is_of_the_system(request.user)
        if not allowed:
            raise refuse(webhook, denial(request))

    def _is_administrator(self, user: UserInfo) -> bool:
        return user.name in self._allowed or any(group in ADMINISTRATORS for group in user.groups)

    async def _is_the_member(self, request: AdmissionRequest) -> bool:
        """Whether the user is who the MemberCluster of this namespace says it is."""
        try:
            member = await self._client.get(MEMBER_CLUSTERS, request.namespace.removeprefix(_MEMBERS))
        except ApiError:
            return True  # a guard that cannot see does not stand in the way
        identity = str((spec_of(member).get("identity") or {}).get("name") or "")
        return request.user.name in (identity, f"system:serviceaccount:{SYSTEM_NAMESPACE}:{identity}")


def _check_marks(request: AdmissionRequest, webhook: str) -> None:
    """Whether a member is the provider's is settled when it is made."""
    if request.operation != "UPDATE" or request.old is None or request.obj is None:
        return
    before, after = _is_marked(request.old), _is_marked(request.obj)
    if before and not after:
        text = "no user is allowed to remove all fleet pre-fixed annotations from a fleet member cluster"
        raise refuse(webhook, text)
    if after and not before:
        text = "no user is allowed to add a fleet pre-fixed annotation to an upstream member cluster"
        raise refuse(webhook, text)


def _may_change_member(request: AdmissionRequest) -> bool:
    """Anybody may bring, change and take away members, unless the provider of the fleet marked them as its own."""
    old, new = request.old, request.obj
    if request.operation != "UPDATE" or old is None or new is None:
        return not (_is_marked(old) or _is_marked(new)) or _is_of_the_system(request.user)
    if _is_marked(old):
        changed = _without_taints(old) != _without_taints(new) or _marks(old) != _marks(new)
    else:
        changed = status_of(old) != status_of(new)
    return not changed or _is_of_the_system(request.user)


def denial(request: AdmissionRequest) -> str:
    """What a user is told."""
    groups = request.user.groups
    shown = f"[{groups[0]}, {groups[1]}, {groups[2]},......]" if len(groups) > 10 else f"[{' '.join(groups)}]"
    resource = request.resource
    kind = f"{resource.group}/{resource.version}, Kind={resource.kind}"
    namespace = "" if resource.kind == "Namespace" else request.namespace
    return (
        f"user: '{request.user.name}' in 'groups: {shown}' is not allowed to {request.operation} resource"
        f" {kind}/{request.subresource}: {namespace}/{request.name}"
    )


def _webhook(request: AdmissionRequest) -> str:
    """The webhook that looks at such a request upstream; "" when none does."""
    match request.kind:
        case ("apiextensions.k8s.io", "CustomResourceDefinition"):
            return "customresourcedefinition.guardrail"
        case (group, "MemberCluster") if group == CLUSTER_GROUP:
            return "membercluster.guardrail"
        case ("", "Namespace"):
            return "namespace.guardrail" if request.name.startswith(("fleet-", "kube-")) else ""
    if request.kind in _UNWATCHED or not request.namespace:
        return ""
    if request.namespace.startswith(_MEMBERS):
        return "fleetmembernamespacedresources.guardrail"
    if request.namespace == SYSTEM_NAMESPACE:
        return "fleetsystemnamespacedresources.guardrail"
    return "kubenamespacedresources.guardrail" if request.namespace in _KUBE else ""


_KUBE: Final = ("kube-system", "kube-public", "kube-node-lease")


def _is_of_the_system(user: UserInfo) -> bool:
    return user.name in _USERS or any(group in _GROUPS for group in user.groups)


def _marks(member: Obj | None) -> dict[str, str]:
    found = {} if member is None else annotations_of(member)
    return {name: value for name, value in found.items() if name.startswith(_MARK)}


def _is_marked(member: Obj | None) -> bool:
    return bool(_marks(member))


def _without_taints(member: Obj) -> Obj:
    """What of a marked member only the system may change."""
    spec = {name: value for name, value in spec_of(member).items() if name != "taints"}
    kept = {name: metadata_of(member).get(name) for name in ("finalizers", "ownerReferences")}
    return {"spec": spec, "status": status_of(member), **kept}
