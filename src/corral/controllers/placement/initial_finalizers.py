"""New placements come with the finalizers that their controllers would otherwise add, each with a write."""

from __future__ import annotations

from corral.controllers.placement.templates import is_template
from corral.core.admission import AdmissionRequest
from corral.core.meta import Obj
from corral.decide.placement.first_write import adopted_placement
from corral.kinds.fleet import CLUSTER_RESOURCE_PLACEMENTS, RESOURCE_PLACEMENTS

_KINDS = {(one.group, one.kind) for one in (CLUSTER_RESOURCE_PLACEMENTS, RESOURCE_PLACEMENTS)}


class PlacementAdoption:
    """Adds finalizers to placements that are created. Where it is not asked, the controllers add them later."""

    name = "fleet-placement-adoption"

    def handles(self, request: AdmissionRequest) -> bool:
        return request.operation == "CREATE" and not request.subresource and request.kind in _KINDS

    def refuses(self, request: AdmissionRequest) -> bool:
        return False

    async def mutate(self, request: AdmissionRequest) -> Obj | None:
        placement = request.obj
        if placement is None or (request.resource.namespaced and is_template(placement)):
            return placement
        return adopted_placement(placement, coalesce=True)

    async def validate(self, request: AdmissionRequest) -> None:
        """Nothing to refuse."""
