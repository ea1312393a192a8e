"""Admission on a hub: defaults and refusals that upstream has in webhooks, with their texts."""

from __future__ import annotations

from corral.client.protocol import Client
from corral.controllers.placement.catalog import Catalog
from corral.core.admission import AdmissionRequest
from corral.core.errors import Forbidden
from corral.core.meta import Obj, is_deleting, name_of, spec_of
from corral.decide.placement.selection import WITH_SELECTORS, is_reserved, is_selectable
from corral.decide.placement.validation import (
    MAX_OVERRIDES,
    aggregate,
    check_override,
    check_placement,
    duplicate_taint,
    lost_tolerations,
    with_defaults,
)
from corral.kinds.fleet import CLUSTER_OVERRIDES, OVERRIDES
from corral.kinds.fleet.names import CLUSTER_GROUP, PLACEMENT_GROUP


def refuse(webhook: str, text: str) -> Forbidden:
    return Forbidden(f'admission webhook "fleet.{webhook}.validating" denied the request: {text}')


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

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

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
            if lost_tolerations(request.old, placement):
                text = "tolerations have been updated/deleted, only additions to tolerations are allowed"
                raise refuse("clusterresourceplacementv1beta1", text)
        errors = [*check_placement(placement), *(await self._check_kinds(placement))]
        if errors:
            text = f"deny create/update v1beta1 CRP has invalid fields {aggregate(errors)}"
            raise refuse("clusterresourceplacementv1beta1", text)

    async def _check_kinds(self, placement: Obj) -> list[str]:
        selectors = spec_of(placement).get("resourceSelectors") or ()
        mixed = any(one.get("selectionScope") == WITH_SELECTORS for one in selectors)
        errors = []
        for selector in selectors:
            group, version, kind = (str(selector.get(part) or "") for part in ("group", "version", "kind"))
            resource = await self._catalog.find(group, version, kind)
            if resource is None:
                api = f"{group}/{version}" if group else version
                errors.append(f'failed to get GVR of the selector: no matches for kind "{kind}" in version "{api}"')
            elif not is_selectable(group, kind) or (resource.namespaced and not mixed):
                errors.append(
                    "the resource is not found in schema (please retry) or it is not a cluster scoped resource:"
                    f" {group}/{version}, Kind={kind}"
                )
        return errors


class OverrideAdmission:
    """Overrides: what they may patch, and that no object is in two of them."""

    name = "fleet-override"

    def __init__(self, client: Client) -> None:
        self._client = client

    def handles(self, request: AdmissionRequest) -> bool:
        return _is_write(request, PLACEMENT_GROUP, "ClusterResourceOverride", "ResourceOverride")

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        return request.obj

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


class MemberAdmission:
    """Taints of a member must differ."""

    name = "fleet-member"

    def handles(self, request: AdmissionRequest) -> bool:
        return _is_write(request, CLUSTER_GROUP, "MemberCluster")

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        return request.obj

    async def validate(self, request: AdmissionRequest) -> None:
        if request.obj is not None and (text := duplicate_taint(request.obj)):
            raise refuse("membercluster", text)


class NoWorkloads:
    """A hub runs nothing itself: pods and ReplicaSets are refused outside of the system's namespaces."""

    name = "fleet-no-workloads"

    def handles(self, request: AdmissionRequest) -> bool:
        return (
            request.operation == "CREATE"
            and not request.subresource
            and request.kind in (("", "Pod"), ("apps", "ReplicaSet"))
            and not is_reserved(request.namespace)
        )

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        return request.obj

    async def validate(self, request: AdmissionRequest) -> None:
        kind = request.resource.kind
        name = request.name or (name_of(request.obj) if request.obj is not None else "")
        end = "." if kind == "ReplicaSet" else ""
        text = f"{kind} {request.namespace}/{name} creation is disallowed in the fleet hub cluster{end}"
        raise refuse(kind.lower(), text)
