"""Admission on a hub: defaults and refusals that upstream has in webhooks, with their texts."""

from __future__ import annotations

from corral.client.protocol import Client
from corral.controllers.placement.catalog import Catalog
from corral.core.admission import AdmissionRequest
from corral.core.errors import Forbidden, NotFound
from corral.core.meta import Obj, is_deleting, name_of, spec_of
from corral.core.resource import Resource
from corral.decide.placement.defaults import with_defaults
from corral.decide.placement.go_texts import aggregate
from corral.decide.placement.selection import WITH_SELECTORS, is_reserved, is_selectable
from corral.decide.placement.validation.overrides import MAX_OVERRIDES, check_override
from corral.decide.placement.validation.placements import (
    KindCheck,
    check_budget,
    check_evictable,
    check_placement,
    check_taints,
)
from corral.decide.placement.validation.policies import lost_tolerations, type_changed
from corral.kinds.fleet import CLUSTER_OVERRIDES, CLUSTER_RESOURCE_PLACEMENTS, OVERRIDES
from corral.kinds.fleet.names import CLUSTER_GROUP, PLACEMENT_GROUP

PLACEMENT = "clusterresourceplacementv1beta1"
EVICTION = "ClusterResourcePlacementEviction"
BUDGET = "ClusterResourcePlacementDisruptionBudget"


def refuse(webhook: str, text: str) -> Forbidden:
    return Forbidden(f'admission webhook "fleet.{webhook}.validating" denied the request: {text}')


class Refuses:
    """What plug-ins have in common that change nothing."""

    def changes(self, request: AdmissionRequest) -> bool:
        return False

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        return request.obj


def _is_write(request: AdmissionRequest, group: str, *kinds: str) -> bool:
    return (
        request.operation in ("CREATE", "UPDATE")
        and not request.subresource
        and request.resource.group == group
        and request.resource.kind in kinds
    )


class PlacementAdmission:
    """ClusterResourcePlacements are completed and checked; ResourcePlacements are left to their schema, as upstream does."""

    name = "fleet-placement"

    def __init__(self, catalog: Catalog, *, strict: bool = False) -> None:
        self._catalog = catalog
        self._strict = strict

    def handles(self, request: AdmissionRequest) -> bool:
        return _is_write(request, PLACEMENT_GROUP, "ClusterResourcePlacement")

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        return request.obj if request.obj is None or is_deleting(request.obj) else with_defaults(request.obj)

    async def validate(self, request: AdmissionRequest) -> None:
        placement = request.obj
        if placement is None or is_deleting(placement):
            return
        if request.old is not None:
            if spec_of(request.old) == spec_of(placement):
                return
            if type_changed(request.old, placement):
                raise refuse(PLACEMENT, "placement type is immutable")
            if lost_tolerations(request.old, placement):
                text = "tolerations have been updated/deleted, only additions to tolerations are allowed"
                raise refuse(PLACEMENT, text)
        errors = check_placement(placement, await self._check_kinds(placement), strict=self._strict)
        if errors:
            raise refuse(PLACEMENT, f"deny create/update v1beta1 CRP has invalid fields {aggregate(errors)}")

    async def _check_kinds(self, placement: Obj) -> list[KindCheck]:
        selectors = spec_of(placement).get("resourceSelectors") or ()
        mixed = any(one.get("selectionScope") == WITH_SELECTORS for one in selectors)
        checks = []
        for selector in selectors:
            group, version, kind = (str(selector.get(part) or "") for part in ("group", "version", "kind"))
            resource = await self._catalog.find(group, version, kind)
            if resource is None:
                checks.append(KindCheck.UNKNOWN)
            else:
                checks.append(KindCheck.FIT if await self._fits(resource, namespaced=mixed) else KindCheck.UNFIT)
        return checks

    async def _fits(self, resource: Resource, *, namespaced: bool) -> bool:
        """Whether a ClusterResourcePlacement may select the kind; `namespaced` kinds only beside their namespace."""
        if not is_selectable(resource.group, resource.kind) or (resource.namespaced and not namespaced):
            return False
        return not self._strict or resource in await self._catalog.preferred()


class OverrideAdmission(Refuses):
    """Overrides: what they may patch, and that no object is in two of them."""

    name = "fleet-override"

    def __init__(self, client: Client) -> None:
        self._client = client

    def handles(self, request: AdmissionRequest) -> bool:
        return _is_write(request, PLACEMENT_GROUP, "ClusterResourceOverride", "ResourceOverride")

    async def validate(self, request: AdmissionRequest) -> None:
        override = request.obj
        if override is None or is_deleting(override):
            return
        if request.old is not None and spec_of(request.old) == spec_of(override):
            return
        wide = request.resource.kind == "ClusterResourceOverride"
        webhook = "clusterresourceoverride" if wide else "resourceoverride"
        resource = CLUSTER_OVERRIDES if wide else OVERRIDES
        others = (await self._client.list(resource, "" if wide else request.namespace)).items
        if request.operation == "CREATE" and len(others) >= MAX_OVERRIDES:
            word, things = (
                ("clusterResourceOverride", "cluster resources") if wide else ("resourceOverride", "resources")
            )
            raise refuse(webhook, f"{word} limit has been reached: at most {MAX_OVERRIDES} {things} can be created.")
        errors = check_override(override, others)
        if errors:
            raise refuse(webhook, aggregate(errors))


class MemberAdmission(Refuses):
    """Taints of a member must differ."""

    name = "fleet-member"

    def handles(self, request: AdmissionRequest) -> bool:
        return _is_write(request, CLUSTER_GROUP, "MemberCluster")

    async def validate(self, request: AdmissionRequest) -> None:
        if request.obj is not None and (errors := check_taints(request.obj)):
            raise refuse("membercluster", aggregate(errors))


class EvictionAdmission(Refuses):
    """Evictions of what cannot be evicted, and budgets that would mean nothing."""

    name = "fleet-eviction"

    def __init__(self, client: Client) -> None:
        self._client = client

    def handles(self, request: AdmissionRequest) -> bool:
        if _is_write(request, PLACEMENT_GROUP, BUDGET):
            return True
        return request.operation == "CREATE" and _is_write(request, PLACEMENT_GROUP, EVICTION)

    async def validate(self, request: AdmissionRequest) -> None:
        if request.obj is None or is_deleting(request.obj):
            return
        is_budget = request.resource.kind == BUDGET
        name = name_of(request.obj) if is_budget else str(spec_of(request.obj).get("placementName") or "")
        try:
            placement = await self._client.get(CLUSTER_RESOURCE_PLACEMENTS, name)
        except NotFound:
            return
        if is_budget:
            if errors := check_budget(request.obj, placement):
                raise refuse(BUDGET.lower(), aggregate(errors))
        elif text := check_evictable(placement):
            raise refuse(EVICTION.lower(), text)


class NoWorkloads(Refuses):
    """A hub runs nothing itself: pods, ReplicaSets and their budgets are refused outside of the system's namespaces."""

    name = "fleet-no-workloads"

    def handles(self, request: AdmissionRequest) -> bool:
        return (
            request.operation == "CREATE"
            and not request.subresource
            and request.kind in (("", "Pod"), ("apps", "ReplicaSet"), ("policy", "PodDisruptionBudget"))
            and not is_reserved(request.namespace)
        )

    async def validate(self, request: AdmissionRequest) -> None:
        kind = request.resource.kind
        name = request.name or (name_of(request.obj) if request.obj is not None else "")
        if kind == "PodDisruptionBudget":
            text = (
                f"PDBs {request.namespace}/{name} cannot be directly created in the hub cluster due to potential side"
                " effects; to place a PDB to member clusters, consider wrapping it in a resource envelope."
            )
            raise refuse(kind.lower(), text)
        end = "." if kind == "ReplicaSet" else ""
        text = f"{kind} {request.namespace}/{name} creation is disallowed in the fleet hub cluster{end}"
        raise refuse(kind.lower(), text)
