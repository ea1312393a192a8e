"""The placement reconcilers, one small file each.

`set_up_placement` adds all of them to a hub's manager: members join and leave, placements select and freeze, the
scheduler picks clusters, rollouts release bindings, Works are written, statuses are summed up. `placement_plugins` are the
admission rules of the hub's API, for whoever answers for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from corral.client.protocol import Client
from corral.configuration.placement import PlacementSettings
from corral.controllers.placement.admission import (
    EvictionAdmission,
    MemberAdmission,
    NoWorkloads,
    OverrideAdmission,
    PlacementAdmission,
)
from corral.controllers.placement.catalog import Catalog
from corral.controllers.placement.evictions import EvictionController
from corral.controllers.placement.guard_rail import GuardRail
from corral.controllers.placement.initial_finalizers import PlacementAdoption
from corral.controllers.placement.members import MemberController, Members
from corral.controllers.placement.overrides import PAIRS, OverrideController, OverrideRecords
from corral.controllers.placement.placed_rights import PlacedRights, Rights
from corral.controllers.placement.placement_kinds import SCOPES
from corral.controllers.placement.placements import PlacementController
from corral.controllers.placement.profiles import ProfileController
from corral.controllers.placement.reports import ReportController
from corral.controllers.placement.reservations import Reservations
from corral.controllers.placement.rollouts import RolloutController
from corral.controllers.placement.runs import RunController
from corral.controllers.placement.scheduler import SchedulerController
from corral.controllers.placement.selections import Selections
from corral.controllers.placement.templates import TemplateController
from corral.controllers.placement.works import WorkController
from corral.core.admission import AdmissionPlugin
from corral.runtime.controller import Manager


def set_up_placement(
    manager: Manager, settings: PlacementSettings | None = None, rights: Rights | None = None
) -> Sequence[AdmissionPlugin]:
    """Register every hub controller; returns the admission rules of the hub's API.

    `rights` answers what users may do on the hub; None where nobody has any."""
    settings = settings or PlacementSettings()
    catalog = Catalog(manager)
    members = Members(manager)
    overrides = OverrideRecords(manager, members)
    selections = Selections(manager, catalog, runs_workloads=settings.admit_workloads)
    reservations = Reservations(manager.clock, selections.remembered, enabled=settings.reserve)
    MemberController(manager, settings)
    if settings.inventory:
        ProfileController(manager, settings)
    for pair in PAIRS:
        OverrideController(manager, pair)
    for scope in SCOPES:
        PlacementController(manager, scope, settings, selections)
        SchedulerController(manager, scope, settings, members, overrides, reservations)
        RolloutController(manager, scope, overrides)
        WorkController(manager, scope, settings, members, overrides, catalog)
        RunController(manager, scope, settings, members, overrides, selections)
    EvictionController(manager)
    TemplateController(manager)
    ReportController(manager, catalog)
    return placement_plugins(manager.client, catalog, settings, rights)


def placement_plugins(
    client: Client, catalog: Catalog, settings: PlacementSettings, rights: Rights | None = None
) -> Sequence[AdmissionPlugin]:
    """What admits placements, overrides and members; `catalog` knows which kinds the hub serves."""
    plugins: list[AdmissionPlugin] = [
        PlacementAdmission(catalog, strict=settings.strict_admission),
        OverrideAdmission(client),
        MemberAdmission(),
        EvictionAdmission(client),
    ]
    if rights is not None:
        plugins.append(PlacedRights(rights))
    if settings.coalesce_writes:
        plugins.append(PlacementAdoption())
    if settings.guard_rail:
        plugins.append(GuardRail(client, settings.allowed_users))
    return plugins if settings.admit_workloads else [*plugins, NoWorkloads()]
